import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnbench.datamodules.vocabulary import Vocabulary
from tests.datamodules.writing import Sentence, write_lines


def test_layout_is_that_of_fairseq():
    vocabulary = Vocabulary(["dog", "cat"])
    assert vocabulary.symbols == ["<s>", "<pad>", "</s>", "<unk>", "dog", "cat"]
    assert vocabulary.bos == 0 and vocabulary.pad == 1
    assert vocabulary.eos == 2 and vocabulary.unk == 3
    assert vocabulary.encode(["cat", "horse", "dog"]) == [5, 3, 4]
    assert vocabulary.pieces([4, 3, 1, 5, 2, 4]) == ["dog", "<unk>", "cat"]


def test_fillers_of_a_fairseq_dictionary_keep_their_ids(tmp_path):
    path = write_lines(tmp_path / "dict.txt", ["dog 9", "cat 3", "madeupword0000 0"])
    vocabulary = Vocabulary.from_file(path)
    assert len(vocabulary) == 7
    assert vocabulary.encode(["madeupword0000"]) == [6]
    assert vocabulary.counts == [9, 3, 0]


@given(st.lists(st.text("ab<>/s@é#: ", min_size=1).filter(lambda s: not s.isspace()), unique=True))
def test_what_is_saved_is_read_again(tmp_path_factory, symbols):
    symbols = [symbol.replace(" ", "_") for symbol in symbols]
    vocabulary = Vocabulary(dict.fromkeys(symbols))
    if len(vocabulary) == 4:
        return
    path = tmp_path_factory.mktemp("dictionary") / "dict.txt"
    vocabulary.save(path)
    again = Vocabulary.from_file(path)
    assert again == vocabulary and again.sha256 == vocabulary.sha256
    assert again.encode(symbols) == vocabulary.encode(symbols)


def test_a_special_symbol_in_the_file_needs_the_flag_that_fairseq_writes(tmp_path):
    path = write_lines(tmp_path / "dict.txt", ["<s> 5 #fairseq:overwrite", "dog 1"])
    assert Vocabulary.from_file(path).encode(["<s>", "dog"]) == [4, 5]
    with Sentence("dict.txt, line 1", "'<s>' occurs twice"):
        Vocabulary.from_file(write_lines(path, ["<s> 5", "dog 1"]))


def test_a_line_without_count_is_named(tmp_path):
    with Sentence("dict.txt, line 2", "'symbol count'", "'cat'"):
        Vocabulary.from_file(write_lines(tmp_path / "dict.txt", ["dog 4", "cat"]))


def test_symbols_are_ranked_by_count_then_spelling_up_to_the_limit():
    counts = {"b": 2, "c": 5, "a": 2, "d": 1}
    assert Vocabulary.from_counts(counts, limit=7).symbols[4:] == ["c", "a", "b"]
    assert Vocabulary.from_counts(counts).counts == [5, 2, 2, 1]


def test_hash_depends_on_symbols_and_order_only():
    assert Vocabulary(["a", "b"], [1, 2]).sha256 == Vocabulary(["a", "b"], [9, 9]).sha256
    assert Vocabulary(["a", "b"]).sha256 != Vocabulary(["b", "a"]).sha256


@pytest.mark.parametrize("kind", [np.uint16, np.int32, np.int64])
def test_an_id_outside_the_dictionary_is_named_with_its_line(kind):
    vocabulary = Vocabulary(["a", "b"])
    starts = np.array([0, 3, 5])
    vocabulary.check(np.array([4, 5, 2, 4, 2, 5, 2], dtype=kind), starts, "train.bin")
    with Sentence("train.bin, line 2", "id 6", "dictionary of 6 symbols"):
        vocabulary.check(np.array([4, 5, 2, 6, 2, 5, 2], dtype=kind), starts, "train.bin")
