import pytest

from attnbench.datamodules.parallel_text import ParallelText
from tests.datamodules.writing import EVAL, TRAIN, Sentence, write_corpus, write_lines

LANGUAGES = ("en", "de")


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_plain_and_packed_files_in_both_directions(tmp_path, ending):
    root = write_corpus(tmp_path, ending)
    corpus = ParallelText(root, LANGUAGES)
    assert (corpus.training, corpus.validation, corpus.tests) == ("train", "val", ["test"])
    assert list(corpus.pairs("train")) == TRAIN
    assert list(corpus.pairs("train")) == TRAIN, "a second reading gives the same"
    assert list(corpus.pairs("val")) == EVAL
    back = ParallelText(root, ("de", "en"))
    assert list(back.pairs("test")) == [(target, source) for source, target in EVAL]


# The names that users have on disk, and what is to be read from them.
NAMES = {
    "multi30k": (
        ["train", "val", "test_2016_flickr", "test_2017_flickr", "test_2017_mscoco"],
        ("train", "val", ["test_2016_flickr", "test_2017_flickr", "test_2017_mscoco"]),
    ),
    "fairseq": (["train", "valid", "test"], ("train", "valid", ["test"])),
    "wmt": (
        ["train10k.tok", "newstest2013.tok", "newstest2014.tok"],
        ("train10k", "newstest2013", ["newstest2014"]),
    ),
    "bpe": (
        [
            "train.tok.clean.bpe.32000",
            "newstest2012.tok.bpe.32000",
            "newstest2013.tok.bpe.32000",
            "newstest2014.tok.bpe.32000",
        ],
        ("train", "newstest2013", ["newstest2014", "newstest2012"]),
    ),
    "tagged": (["train.en-de", "dev.en-de", "test.en-de"], ("train", "dev", ["test"])),
}


@pytest.mark.parametrize("layout", NAMES)
def test_published_names(tmp_path, layout):
    names, (training, validation, tests) = NAMES[layout]
    root = write_corpus(tmp_path, **dict.fromkeys(names, EVAL))
    write_lines(root / "README.md", ["about"])
    write_lines(root / "vocab.bpe.32000", ["x"])
    test = "test_2016_flickr" if layout == "multi30k" else "newstest2014"
    corpus = ParallelText(root, LANGUAGES, test=test)
    assert (corpus.training, corpus.validation, corpus.tests) == (training, validation, tests)
    assert list(corpus.pairs(training)) == EVAL


def test_of_several_forms_the_most_processed_is_read_and_the_others_like_it(tmp_path):
    raw, tokens, pieces = [("raw", "roh")], [("tok", "tok")], [("bp@@ e", "bp@@ e")]
    root = write_corpus(
        tmp_path,
        **{"train": raw, "train.tok.clean": tokens, "train.tok.clean.bpe.32000": pieces},
        **{"newstest2013": raw, "newstest2013.tok": tokens, "newstest2013.tok.bpe.32000": pieces},
        **{"newstest2014": raw, "newstest2014.tok": tokens, "newstest2014.tok.bpe.32000": pieces},
    )
    corpus = ParallelText(root, LANGUAGES)
    for split in ("train", "newstest2013", "newstest2014"):
        assert list(corpus.pairs(split)) == pieces
    assert any("tok.clean.bpe.32000 is read, not plain, tok.clean" in note for note in corpus.notes)
    corpus = ParallelText(root, LANGUAGES, variant="tok.clean")
    for split in ("train", "newstest2013", "newstest2014"):
        assert list(corpus.pairs(split)) == tokens
    with Sentence("variant 'lc'", "found: plain, tok.clean, tok.clean.bpe.32000"):
        ParallelText(root, LANGUAGES, variant="lc")


def test_different_line_counts(tmp_path):
    root = write_corpus(tmp_path)
    write_lines(root / "train.de", ["nur", "drei", "Zeilen"])
    corpus = ParallelText(root, LANGUAGES)
    with Sentence("train.en has 20 lines but train.de has 3", "same sentence"):
        next(corpus.pairs("train"))


def test_missing_folder_language_and_partner(tmp_path):
    with Sentence("nowhere is not a folder", "train.en"):
        ParallelText(tmp_path / "nowhere", LANGUAGES)
    root = write_corpus(tmp_path)
    with Sentence("no text in language 'fr'", "languages found: de, en"):
        ParallelText(root, ("en", "fr"))
    (root / "train.de").unlink()
    with Sentence("train.en has no partner in language 'de'"):
        ParallelText(root, LANGUAGES)


def test_a_test_set_without_translations_is_left_aside(tmp_path):
    root = write_corpus(tmp_path)
    write_lines(root / "test_2018.en", ["blind test"])
    corpus = ParallelText(root, LANGUAGES)
    assert corpus.tests == ["test"]
    assert any("test_2018.en" in note for note in corpus.notes)


def test_several_training_sets(tmp_path):
    root = write_corpus(tmp_path, train=TRAIN, train_extra=EVAL, val=EVAL)
    corpus = ParallelText(root, LANGUAGES)
    assert corpus.training == "train" and any("train_extra" in note for note in corpus.notes)
    other = write_corpus(tmp_path / "b", train_a=TRAIN, train_b=EVAL, val=EVAL)
    with Sentence("several training sets (train_a, train_b)"):
        ParallelText(other, LANGUAGES)
