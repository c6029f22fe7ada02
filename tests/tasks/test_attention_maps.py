"""Attention weights of one item: the right item, real steps only, whatever the batch."""

from typing import Any

import pytest
import torch

from attnbench.datamodules.captions import CaptionData
from attnbench.datamodules.demo.captioning import write_captioning_demo
from attnbench.datamodules.demo.sentiment import write_sentiment_demo
from attnbench.datamodules.sentiment import SentimentData
from attnbench.datamodules.translation import TranslationData
from attnbench.tasks.attention_maps import batch_of, find_item, no_weights
from attnbench.tasks.captioning import CaptioningTask
from attnbench.tasks.captioning_config import CaptioningConfig
from attnbench.tasks.errors import ConfigError
from attnbench.tasks.module import TaskModule
from attnbench.tasks.registry import TASKS
from attnbench.tasks.sentiment_config import SentimentConfig
from attnbench.tasks.settings import resolve
from attnbench.tasks.translation_config import TranslationConfig
from tests.tasks.test_captioning import TINY as CAPTIONING
from tests.tasks.test_translation import TINY as TRANSLATION


def test_an_item_is_found_by_its_id_or_its_position() -> None:
    ids = ["a[1]", "2", "b[7]"]
    assert [find_item(item, ids, "test") for item in ("b[7]", "2", "0", "1")] == [2, 1, 0, 1]
    with pytest.raises(ConfigError, match=r"did you mean b\[7\]\? Or give a position from 0 to 2"):
        find_item("b[8]", ids, "test")
    with pytest.raises(ConfigError, match=r"'3' in val: give a position from 0 to 2, or an id"):
        find_item("3", ids, "val")


def test_variants_without_a_weight_for_every_key_are_told_apart() -> None:
    assert no_weights("cross", "terms(1111)") == no_weights("cross", "nsa") == ""
    assert "dynamic(kernel=3), which doesn't weigh" in no_weights("cross", "dynamic(kernel=3)")
    assert no_weights("cross", "none") == "cross is none, which is no attention"


def test_a_task_that_tells_nothing_says_so() -> None:
    with pytest.raises(ConfigError, match="doesn't tell its attention weights"):
        TaskModule().attention_maps(None, "test", "0")


@pytest.fixture(scope="module")
def captions(tmp_path_factory: pytest.TempPathFactory) -> CaptionData:
    folder = tmp_path_factory.mktemp("demo") / "captioning"
    root = write_captioning_demo(folder, train=30, val=6, test=6)
    settings = {**CAPTIONING, "root": root, "encoder_layers": 2, "batch_size": 4}
    return CaptionData(resolve(CaptioningConfig, settings))


def test_a_caption_looks_at_the_regions_of_its_image(captions: CaptionData) -> None:
    torch.manual_seed(0)
    task = TASKS["captioning"].build(captions.config, captions)
    assert isinstance(task, CaptioningTask)
    for position, image in enumerate(captions.image_ids("test")):
        maps = task.attention_maps(captions, "test", str(image))
        cross = maps["words from regions"]
        said = captions.decode(
            next(
                task.describe(batch)[batch.index_B.tolist().index(position)]
                for batch in captions.predict_dataloader("test")
                if position in batch.index_B
            )
        )
        assert cross.queries == (*said.split(), "(end)")
        assert maps["words from words"].keys[0] == "(start)"
        batch = batch_of(captions.predict_dataloader("test"), position)
        assert len(batch) == 1 and batch.index_B.tolist() == [position]
        assert len(cross.keys) == int(batch.valid_BN.sum())
        for one in maps.values():
            for weights_HQK in one.layers:
                assert weights_HQK.shape == (4, len(one.queries), len(one.keys))
                assert torch.allclose(weights_HQK.sum(-1), torch.ones(4, len(one.queries)))
        assert [len(one.layers) for one in maps.values()] == [1, 2, 1]


def test_a_translation_is_read_with_its_reference() -> None:
    data = TranslationData(resolve(TranslationConfig, TRANSLATION))
    task = TASKS["translation"].build(data.config, data)
    maps = task.attention_maps(data, "val", "3")
    one = maps["target from source"]
    assert one.queries[-1] == one.keys[-1] == "</s>"
    words = data.target_vocabulary
    said = words.pieces(words.encode(one.queries[:-1]))
    assert " ".join(said) == " ".join(
        word if word in words else "<unk>"
        for word in data.encoded("val").text[3].split()  # type: ignore[index]
    )
    causal_HQQ = maps["target from target"].layers[0]
    assert causal_HQQ.triu(1).count_nonzero() == 0
    assert torch.allclose(one.layers[0].sum(-1), torch.ones(4, len(one.queries)))


@pytest.fixture(scope="module")
def streams(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Settings of a small model on small demo data."""
    root = write_sentiment_demo(
        tmp_path_factory.mktemp("demo") / "sentiment", train=40, val=10, test=10
    )
    sizes = {"dim": 8, "heads": 2, "crossmodal_layers": 2, "memory_layers": 1}
    return {**sizes, "dataset": "demo", "root": root, "threads": 1, "batch_size": 4}


def sentiment(streams: dict[str, Any], **settings: Any) -> tuple[TaskModule, SentimentData]:
    config = resolve(SentimentConfig, {**streams, **settings})
    data = SentimentData(config)
    return TASKS["sentiment"].build(config, data), data


def test_streams_look_at_the_real_steps_of_each_other(streams: dict[str, Any]) -> None:
    task, data = sentiment(streams)
    lengths = set()
    for position, name in enumerate(data.ids("test")[:5]):
        maps = task.attention_maps(data, "test", name)
        batch = batch_of(data.predict_dataloader("test"), position)
        steps = {stream: int(valid_1T.sum()) for stream, valid_1T in batch.valid.items()}
        lengths.add(tuple(steps.values()))
        assert len(maps) == 6
        for places, one in maps.items():
            target, source = places.split(" from ")
            assert (len(one.queries), len(one.keys)) == (steps[target], steps[source])
            assert len(one.layers) == 2
            for weights_HQK in one.layers:
                assert weights_HQK.shape == (2, steps[target], steps[source])
                assert torch.allclose(weights_HQK.sum(-1), torch.ones(2, steps[target]))
    assert len(lengths) > 1  # else no item had padding


def test_only_what_a_model_has_is_told(streams: dict[str, Any]) -> None:
    task, data = sentiment(streams, targets="text")
    assert list(task.attention_maps(data, "val", "0")) == ["text from audio", "text from vision"]
    for model in ("lf-transformer", "ridge"):
        task, data = sentiment(streams, model=model)
        with pytest.raises(ConfigError, match=f"model={model} has no attention from one stream"):
            task.attention_maps(data, "val", "0")
