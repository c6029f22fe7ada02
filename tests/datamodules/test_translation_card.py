from attnbench.datamodules.translation_card import TranslationCard, check_translation
from tests.datamodules.fairseq_files import SENTENCES, write_folder
from tests.datamodules.writing import EVAL, TRAIN, Sentence, write_corpus, write_lines


def test_check_describes_what_training_would_see(tmp_path):
    train = [*TRAIN, ("", "leer")]
    root = write_corpus(tmp_path, train=train, val=EVAL, test=EVAL, test_2017=EVAL[:1])
    card = check_translation("demo", root, vocabulary_size=300)
    assert card.languages == ("en", "de") and card.dataset == "demo"
    assert list(card.splits) == ["train", "val", "test"]
    assert card.splits["train"].pairs == 20 and card.splits["val"].pairs == 3
    assert card.splits["train"].source.mean > 3
    assert len(card.files) == 6 and all(len(digest) == 64 for digest in card.files.values())
    assert card.notes == ["further test splits: test_2017"]
    assert TranslationCard.model_validate_json(card.model_dump_json()) == card


def test_rendering_is_plain_and_complete(tmp_path):
    root = write_corpus(tmp_path, train=[*TRAIN, ("", "leer")], val=EVAL, test=EVAL)
    card = check_translation("demo", root, vocabulary_size=300)
    text = card.render()
    assert "\x1b" not in text
    for part in (
        "en to de",
        "raw (",
        f"{card.vocabulary_size} symbols, joint",
        "train: 1 pairs dropped, empty source or target",
        card.files["train.en"],
    ):
        assert part in text
    row = next(line for line in text.splitlines() if line.startswith("│ train"))
    assert [cell.strip() for cell in row.split("│")[2:5]] == ["20", "1", "0"]


def test_check_reads_every_split(tmp_path):
    root = write_corpus(tmp_path)
    write_lines(root / "test.de", ["zu kurz"])
    with Sentence("test.en has 3 lines but test.de has 1"):
        check_translation("demo", root)


def test_a_missing_split_fails_the_check(tmp_path):
    for left_out in ("val", "test"):
        splits = {"train": TRAIN, "val": EVAL, "test": EVAL}
        del splits[left_out]
        root = write_corpus(tmp_path / left_out, **splits)
        with Sentence(f"no split '{left_out}'", "found: train"):
            check_translation("demo", root, vocabulary_size=300)


def test_a_missing_split_of_a_fairseq_folder_fails_the_check(tmp_path):
    names = {"train": "train", "valid": "val", "test": "test"}
    for left_out, role in names.items():
        splits = {name: SENTENCES for name in names if name != left_out}
        root = write_folder(tmp_path / left_out, "en-de", **splits)
        with Sentence(f"no split '{role}'", "found: "):
            check_translation("demo", root)
    check_translation(
        "demo", write_folder(tmp_path / "whole", "en-de", **dict.fromkeys(names, SENTENCES))
    )


def test_training_text_that_no_batch_can_hold_fails_the_check(tmp_path):
    root = write_folder(tmp_path, train=[[4] * 9 + [2]], valid=[[4, 2]], test=[[4, 2]])
    with Sentence("train", "max_tokens=5"):
        check_translation("demo", root, max_tokens=5)


def test_a_line_that_evaluation_could_not_use_fails_the_check(tmp_path):
    for split in ("val", "test"):
        splits = {"train": TRAIN, "val": EVAL, "test": EVAL}
        splits[split] = [*EVAL, ("word " * 300, "Wort")]
        root = write_corpus(tmp_path / split, **splits)
        with Sentence(f"Line 4 of split '{split}'", "max_tokens=200"):
            check_translation("demo", root, vocabulary_size=300, max_tokens=200)
