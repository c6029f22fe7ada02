import re
from pathlib import Path

import pytest

from attnbench.datamodules.demo.translation import write_translation_demo
from tests.datamodules.writing import Sentence


@pytest.fixture(scope="module")
def demo(tmp_path_factory) -> Path:
    return write_translation_demo(tmp_path_factory.mktemp("demo") / "translation")


def pairs(root: Path, split: str) -> list[tuple[str, str]]:
    sides = [(root / f"{split}.{lang}").read_text(encoding="utf-8") for lang in ("en", "de")]
    return list(zip(*(side.splitlines() for side in sides), strict=True))


def everything(root: Path) -> list[tuple[str, str]]:
    return [pair for split in ("train", "val", "test") for pair in pairs(root, split)]


def test_six_files_of_the_asked_sizes(tmp_path):
    root = write_translation_demo(tmp_path / "a" / "b", train=30, val=4, test=5)
    assert sorted(path.name for path in root.iterdir()) == [
        f"{split}.{lang}" for split in ("test", "train", "val") for lang in ("de", "en")
    ]
    assert [len(pairs(root, split)) for split in ("train", "val", "test")] == [30, 4, 5]
    assert [path.name for path in root.parent.iterdir()] == ["b"]


def test_the_seed_decides_every_byte(tmp_path):
    sizes = {"train": 40, "val": 5, "test": 5}
    texts = [
        (write_translation_demo(tmp_path / name, seed=seed, **sizes) / "train.de").read_bytes()
        for name, seed in (("a", 1), ("b", 1), ("c", 2))
    ]
    assert texts[0] == texts[1] != texts[2]


def test_no_sentence_occurs_twice_and_each_has_one_translation(demo):
    found = everything(demo)
    assert len(found) == 6400
    assert len({english for english, _ in found}) == len(found)


def test_sizes_of_sentences_and_vocabularies(demo):
    for side in (0, 1):
        text = [pair[side] for pair in everything(demo)]
        words = {word for line in text for word in re.findall(r"\w+", line.lower())}
        assert 100 <= len(words) <= 200
        lengths = [len(line.split()) for line in text]
        assert min(lengths) >= 4 and max(lengths) <= 20
        assert all(re.fullmatch(r"[A-ZÄÖÜ][\w ,]*\w[.?]", line) for line in text)
        assert not any(re.search(r",\S|,,| ,", line) for line in text)


def translations(demo: Path, english: str) -> list[tuple[re.Match[str], str]]:
    """German of the sentences that match a pattern as a whole."""
    matches = [(re.fullmatch(english, source), target) for source, target in everything(demo)]
    return [(match, target) for match, target in matches if match]


def test_finite_verb_second_and_last(demo):
    fronted = translations(demo, r"(?:Today|Now|Often|Here) (?:the|this|a) \w+ carries .*")
    assert len(fronted) > 4
    assert all(re.match(r"(Heute|Jetzt|Oft|Hier) trägt ", german) for _, german in fronted)
    embedded = translations(demo, r".* (?:says|say|said) that \w+ \w+ must (?:sleep|get up)\.")
    assert len(embedded) > 2
    assert all(re.search(r", dass .* (muss|müssen)\.$", german) for _, german in embedded)
    questions = translations(demo, r"(?:Has|Can|Will) .*")
    assert len(questions) > 50
    assert all(re.match(r"(Hat|Ist|Kann|Können|Wird|Werden) ", german) for _, german in questions)


def test_separable_verbs_are_apart_in_main_clauses_and_joined_in_others(demo):
    main = translations(demo, r"(The|A|This) \w+ throws away [^,]*(?<!here)\.")
    clause = translations(demo, r".* (?:because|although|when) \w+ \w+ throws away .*")
    assert len(main) > 3 and len(clause) > 3
    assert all(re.search(r" wirft .* weg[.,]", german) for _, german in main)
    assert all(re.search(r" wegwirft\.$", german) for _, german in clause)


def test_articles_and_adjectives_agree(demo):
    """Reads the German alone: gender of the noun, case by the verb."""
    text = " ".join(german for _, german in everything(demo))
    for right, wrong in (
        (r"ein alter Hund\b", r"ein alte Hund\b"),
        (r"einen alten Hund\b", r"einen alter Hund\b"),
        (r"einem roten Pferd\b", r"einem rotes Pferd\b"),
        (r"ein neues Buch\b", r"ein neue Buch\b"),
        (r"einige neue Bücher\b", r"einige neuen Bücher\b"),
    ):
        assert re.search(right, text, re.IGNORECASE)
        assert not re.search(wrong, text, re.IGNORECASE)
    objects = [german for _, german in translations(demo, r".*\w (?:helps|follows) \w+ \w+\.")]
    assert len(objects) > 20
    assert all(re.search(r"\b(de[mnr]|\w+e[mnr]) \w+( \w+)?\.$", line) for line in objects)


def test_running_again_changes_nothing_and_other_content_is_refused(tmp_path):
    sizes = {"train": 20, "val": 3, "test": 3}
    root = write_translation_demo(tmp_path / "demo", **sizes)
    before = (root / "train.en").stat().st_mtime_ns
    assert write_translation_demo(root, **sizes) == root
    assert (root / "train.en").stat().st_mtime_ns == before
    with Sentence("demo is not empty", "new folder"):
        write_translation_demo(root, seed=5, **sizes)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    with Sentence("mine is not empty"):
        write_translation_demo(tmp_path / "mine", **sizes)
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "years of work"
    with Sentence("thesis.txt is a file"):
        write_translation_demo(tmp_path / "mine" / "thesis.txt", **sizes)
    (tmp_path / "empty").mkdir()
    assert write_translation_demo(tmp_path / "empty", **sizes) == tmp_path / "empty"


def test_a_full_disk_leaves_nothing(tmp_path, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with Sentence("can't be written", "No space left"):
        write_translation_demo(tmp_path / "demo", train=20, val=3, test=3)
    assert list(tmp_path.iterdir()) == []


def test_the_current_folder_is_not_replaced(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with Sentence("is the current folder", "new folder"):
        write_translation_demo(Path(), train=20, val=3, test=3)
    assert write_translation_demo(Path("demo"), train=20, val=3, test=3) == Path("demo")
    monkeypatch.chdir(tmp_path / "demo")
    assert write_translation_demo(Path(), train=20, val=3, test=3) == Path()
    with Sentence("can't be read", "name too long"):
        write_translation_demo(Path("a" * 300), train=20, val=3, test=3)
