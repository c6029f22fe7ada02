"""The Penn Treebank tokenisation that published caption scores are computed on.

COCO's caption evaluation cuts captions up with Stanford's PTB tokeniser (CoreNLP 3.4.1), in lower
case, and drops a list of punctuation. These are the same rules without Java. As there, round
brackets survive as ``-lrb-`` and ``-rrb-`` (they are lower-case when the list is applied), repeated
marks such as ``!!`` survive, and dashes vanish. One thing differs: Java lets the first word of the
next caption decide whether a final ``K.`` keeps its point; here a caption stands by itself.
"""

from __future__ import annotations

import re
from functools import lru_cache

_DROPPED = frozenset(["''", "'", "``", "`", ".", "?", "!", ",", ":", "-", "--", "...", ";"])


def _alternatives(words: str) -> str:
    return "|".join(words.split())


# Abbreviations keep their point: in any letter case, ...
_ABBREVIATIONS = _alternatives("""
    adj adm adv al ala alex apr ariz assn assoc asst atty attys aug ave bancorp bhd bldg blvd brig
    bros calif capt cf cmdr co col colo conn corp cos cpl ct dak dec dept det dr drs elec est etc
    ext feb fla fri ft ga gen gov govs hon inc ind insp intl jan jos jr jul jun kan ky lt ltd maj
    mar md messrs mfg mich minn mlle mme mo mon mont mr mrs ms mt natl neb nev nov oct okla penn ph
    plc pres prof profs pty pvt rd rep reps rev sen sens sep sept seq sgt sq sr st ste supt tel tenn
    thu thurs treas tue tues univ va vs vt wed wis wm wyo""")
# ... only if not all lower-case, ...
_CAPITALISED = _alternatives(
    "Ark ARK Del DEL Ill ILL La LA Mass MASS Miss MISS Ore ORE Pa PA Tex TEX Wash WASH"
)
# ... and only before a number.
_BEFORE_NUMBERS = _alternatives("art ca fig figs no nos op pp prop")
# A letter with a point is an initial, unless one of these words follows and starts a sentence.
_STARTS = _alternatives(r"""
    A AN AS AT About According Additionally After An As At But Earlier He Her Here However IF IN IT
    If In It Last MANY Many More Mr\. Ms\. Now Once One Other Our SOME She Since So Some Such THAT
    THE THERE THIS That The Their Then There These They This WE WHAT We What When While Yet You""")

_FRACTIONS = {"\u00bc": "1/4", "\u00bd": "1/2", "\u00be": "3/4", "\u2153": "1/3", "\u2154": "2/3"}
# What the tokeniser doesn't know and leaves out: controls, guillemets, rare dashes, emoji.
_UNKNOWN = (
    "\x00-\x08\x0e-\x1f\x7f-\x9f\xab\xad\xbb\u200b-\u2012\u201b\u2024\u2025\u2027\u202a-\u202e"
    "\u2039\u203a\u203c\u203d\u2043\u2045-\u206f\u20a1-\u20a3\u20a5-\u20ab\u20ad-\u20cf\ufeff\ufffd"
    "\U00010000-\U0010ffff"
)
_NO_LETTERS = "".join(_FRACTIONS) + "\xb2\xb3\xb9\u2070-\u209c\u2155-\u215e\U00010000-\U0010ffff"
_L = rf"[^\W\d_{_NO_LETTERS}]"  # a letter
_D = rf"(?:{_L}|\d)"  # a letter or a digit
_A = "['\u2019]"  # an apostrophe

# Every place takes the longest match, the first of equal ones. Where a rule has a group, that is
# the token and the rest its context.
_RULES = [
    # markup, addresses, accounts, faces
    r"</?[A-Za-z][A-Za-z0-9:-]*(?:\s[^<>\r\n]*)?/?>",
    r"(?:https?://|www\.)[^\s<>\"]+[^\s<>\"\.!?,;:)]",
    r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+",
    r"[#@][A-Za-z][A-Za-z0-9_]*",
    rf"[<>]?[:;=]['o-]?[()DPdpO\\@|\[\]](?!{_D})",
    # words run together, and what an apostrophe cuts off
    r"(?i:(can)not|(gon|got|wan)[nt]a|(lem|gim)me)",
    rf"(?i:({_A}t)(?:is|was))(?!{_L})",
    rf"({_L}+?)[nN]{_A}[tT]",
    rf"[nN]{_A}[tT]",
    rf"(?i:{_A}(?:s|d|m|ll|re|ve))(?!{_L})",
    rf"{_A}n{_A}|{_A}n(?!{_L})|(?i:{_A}(?:em|till?|cause))|{_A}[2-9]0s",
    rf"[A-HJ-XZn]{_A}{_L}{{2,}}|[dDoOlL]{_A}{_L}{_D}*",
    rf"(?i:ol{_A}|c{_A}mon|s{_A}more|li{_A}l)(?!{_L})",
    rf"{_L}+[aeiouyAEIOUY]{_A}[aeiouA-Z]{_L}*",
    # abbreviations
    rf"(?:{_CAPITALISED})\.",
    rf"(?i:{_ABBREVIATIONS})\.",
    rf"((?i:{_BEFORE_NUMBERS})\.)\s*\d",
    r"(?:[A-Za-z]\.)+",
    rf"([A-Za-z])\.\s+(?:{_STARTS})\s",
    # words with points, hyphens, slashes or ampersands inside
    rf"{_L}{_D}*(?:[.!?]{_L}{_D}*)*",
    rf"{_D}+(?:[-_]{_D}+)*",
    rf"{_L}+(?:/{_L}+)+",
    r"[A-Z]+(?:(?:[&+]|&amp;)[A-Z]+)+",
    # numbers
    r"[-+]?(?:\d*(?:[.:,]\d+)+|\d+)",
    r"(?:\d{1,4}[- \u00a0])?\d{1,4}/\d{1,4}",
    r"\d{1,2}[-/]\d{1,2}[-/]\d{2,4}",
    r"[A-Z]*\$",
    # marks, and anything else by the character
    rf"\.\.\.+|--+|[?!]+|``|''|_+|&amp;|[^\s{_UNKNOWN}]",
]
_COMPILED = [re.compile(rule) for rule in _RULES]
# Only these let a rule look across a space.
_ACROSS_SPACES = re.compile(r"[\d<]|\b[A-Za-z]\.\s")
_REPEATED = re.compile(r"(-)--+|(\.)\.\.\.+")

_SPELLED = {
    "(": "-lrb-", ")": "-rrb-", "[": "-lsb-", "]": "-rsb-", "{": "-lcb-", "}": "-rcb-",
    '"': "''", "\u201c": "``", "\u201d": "''", "\u2018": "`", "\u2026": "...",
    "\u2013": "--", "\u2014": "--", "\u2015": "--",
    "\u00a3": "#", "\u20ac": "$", "\u20a0": "$", "\u00a4": "$", "\u00a2": "cents", **_FRACTIONS,
}  # fmt: skip


def ptb_tokenize(text: str) -> list[str]:
    """Cut one caption into lower-case tokens without punctuation; an empty list if none is left."""
    if _ACROSS_SPACES.search(text):
        return list(_tokens(text))
    return [token for part in text.split() for token in _cached_tokens(part)]


def _tokens(text: str) -> tuple[str, ...]:
    tokens: list[str] = []
    place = 0
    while place < len(text):
        raw = _longest(text, place)
        if not raw:  # space, or something unknown
            place += 1
            continue
        place += len(raw)
        token = _spell(raw)
        if token not in _DROPPED:
            tokens += token.split()
    return tuple(tokens)


_cached_tokens = lru_cache(maxsize=2**16)(_tokens)


def _longest(text: str, place: int) -> str:
    length, token = 0, ""
    for rule in _COMPILED:
        found = rule.match(text, place)
        if found and found.end() - place > length:
            length = found.end() - place
            token = found.group(found.lastindex or 0)
    return token


def _spell(raw: str) -> str:
    if raw in _SPELLED:
        return _SPELLED[raw]
    if _REPEATED.fullmatch(raw):
        return "--" if raw[0] == "-" else "..."
    if len(raw) > 1 and raw[0] in "<>:;=" and raw[-1] in "()[]{":
        return (raw[:-1] + _SPELLED[raw[-1]]).lower()
    return raw.replace("\u2019", "'").replace("&amp;", "&").lower()
