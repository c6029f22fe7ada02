import pytest

from attnbench.datamodules.caption_vocabulary import CaptionVocabulary
from tests.datamodules.writing import Sentence

CAPTIONS = [["a", "dog", "a"], ["a", "cat"], ["dog", "cat", "a"]]


def test_a_word_must_occur_more_often_than_min_count():
    words = CaptionVocabulary.count(CAPTIONS, 2)
    assert words.words == ("a", "UNK")  # a 4 times; dog and cat twice, which is not more than 2
    assert len(words) == 3 and words.unk == 2
    assert words.encode(["a", "dog", "zebra"]) == [1, 2, 2]


def test_without_a_rare_word_there_is_no_unk():
    words = CaptionVocabulary.count(CAPTIONS, 1)
    assert words.words == ("a", "dog", "cat") and words.unk is None
    assert words.encode(["a", "zebra", "cat"]) == [1, 3]


def test_words_of_captions_that_do_not_count_make_an_unk_necessary():
    words = CaptionVocabulary.count(CAPTIONS, 1, [*CAPTIONS, ["zebra"]])
    assert words.words == ("a", "dog", "cat", "UNK")


def test_decoding_stops_at_the_first_zero():
    words = CaptionVocabulary(["a", "dog"])
    assert words.decode([1, 2, 0, 1]) == ["a", "dog"]
    assert words.decode([0, 1]) == [] and words.decode([]) == []
    for bad in (3, -1):
        with pytest.raises(IndexError):
            words.decode([bad])


def test_equal_words_have_equal_fingerprints_and_their_order_counts():
    one, same, other = (CaptionVocabulary(w) for w in (["a", "b"], ["a", "b"], ["b", "a"]))
    assert one == same and one.fingerprint() == same.fingerprint()
    assert one != other and one.fingerprint() != other.fingerprint()


def test_words_must_be_there_and_differ():
    with Sentence("no word", "min_count"):
        CaptionVocabulary.count(CAPTIONS[:0], 5)
    with Sentence("'a' more than once"):
        CaptionVocabulary(["a", "b", "a"])
