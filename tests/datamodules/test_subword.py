import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnbench.datamodules.bpe_codes import SubwordNmt
from attnbench.datamodules.subword import (
    LearnedBpe,
    SentencePiece,
    Words,
    detect_marker,
    read_subword,
)
from attnbench.datamodules.vocabulary import Vocabulary
from tests.datamodules.writing import TRAIN, Sentence, write_lines

TEXT = [line for pair in TRAIN for line in pair]
HARD = [
    "",
    " ",
    "  two  spaces ",
    "Größe: 3,5 m² – „gut“?",
    "tab\tand no-break\u00a0space",
    "日本語 \U0001f600 a\u0301",
    "don't @-@ &apos;s @@ <unk> </s>",
]


@pytest.fixture(scope="module")
def learned() -> LearnedBpe:
    return LearnedBpe.learn(TEXT, 400)


def test_learned_bpe_gives_training_text_back_without_unknown_pieces(learned):
    vocabulary = Vocabulary(learned.symbols or [])
    for line, pieces in zip(TEXT, learned.encode_all(TEXT), strict=True):
        ids = vocabulary.encode(pieces)
        assert vocabulary.unk not in ids
        assert learned.decode(vocabulary.pieces(ids)) == line


@pytest.mark.parametrize("line", HARD)
def test_learned_bpe_gives_any_text_back(learned, line):
    assert learned.decode(learned.encode(line)) == line
    assert set(learned.encode(line)) <= set(learned.symbols or [])


@given(line=st.text())
def test_learned_bpe_gives_random_text_back(learned, line):
    assert learned.decode(learned.encode(line)) == line


def test_frequent_words_become_one_piece_wherever_they_stand(learned):
    assert learned.encode("Hund Hund") == learned.encode("Hund") * 2
    assert len(learned.encode("sees the dog")) == 3


def test_cutting_word_by_word_equals_the_tokenizer_on_whole_lines(learned):
    from tokenizers import Tokenizer

    whole = Tokenizer.from_str(learned.text)
    for line in TEXT + HARD[2:4]:
        assert learned.encode(line) == whole.encode(" " + line).tokens


def test_learning_is_the_same_in_another_process(learned, tmp_path):
    path = write_lines(tmp_path / "text", TEXT)
    program = (
        "import sys; from attnbench.datamodules.subword import LearnedBpe;"
        "lines = open(sys.argv[1], encoding='utf-8').read().split('\\n')[:-1];"
        "print(LearnedBpe.learn(lines, 400).sha256)"
    )
    found = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == learned.sha256


def test_learned_vocabulary_has_at_most_the_asked_size(learned):
    assert 260 < len(Vocabulary(learned.symbols or [])) <= 400
    with Sentence("vocabulary_size=100", "at least 260"):
        LearnedBpe.learn(TEXT, 100)


def test_learned_bpe_is_the_same_after_saving(learned):
    again = LearnedBpe(learned.text)
    assert again.sha256 == learned.sha256
    assert again.encode_all(TEXT) == learned.encode_all(TEXT)


CODES = {
    "0.2": ["#version: 0.2", "t h", "th e</w>", "e r", "er </w>", "c a", "ca t</w>", "s e", "e e"],
    "0.1": ["t h", "th e", "the </w>", "e r", "c a", "ca t", "cat </w>", "e e", "s </w>", "t h"],
}
WORDS = "the cat sees three others there tee teee see a e t thee catcat überthe Straße s"


@pytest.mark.parametrize("version", CODES)
def test_codes_cut_as_subword_nmt_itself_does(tmp_path, version):
    apply_bpe = pytest.importorskip("subword_nmt.apply_bpe")
    path = write_lines(tmp_path / "codes", CODES[version])
    with path.open(encoding="utf-8") as stream:
        reference = apply_bpe.BPE(stream)
    ours = SubwordNmt(path)
    assert ours.encode(WORDS) == reference.process_line(WORDS).split()
    assert any(piece.endswith("@@") for piece in ours.encode(WORDS))
    assert ours.decode(ours.encode(WORDS)) == WORDS


def test_codes_learned_by_subword_nmt_cut_as_it_does(tmp_path):
    learn_bpe = pytest.importorskip("subword_nmt.learn_bpe")
    apply_bpe = pytest.importorskip("subword_nmt.apply_bpe")
    text = write_lines(tmp_path / "text", TEXT)
    path = tmp_path / "codes"
    with text.open(encoding="utf-8") as source, path.open("w", encoding="utf-8") as target:
        learn_bpe.learn_bpe(source, target, 40)
    with path.open(encoding="utf-8") as stream:
        reference = apply_bpe.BPE(stream)
    ours = SubwordNmt(path)
    for line in TEXT:
        assert ours.encode(line) == reference.process_line(line).split()


def test_continuation_marks_are_removed_even_at_the_end(tmp_path):
    codes = SubwordNmt(write_lines(tmp_path / "codes", CODES["0.2"]))
    assert codes.decode(["s@@", "e@@", "es", "ca@@"]) == "sees ca"


def test_bad_codes(tmp_path):
    with Sentence("codes, line 3", "two symbols", "three of them"):
        SubwordNmt(write_lines(tmp_path / "codes", ["#version: 0.2", "a b", "three of them"]))
    with Sentence("version 0.7", "0.1 or 0.2"):
        SubwordNmt(write_lines(tmp_path / "codes", ["#version: 0.7", "a b"]))
    with Sentence("no-such-codes", "does not exist", "subword=learn"):
        read_subword(tmp_path / "no-such-codes")


@pytest.fixture(scope="module")
def sentencepiece_model(tmp_path_factory):
    import sentencepiece

    folder = tmp_path_factory.mktemp("sentencepiece")
    sentencepiece.SentencePieceTrainer.train(
        input=str(write_lines(folder / "text", TEXT)),
        model_prefix=str(folder / "joint"),
        vocab_size=45,
        minloglevel=2,
    )
    return folder / "joint.model"


def test_sentencepiece_model_round_trip_through_its_own_vocabulary(sentencepiece_model):
    model = read_subword(sentencepiece_model)
    assert isinstance(model, SentencePiece) and model.symbols
    vocabulary = Vocabulary(model.symbols)
    assert not {"<s>", "</s>", "<unk>"} & set(model.symbols)
    for line, pieces in zip(TEXT, model.encode_all(TEXT), strict=True):
        assert pieces == model.encode(line)
        ids = vocabulary.encode(pieces)
        assert vocabulary.unk not in ids
        assert model.decode(vocabulary.pieces(ids)) == line
    assert vocabulary.unk in vocabulary.encode(model.encode("日本"))


def test_a_file_that_is_no_sentencepiece_model(tmp_path):
    with Sentence("joint.model", "not a sentencepiece model"):
        read_subword(write_lines(tmp_path / "joint.model", ["no model"]))


def test_words_and_marked_subwords():
    assert Words().decode(Words().encode("a  b c")) == "a b c"
    assert Words("@@").decode(["s@@", "ee", "a@@"]) == "see a"
    assert Words("\u2581").decode(["\u2581s", "ee", "\u2581a"]) == "see a"


def test_marks_are_detected():
    assert detect_marker(["the", "ca@@", "t"]) == "@@"
    assert detect_marker(["\u2581the", "\u2581ca", "t"]) == "\u2581"
    assert detect_marker(["the", "cat", "@@"]) is None
    assert detect_marker(["word"] * 100 + ["odd@@"]) is None
