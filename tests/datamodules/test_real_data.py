"""The readers on small real data sets, where they are there."""

from attnbench.datamodules.translation import TranslationData
from attnbench.datamodules.translation_config import TranslationDataConfig
from tests.shared import data_dir


def open_real(folder: str, dataset: str, **settings) -> TranslationData:
    root = data_dir() / "translation" / folder
    return TranslationData(TranslationDataConfig(dataset=dataset, root=root, **settings))


def test_multi30k():
    data = open_real("multi30k", "multi30k", train_lines=4000, vocabulary_size=2000)
    card = data.card()
    assert card.text == "raw" and list(card.splits) == ["train", "val", "test_2016_flickr"]
    assert [split.pairs for split in card.splits.values()] == [4000, 1014, 1000]
    assert card.splits["train"].target.unknown == card.splits["train"].source.unknown == 0
    references = data.references("test")
    target = data.encoded("test").target
    assert [data.decode(target[row].tolist()) for row in range(1000)] == references
    assert references[0].endswith(".") and not references[0].endswith(" .")
    assert data.reference_tokens("test")[0].endswith(" .")


def test_wmt14_moses_tokens():
    data = open_real("wmt14_en_de", "wmt14", train_lines=1000, vocabulary_size=1000)
    card = data.card()
    assert card.text == "moses"
    assert {role: split.name for role, split in card.splits.items()} == {
        "train": "train10k",
        "val": "newstest2013",
        "newstest2014": "newstest2014",
    }
    assert card.splits["val"].pairs == 3000 and card.splits["newstest2014"].pairs == 2737
    tokens, plain = data.reference_tokens("test"), data.references("test")
    target = data.encoded("test").target
    assert [data.decode_tokens(target[row].tolist()) for row in range(2737)] == tokens
    assert any("&quot;" in line for line in tokens)
    assert not any("&quot;" in line or " ." in line[-3:] for line in plain)
