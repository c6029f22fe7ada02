import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from attnbench.datamodules.sentiment_convert import convert
from attnbench.datamodules.sentiment_loader import (
    SentimentLoader,
    SentimentPlan,
    SentimentSplit,
    StatefulSentimentLoader,
    measure_scale,
)
from tests.datamodules.sentiment_raw import DIMS, STEPS, raw_part, raw_sentiment
from tests.datamodules.writing import Sentence

PLAN = SentimentPlan(batch_size=4, seed=1, shuffle=True)


@pytest.fixture
def split(tmp_path) -> SentimentSplit:
    raw = raw_part("train", 23)
    raw.features["vision"][6] = 0  # an item without vision
    part = convert(raw_sentiment(tmp_path, {"train": raw}), tmp_path).parts["train"]
    rows = np.arange(1, 23)
    return SentimentSplit(part.streams, rows, part.labels[rows], {})


def contents(batches):
    return [
        (b.index_B.tolist(), b.labels_BL.tolist(), b.features["audio"].tolist()) for b in batches
    ]


def test_a_batch_holds_streams_labels_and_places(split):
    batch = next(iter(SentimentLoader(split, replace(PLAN, shuffle=False, batch_size=6))))
    assert len(batch) == 6 and batch.index_B.tolist() == [0, 1, 2, 3, 4, 5]
    assert batch.labels_BL.dtype == torch.float32
    assert batch.labels_BL.tolist() == split.labels[:6].tolist()
    for modality, dim in DIMS.items():
        numbers = range(1, 7)
        lengths = [
            0 if modality == "vision" and n == 6 else 1 + n % STEPS[modality] for n in numbers
        ]
        features, valid = batch.features[modality], batch.valid[modality]
        assert features.shape == (6, max(lengths), dim) and features.dtype == torch.float32
        assert valid.sum(1).tolist() == lengths and valid.dtype == torch.bool
        assert batch.read_at[modality].tolist() == [length - 1 for length in lengths]
        assert not features[~valid].any()
        for place, length in enumerate(lengths):
            np.testing.assert_array_equal(
                features[place, :length], split.streams[modality].of(place + 1)
            )


def test_batches_padded_as_in_the_file(split):
    loader = SentimentLoader(replace(split, as_in_file=True), replace(PLAN, shuffle=False))
    for batch in loader:
        for modality, steps in STEPS.items():
            assert batch.features[modality].shape[1] == steps
            there = batch.read_at[modality] >= 0
            assert (batch.read_at[modality][there] == steps - 1).all()  # padded in front
            assert batch.valid[modality][there, -1].all()
            assert not batch.features[modality][~batch.valid[modality]].any()


@pytest.mark.parametrize("bucket", ["random", "length"])
def test_batches_depend_on_seed_and_epoch_alone(split, bucket):
    plan = replace(PLAN, bucket=bucket)
    loader = StatefulSentimentLoader(split, plan)
    first, second = contents(loader), contents(loader)
    assert len(first) == len(second) == len(loader) == 6
    for epoch in (first, second):
        assert sorted(i for rows, *_ in epoch for i in rows) == list(range(22))
    assert [rows for rows, *_ in first] != [rows for rows, *_ in second]
    torch.manual_seed(99)
    np.random.seed(99)
    again = StatefulSentimentLoader(split, plan)
    assert contents(again) == first and contents(again) == second
    assert contents(StatefulSentimentLoader(split, replace(plan, seed=2))) != first


@pytest.mark.parametrize("bucket", ["random", "length"])
def test_training_goes_on_with_exactly_the_next_batch(split, bucket):
    plan = replace(PLAN, bucket=bucket)
    loader = StatefulSentimentLoader(split, plan)
    expected = [*contents(loader), *contents(loader)]
    for stop in (0, 2, 5, 6, 9):
        loader = StatefulSentimentLoader(split, plan)
        taken = []
        while len(taken) < stop:
            for batch in loader:
                taken.append(batch)
                if len(taken) == stop:
                    break
        state = json.loads(json.dumps(loader.state_dict()))
        resumed = StatefulSentimentLoader(split, plan)
        resumed.load_state_dict(state)
        rest = contents(resumed)
        while len(taken) + len(rest) < 12:
            rest += contents(resumed)
        assert contents(taken) + rest == expected


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"batch_size": 5}, "batch_size was 4 and is 5"),
        ({"bucket": "length"}, "bucket was random and is length"),
        ({"seed": 3}, "seed was 1 and is 3"),
    ],
)
def test_a_place_in_other_batches_is_refused(split, change, said):
    loader = StatefulSentimentLoader(split, PLAN)
    next(iter(loader))
    other = StatefulSentimentLoader(split, replace(PLAN, **change))
    with Sentence("can't be continued", said):
        other.load_state_dict(loader.state_dict())
    fewer = replace(split, rows=split.rows[:-1], labels=split.labels[:-1])
    with Sentence("items was 22 and is 21"):
        StatefulSentimentLoader(fewer, PLAN).load_state_dict(loader.state_dict())


@pytest.mark.parametrize("bucket", ["random", "length"])
@pytest.mark.parametrize("shuffle", [True, False])
def test_ranks_share_the_items(split, bucket, shuffle):
    plan = replace(PLAN, bucket=bucket, shuffle=shuffle, num_replicas=3)
    loaders = [SentimentLoader(split, replace(plan, rank=rank)) for rank in range(3)]
    found = [[b.index_B.tolist() for b in loader] for loader in loaders]
    assert {len(batches) for batches in found} == {len(loaders[0])} == {2}
    assert {i for batches in found for rows in batches for i in rows} == set(range(22))


def test_batches_of_similar_length_need_less_padding(tmp_path):
    part = convert(raw_sentiment(tmp_path, {"train": raw_part("train", 300)}), tmp_path)
    streams = {"audio": part.parts["train"].streams["audio"]}
    rows = np.arange(300)
    split = SentimentSplit(streams, rows, part.parts["train"].labels, {})

    def padding(bucket, epoch=0):
        plan = replace(PLAN, bucket=bucket)
        lengths = split.lengths_N
        return sum(int((lengths[b].max() - lengths[b]).sum()) for b in plan.batches(lengths, epoch))

    assert padding("length") < padding("random") / 4
    plan = replace(PLAN, bucket="length")
    means = [split.lengths_N[b].mean() for b in plan.batches(split.lengths_N, 0)]
    assert means != sorted(means)
    first, second = (
        {frozenset(b.tolist()) for b in plan.batches(split.lengths_N, epoch)} for epoch in (0, 1)
    )
    assert len(first & second) < len(first) / 2  # other items come together


def test_standard_scale_uses_the_real_steps_of_the_items_given(split):
    stream = split.streams["audio"]
    rows = np.concatenate([stream.of(n) for n in range(1, 9)])
    scale = measure_scale(stream, np.arange(1, 9))
    np.testing.assert_allclose(scale.mean_F, rows.mean(0), atol=1e-6)
    np.testing.assert_allclose(scale.factor_F, 1 / rows.std(0), rtol=1e-5)
    scaled = replace(split, scale={"audio": scale})
    batch = scaled.batch(np.arange(8))
    real = batch.features["audio"][batch.valid["audio"]]
    np.testing.assert_allclose(real.mean(0), np.zeros(3), atol=1e-5)
    np.testing.assert_allclose(real.std(0, unbiased=False), np.ones(3), atol=1e-4)
    assert not batch.features["audio"][~batch.valid["audio"]].any()


def test_a_channel_that_never_changes_is_only_shifted(tmp_path):
    raw = raw_part("train", 12)
    raw.features["audio"][raw.features["audio"][..., 0] != 0, 0] = 0.1
    stream = convert(raw_sentiment(tmp_path, {"train": raw}), tmp_path).parts["train"].streams
    scale = measure_scale(stream["audio"], np.arange(12))
    assert scale.constant == 1 and scale.factor_F[0] == 1
    np.testing.assert_allclose(scale.of(stream["audio"].rows_RF)[:, 0], 0, atol=1e-6)


def test_pooled_means_are_those_of_the_batches(split):
    scaled = replace(split, scale={"text": measure_scale(split.streams["text"], split.rows)})
    for each in (split, scaled):
        pooled = each.pooled()
        assert pooled.shape == (22, sum(DIMS.values())) and pooled.dtype == np.float32
        batch = each.batch(np.arange(22))
        expected = torch.cat(
            [
                batch.features[m].sum(1) / batch.valid[m].sum(1, keepdim=True).clamp_min(1)
                for m in DIMS
            ],
            dim=1,
        )
        np.testing.assert_allclose(pooled, expected, atol=1e-6)
        assert not pooled[5, -DIMS["vision"] :].any()  # the item without vision
