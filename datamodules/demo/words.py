"""Words of the translation demo, with the forms that English and German agreement needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Gender = Literal["m", "f", "n"]
Case = Literal["nom", "acc", "dat"]


@dataclass(frozen=True)
class Noun:
    """A noun in both languages and numbers."""

    english: str
    english_plural: str
    gender: Gender
    german: str
    german_plural: str

    def in_german(self, case: Case, plural: bool) -> str:
        """Give the German form; only the dative plural may add an ending."""
        if not plural:
            return self.german
        ending = "n" if case == "dat" and not self.german_plural.endswith("n") else ""
        return self.german_plural + ending


@dataclass(frozen=True)
class Verb:
    """A verb in both languages.

    Attributes:
        third: English third person singular.
        base: English base form.
        participle: English past participle.
        particle: English word that follows the verb, if any.
        er: German third person singular, without the prefix.
        infinitive: German infinitive without the prefix, also the plural.
        partizip: German past participle, prefix and all.
        prefix: German prefix that leaves the verb in main clauses, if any.
        case: case of the German object; None for verbs without one.
        sein: whether the German perfect is made with *sein*.
    """

    third: str
    base: str
    participle: str
    particle: str
    er: str
    infinitive: str
    partizip: str
    prefix: str = ""
    case: Case | None = "acc"
    sein: bool = False


NOUNS = (
    Noun("dog", "dogs", "m", "Hund", "Hunde"),
    Noun("bird", "birds", "m", "Vogel", "Vögel"),
    Noun("baker", "bakers", "m", "Bäcker", "Bäcker"),
    Noun("letter", "letters", "m", "Brief", "Briefe"),
    Noun("cat", "cats", "f", "Katze", "Katzen"),
    Noun("neighbour", "neighbours", "f", "Nachbarin", "Nachbarinnen"),
    Noun("lamp", "lamps", "f", "Lampe", "Lampen"),
    Noun("suitcase", "suitcases", "m", "Koffer", "Koffer"),
    Noun("child", "children", "n", "Kind", "Kinder"),
    Noun("horse", "horses", "n", "Pferd", "Pferde"),
    Noun("book", "books", "n", "Buch", "Bücher"),
    Noun("boat", "boats", "n", "Boot", "Boote"),
)
PLACES = (
    ("in", "in", Noun("garden", "gardens", "m", "Garten", "Gärten")),
    ("behind", "hinter", Noun("house", "houses", "n", "Haus", "Häuser")),
    ("on", "auf", Noun("bridge", "bridges", "f", "Brücke", "Brücken")),
    ("near", "bei", Noun("station", "stations", "m", "Bahnhof", "Bahnhöfe")),
)
ADJECTIVES = (
    ("old", "alt"),
    ("small", "klein"),
    ("red", "rot"),
    ("new", "neu"),
    ("quiet", "ruhig"),
    ("green", "grün"),
)
PRONOUNS = (
    ("he", "er", False),
    ("she", "sie", False),
    ("they", "sie", True),
    ("we", "wir", True),
)
ADVERBS = (("today", "heute"), ("now", "jetzt"), ("often", "oft"), ("here", "hier"))
CONJUNCTIONS = (("because", "weil"), ("although", "obwohl"), ("when", "wenn"))
MODALS = (("must", "muss", "müssen"), ("can", "kann", "können"), ("will", "wird", "werden"))
VERBS = (
    Verb("sees", "see", "seen", "", "sieht", "sehen", "gesehen"),
    Verb("finds", "find", "found", "", "findet", "finden", "gefunden"),
    Verb("carries", "carry", "carried", "", "trägt", "tragen", "getragen"),
    Verb("looks", "look", "looked", "for", "sucht", "suchen", "gesucht"),
    Verb("picks", "pick", "picked", "up", "hebt", "heben", "aufgehoben", "auf"),
    Verb("brings", "bring", "brought", "along", "bringt", "bringen", "mitgebracht", "mit"),
    Verb("throws", "throw", "thrown", "away", "wirft", "werfen", "weggeworfen", "weg"),
    Verb("helps", "help", "helped", "", "hilft", "helfen", "geholfen", case="dat"),
    Verb("follows", "follow", "followed", "", "folgt", "folgen", "gefolgt", case="dat", sein=True),
    Verb("sleeps", "sleep", "slept", "", "schläft", "schlafen", "geschlafen", case=None),
    Verb("waits", "wait", "waited", "", "wartet", "warten", "gewartet", case=None),
    Verb(
        "gets", "get", "got", "up", "steht", "stehen", "aufgestanden", "auf", case=None, sein=True
    ),
)
SAYING = Verb("says", "say", "said", "", "sagt", "sagen", "gesagt", case=None)

# Article by gender (p: plural) in nominative, accusative, dative; the adjective's ending after it.
ARTICLES: dict[str, dict[str, tuple[str, str, str]]] = {
    "the": {
        "m": ("der", "den", "dem"),
        "f": ("die", "die", "der"),
        "n": ("das", "das", "dem"),
        "p": ("die", "die", "den"),
    },
    "this": {
        "m": ("dieser", "diesen", "diesem"),
        "f": ("diese", "diese", "dieser"),
        "n": ("dieses", "dieses", "diesem"),
        "p": ("diese", "diese", "diesen"),
    },
    "a": {
        "m": ("ein", "einen", "einem"),
        "f": ("eine", "eine", "einer"),
        "n": ("ein", "ein", "einem"),
        "p": ("einige", "einige", "einigen"),
    },
}
_WEAK = {"m": ("e", "en", "en"), "f": ("e", "e", "en"), "n": ("e", "e", "en"), "p": ("en",) * 3}
ENDINGS: dict[str, dict[str, tuple[str, str, str]]] = {
    "the": _WEAK,
    "this": _WEAK,
    "a": {
        "m": ("er", "en", "en"),
        "f": ("e", "e", "en"),
        "n": ("es", "es", "en"),
        "p": ("e", "e", "en"),
    },
}
ENGLISH_PLURAL_ARTICLES = {"the": "the", "this": "these", "a": "some"}
CASES: tuple[Case, ...] = ("nom", "acc", "dat")
