"""A small English-German grammar: one structure, two word orders.

German puts the finite verb second in main clauses and last in subordinate ones, closes the clause
with participles, infinitives and separated prefixes, and inverts subject and verb behind a fronted
adverb or clause. Articles, adjectives and relative pronouns agree in gender, number and case. So a
word's translation and its place depend on words some distance away.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Literal, TypeVar

from .words import (
    ADJECTIVES,
    ADVERBS,
    ARTICLES,
    CASES,
    CONJUNCTIONS,
    ENDINGS,
    ENGLISH_PLURAL_ARTICLES,
    MODALS,
    NOUNS,
    PLACES,
    PRONOUNS,
    SAYING,
    VERBS,
    Case,
    Noun,
    Verb,
)

Tokens = list[str]
Order = Literal["second", "last", "first"]
_Item = TypeVar("_Item")


@dataclass(frozen=True)
class NounPhrase:
    """An article, perhaps an adjective, a noun, perhaps a relative clause."""

    noun: Noun
    plural: bool
    article: str
    adjective: tuple[str, str] | None = None
    relative: Clause | None = None

    def english(self) -> Tokens:
        """Give the English words."""
        words = [self.adjective[0]] if self.adjective else []
        words.append(self.noun.english_plural if self.plural else self.noun.english)
        article = ENGLISH_PLURAL_ARTICLES[self.article] if self.plural else self.article
        if article == "a" and words[0][0] in "aeiou":
            article = "an"
        tail = ["that", *self.relative.english_predicate()] if self.relative else []
        return [article, *words, *tail]

    def german(self, case: Case) -> Tokens:
        """Give the German words in a case; a relative clause stands between commas."""
        gender = "p" if self.plural else self.noun.gender
        at = CASES.index(case)
        words = [ARTICLES[self.article][gender][at]]
        if self.adjective:
            words.append(self.adjective[1] + ENDINGS[self.article][gender][at])
        words.append(self.noun.in_german(case, self.plural))
        if self.relative:
            pronoun = ARTICLES["the"][gender][0]
            words += [",", pronoun, *self.relative.german_rest("last"), ","]
        return words


@dataclass(frozen=True)
class Pronoun:
    """A personal pronoun as subject."""

    words: tuple[str, str]
    plural: bool

    def english(self) -> Tokens:
        """Give the English word."""
        return [self.words[0]]

    def german(self, case: Case) -> Tokens:
        """Give the German word; only the nominative is used."""
        return [self.words[1]]


@dataclass(frozen=True)
class Clause:
    """Subject, verb in a tense, and what goes with it.

    Attributes:
        tense: ``present``, ``perfect``, or one of the modal verbs.
        object: what the verb's case governs, if it takes an object.
        adverb: at the end in English, behind the finite verb in German.
        place: at the end in English, behind the object in German.
        fronted: whether the adverb opens the clause.
    """

    subject: NounPhrase | Pronoun
    verb: Verb
    tense: str
    object: NounPhrase | None = None
    adverb: tuple[str, str] | None = None
    place: tuple[str, str, NounPhrase] | None = None
    fronted: bool = False
    content: list[Clause] = field(default_factory=list)

    def english(self, question: bool = False) -> Tokens:
        """Give the English words."""
        subject = self.subject.english()
        if question:
            helper, *rest = self._english_verb(helper=True)
            return [helper, *subject, *rest, *self._english_tail()]
        if self.fronted and self.adverb:
            return [self.adverb[0], *subject, *self.english_predicate()]
        return [*subject, *self.english_predicate()]

    def english_predicate(self) -> Tokens:
        """Give all but the subject, the verb first."""
        return [*self._english_verb(), *self._english_tail()]

    def _english_verb(self, helper: bool = False) -> Tokens:
        verb, plural = self.verb, self.subject.plural
        if self.tense == "perfect":
            words = ["have" if plural else "has", verb.participle]
        elif self.tense != "present":
            words = [self.tense, verb.base]
        elif helper:
            words = ["do" if plural else "does", verb.base]
        else:
            words = [verb.base if plural else verb.third]
        return [*words, verb.particle] if verb.particle else words

    def _english_tail(self) -> Tokens:
        words = self.object.english() if self.object else []
        if self.place:
            words += [self.place[0], *self.place[2].english()]
        if self.adverb and not self.fronted:
            words.append(self.adverb[0])
        if self.content:
            words += ["that", *self.content[0].english()]
        return words

    def german(self, order: Order) -> Tokens:
        """Give the German words.

        Args:
            order: of the finite verb: ``second`` (behind the subject or a fronted adverb),
                ``last`` (subordinate), ``first`` (question or behind a fronted clause).
        """
        subject = self.subject.german("nom")
        if order == "second" and not (self.fronted and self.adverb):
            return [*subject, *self.german_rest("second")]
        if order == "last":
            return [*subject, *self.german_rest("last")]
        opening = [self.adverb[1]] if order == "second" and self.adverb else []
        finite, *rest = self.german_rest("second")
        return [*opening, finite, *subject, *rest]

    def german_rest(self, order: Order) -> Tokens:
        """Give all but the subject, with the finite verb first or last."""
        finite, closing = self._german_verb(joined=order == "last")
        middle = [self.adverb[1]] if self.adverb and not self.fronted else []
        if self.object and self.verb.case:
            middle += self.object.german(self.verb.case)
        if self.place:
            middle += [self.place[1], *self.place[2].german("dat")]
        after = [",", "dass", *self.content[0].german("last")] if self.content else []
        if order == "last":
            return [*middle, *closing, finite, *after]
        return [finite, *middle, *closing, *after]

    def _german_verb(self, joined: bool) -> tuple[str, Tokens]:
        """Give the finite form and the words that close the clause."""
        verb, plural = self.verb, self.subject.plural
        if self.tense == "perfect":
            forms = ("ist", "sind") if verb.sein else ("hat", "haben")
            return forms[plural], [verb.partizip]
        if self.tense != "present":
            forms = next(modal[1:] for modal in MODALS if modal[0] == self.tense)
            return forms[plural], [verb.prefix + verb.infinitive]
        finite = verb.infinitive if plural else verb.er
        if joined:
            return verb.prefix + finite, []
        return finite, [verb.prefix] if verb.prefix else []


def _pick(random: Random, items: tuple[_Item, ...]) -> _Item:
    # Only random() itself is promised to be the same in every version of Python.
    return items[int(random.random() * len(items))]


def _chance(random: Random, probability: float) -> bool:
    return random.random() < probability


def _noun_phrase(random: Random, noun: Noun, *, relative: bool = False) -> NounPhrase:
    plural = _chance(random, 0.35)
    article = _pick(random, ("the", "the", "a", "this"))
    adjective = _pick(random, ADJECTIVES) if _chance(random, 0.4) else None
    phrase = NounPhrase(noun, plural, article, adjective)
    if not relative:
        return phrase
    return NounPhrase(noun, plural, article, adjective, _clause(random, phrase, small=True))


def _clause(
    random: Random, subject: NounPhrase | Pronoun | None = None, *, small: bool = False
) -> Clause:
    """Draw a clause; a small one has neither adverb nor place nor a relative clause inside."""
    if subject is None and _chance(random, 0.25):
        english, german, plural = _pick(random, PRONOUNS)
        subject = Pronoun((english, german), plural)
    elif subject is None:
        relative = not small and _chance(random, 0.15)
        subject = _noun_phrase(random, _pick(random, NOUNS), relative=relative)
    verb = _pick(random, VERBS)
    tense = _pick(random, ("present", "present", "perfect", *(modal[0] for modal in MODALS)))
    target = _noun_phrase(random, _pick(random, NOUNS)) if verb.case else None
    if small:
        return Clause(subject, verb, tense, target)
    place = None
    if _chance(random, 0.3):
        english, german, noun = _pick(random, PLACES)
        place = (english, german, _noun_phrase(random, noun))
    adverb = _pick(random, ADVERBS) if _chance(random, 0.4) else None
    fronted = adverb is not None and _chance(random, 0.5)
    return Clause(subject, verb, tense, target, adverb, place, fronted)


def draw_pair(random: Random) -> tuple[str, str]:
    """Draw one sentence in English and German, as raw text."""
    kind = random.random()
    main = _clause(random)
    if kind < 0.4:
        return _written(main.english()), _written(main.german("second"))
    if kind < 0.5:
        plain = Clause(main.subject, main.verb, main.tense, main.object, place=main.place)
        return _written(plain.english(question=True), "?"), _written(plain.german("first"), "?")
    inner = _clause(random, small=True)
    if kind < 0.65:
        saying = Clause(main.subject, SAYING, _pick(random, ("present", "perfect")))
        saying.content.append(inner)
        return _written(saying.english()), _written(saying.german("second"))
    english, german = _pick(random, CONJUNCTIONS)
    if kind < 0.85:
        first = [*main.english(), english, *inner.english()]
        second = [*main.german("second"), ",", german, *inner.german("last")]
        return _written(first), _written(second)
    outer = Clause(main.subject, main.verb, main.tense, main.object, place=main.place)
    first = [english, *inner.english(), ",", *outer.english()]
    second = [german, *inner.german("last"), ",", *outer.german("first")]
    return _written(first), _written(second)


def _written(tokens: Tokens, end: str = ".") -> str:
    """Write words as text: first letter large, punctuation attached, commas never doubled."""
    text = ""
    for token in [*tokens, end]:
        if token == "," or token == end:
            text = text.removesuffix(",") + token
        else:
            text += " " + token if text else token
    return text[0].upper() + text[1:]
