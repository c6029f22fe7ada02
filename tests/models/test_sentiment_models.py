"""Every sentiment model: padding, missing modalities, matched sizes, refusals, learning."""

import dataclasses
from typing import Any

import pytest
import torch
from torch import Tensor

from attnbench.models.attention import SiteError, refusal, variant_examples
from attnbench.models.sentiment import (
    SENTIMENT_SITES,
    SentimentModelConfig,
    SentimentModelName,
    build_sentiment_model,
    matched,
    needs_alignment,
    parameter_count,
    sites_of,
)
from attnbench.models.streams import MODALITIES, Streams
from tests.models.sentiment_streams import (
    ALIGNED,
    DIMS,
    UNALIGNED,
    built,
    item_of,
    small,
    streams,
)

Row = tuple[SentimentModelName, dict[str, Any]]
BY_STEP: list[Row] = [
    ("ef-lstm", {"lstm_layers": 2}),
    ("ef-transformer", {"early_fusion": "features"}),
    ("raven", {}),
    ("mctn", {}),
]
AS_THEY_ARE: list[Row] = [
    ("mult", {}),
    ("lf-lstm", {}),
    ("lf-transformer", {}),
    ("ef-transformer", {}),
    ("lf-transformer", {"modalities": ("vision",)}),
    ("lf-lstm", {"modalities": ("audio", "text")}),
    ("pooled", {}),
]
CTC: list[Row] = [(name, {**options, "alignment_by": "ctc"}) for name, options in BY_STEP]
EVERY = BY_STEP + AS_THEY_ARE + CTC
LENGTHS = {id(row): ALIGNED if row in BY_STEP else UNALIGNED for row in EVERY}


def label(row: Row) -> str:
    return row[0] + "".join(f" {key}={value}" for key, value in row[1].items())


every = pytest.mark.parametrize("row", EVERY, ids=label)


@every
def test_padding_on_either_side_changes_nothing(row: Row) -> None:
    """What lies in padding, how much there is and on which side: the same predictions."""
    model = built(row[0], **row[1])
    lengths = LENGTHS[id(row)]
    expected = model(streams(lengths)).prediction_BO
    assert expected.shape == (4, 2)
    for side in ("right", "left"):
        padded = streams(lengths, side=side, extra=4, padding=7.0)
        torch.testing.assert_close(model(padded).prediction_BO, expected, rtol=0, atol=1e-11)
    for index in range(4):
        alone = model(item_of(streams(lengths), index)).prediction_BO
        torch.testing.assert_close(alone, expected[index : index + 1], rtol=0, atol=1e-11)


@every
def test_training_losses_do_not_depend_on_padding(row: Row) -> None:
    model = built(row[0], **row[1]).train()
    lengths = LENGTHS[id(row)]
    expected = model(streams(lengths))
    padded = model(streams(lengths, side="left", extra=3, padding=-2.0))
    terms = {"mctn": {"translation", "cycle"}}.get(row[0], set())
    terms = terms | ({"ctc"} if row in CTC else set())
    assert set(expected.losses) == set(padded.losses) == terms
    for name, value in expected.losses.items():
        assert value.shape == () and value > 0
        torch.testing.assert_close(padded.losses[name], value, rtol=1e-10, atol=0)


@every
def test_evaluation_has_no_further_losses(row: Row) -> None:
    assert built(row[0], **row[1])(streams(LENGTHS[id(row)])).losses == {}


@every
def test_every_parameter_learns(row: Row) -> None:
    """Nothing is built that the configuration doesn't use."""
    model = built(row[0], **row[1]).train()
    output = model(streams(LENGTHS[id(row)]))
    (output.prediction_BO.square().sum() + sum(output.losses.values())).backward()
    idle = [
        name
        for name, parameter in model.named_parameters()
        if parameter.grad is None or not parameter.grad.abs().sum() > 0
    ]
    assert idle == []


MISSING = [
    {**ALIGNED, "audio": (5, 0, 1, 4)},
    {"text": (0, 2, 0, 0), "audio": (5, 0, 1, 0), "vision": (5, 2, 0, 0)},
    {"text": (5, 2, 1, 4), "audio": (0, 0, 0, 0), "vision": (5, 2, 1, 4)},
    {"text": (0, 0, 0, 0), "audio": (3, 0, 1, 0), "vision": (3, 2, 0, 0)},
]


@every
@pytest.mark.parametrize("lengths", MISSING, ids=str)
def test_items_without_steps_are_finite(row: Row, lengths: dict[str, tuple[int, ...]]) -> None:
    """Predictions, losses and gradients, also where a modality has no step in the whole batch."""
    longest = max(max(numbers) for numbers in lengths.values())
    batch = streams(lengths)
    if row in BY_STEP:  # aligned data have as many steps in each modality
        batch = Streams(
            {
                name: torch.nn.functional.pad(x, (0, 0, 0, longest - x.shape[1]))
                for name, x in batch.features.items()
            },
            {
                name: torch.nn.functional.pad(x, (0, longest - x.shape[1]))
                for name, x in batch.valid.items()
            },
            batch.read_at,
        )
    model = built(row[0], **row[1]).train()
    output = model(batch)
    assert output.prediction_BO.isfinite().all()
    loss = output.prediction_BO.square().sum() + sum(output.losses.values())
    assert loss.isfinite()
    loss.backward()
    for parameter in model.parameters():
        assert parameter.grad is None or parameter.grad.isfinite().all()


@pytest.mark.parametrize("name", ["lf-lstm", "lf-transformer", "ef-transformer"])
def test_a_missing_modality_reads_as_zeros(name: SentimentModelName) -> None:
    """What the head multiplies with it has no influence."""
    model: Any = built(name)
    batch = streams({"text": (3, 2), "audio": (0, 4), "vision": (2, 2)})
    before = model(batch).prediction_BO
    width = model.head.inner.weight.shape[1] // 3
    with torch.no_grad():
        model.head.inner.weight[:, width : 2 * width] *= 2
    after = model(batch).prediction_BO
    torch.testing.assert_close(after[0], before[0])
    assert not torch.allclose(after[1], before[1])


SELF = [s for s in variant_examples() if refusal(s, SENTIMENT_SITES["memory_self"]) is None]


@pytest.mark.parametrize("spec", SELF)
@pytest.mark.parametrize("name", ["ef-transformer", "lf-transformer"])
def test_any_self_attention_fits_and_ignores_padding(name: SentimentModelName, spec: str) -> None:
    """Also those with relative positions, over streams of different lengths after one another."""
    model = built(name, memory_self=spec, dim=16, hidden=16, heads=2)
    expected = model(streams(UNALIGNED)).prediction_BO
    assert expected.isfinite().all()
    padded = model(streams(UNALIGNED, side="left", extra=5, padding=3.0)).prediction_BO
    torch.testing.assert_close(padded, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", ["ef-transformer", "lf-transformer"])
def test_future_mask(name: SentimentModelName) -> None:
    """With it a step before the end doesn't see what follows, and variants must be able to."""
    options: dict[str, Any] = {"modalities": ("audio",), "memory_self": "dot"}
    batch = streams({"audio": (6, 6)})
    changed = batch.features["audio"].clone()
    changed[:, 4:] += 1
    early = {"audio": torch.tensor([2, 2])}
    for mask, same in (("reference", True), ("none", False)):
        model = built(name, kernel_audio=1, future_mask=mask, **options)
        one = model(Streams(batch.features, batch.valid, early)).prediction_BO
        two = model(Streams({"audio": changed}, batch.valid, early)).prediction_BO
        assert torch.allclose(one, two) == same
    with pytest.raises(SiteError, match="nsa"):
        build_sentiment_model(name, small(memory_self="nsa", future_mask="reference"))


@pytest.mark.parametrize("row", BY_STEP, ids=label)
def test_unaligned_streams_are_refused(row: Row) -> None:
    model = built(row[0], **row[1]).train()
    with pytest.raises(ValueError, match="use aligned data, or alignment_by=ctc") as caught:
        model(streams(UNALIGNED))
    assert row[0] in str(caught.value) and "audio 9" in str(caught.value)


def test_which_models_need_aligned_data() -> None:
    assert all(needs_alignment(name, small(**options)) for name, options in BY_STEP)
    assert not any(needs_alignment(name, small(**options)) for name, options in AS_THEY_ARE + CTC)
    assert not needs_alignment("ef-lstm", small(modalities=("audio",)))


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("bert", {}, "no sentiment model is called 'bert'; choose from mult"),
        ("ef-lstm", {"modalities": ()}, "not none"),
        ("ef-lstm", {"modalities": ("text", "video")}, "text.video"),
        ("lf-lstm", {"modalities": ("text", "text")}, "each once"),
        ("lf-lstm", {"dims": {"text": 6, "audio": 5}}, "the data have no vision"),
        ("lf-lstm", {"alignment_by": "ctc"}, "set alignment_by=none"),
        ("ef-transformer", {"alignment_by": "ctc"}, "set alignment_by=none"),
        ("mult", {"alignment_by": "ctc"}, "set alignment_by=none"),
        ("raven", {"alignment_by": "ctc", "modalities": ("text",)}, "name text and at least"),
        ("ef-lstm", {"alignment_by": "ctc", "text_steps": None}, "set text_steps"),
        ("raven", {"modalities": ("audio", "vision")}, "add text"),
        ("mctn", {"modalities": ("audio", "vision")}, "name text and at least one more"),
        ("mctn", {"modalities": ("text",)}, "name text and at least one more"),
        ("lf-lstm", {"dims": {"text": 6}, "modalities": ("text",), "hidden": None}, "set hidden"),
        ("lf-transformer", {"hidden": 9}, "heads"),
        ("lf-transformer", {"memory_self": "nosuch"}, "nosuch"),
    ],
)
def test_what_does_not_fit_is_refused(name: Any, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        build_sentiment_model(name, small(**options))


PUBLIC: dict[str, Any] = {
    "dim": 30,
    "heads": 5,
    "crossmodal_layers": 5,
    "memory_layers": 5,
    "kernel_text": 1,
    "kernel_audio": 1,
    "kernel_vision": 1,
}
SIZES = [({}, 1_549_321), (PUBLIC, 1_073_731), ({"heads": 10, "dim": 40}, 1_549_321)]


@pytest.mark.parametrize(("sizes", "full"), SIZES, ids=["paper", "public code", "ten heads"])
def test_baselines_have_as_many_parameters_as_mult(sizes: dict[str, Any], full: int) -> None:
    """On CMU-MOSEI's widths, within one per cent."""
    config = SentimentModelConfig({"text": 300, "audio": 74, "vision": 35}, 1, **sizes)
    assert parameter_count("mult", config) == full
    for name, options in [*BY_STEP, *AS_THEY_ARE[1:-1], *CTC]:
        filled = matched(name, dataclasses.replace(config, text_steps=50, **options))
        assert filled.hidden is not None
        assert parameter_count(name, filled) == pytest.approx(full, rel=0.01), name


def test_the_width_found_is_the_nearest() -> None:
    config = SentimentModelConfig({"text": 300, "audio": 74, "vision": 35}, 1)
    full = parameter_count("mult", config)
    found = matched("ef-lstm", config).hidden
    assert found is not None
    distance = {
        width: abs(parameter_count("ef-lstm", dataclasses.replace(config, hidden=width)) - full)
        for width in range(found - 3, found + 4)
    }
    assert min(distance, key=lambda width: distance[width]) == found


def test_matching_leaves_given_widths_and_random_numbers_alone() -> None:
    config = small(hidden=None)
    filled = matched("lf-lstm", config)
    assert matched("lf-lstm", filled) is filled
    torch.manual_seed(1)
    found = build_sentiment_model("lf-lstm", config).state_dict()
    torch.manual_seed(1)
    given = build_sentiment_model("lf-lstm", filled).state_dict()
    assert found.keys() == given.keys()
    assert all(torch.equal(found[name], given[name]) for name in found)


def test_sites() -> None:
    assert sites_of("mult") == ("crossmodal", "memory_self")
    assert sites_of("lf-transformer") == sites_of("ef-transformer") == ("memory_self",)
    assert sites_of("raven") == ()


def test_pooled_is_a_linear_map_of_means() -> None:
    model: Any = built("pooled")
    batch = streams({"text": (3, 1), "audio": (0, 4), "vision": (2, 2)})
    for index, lengths in enumerate([(3, 0, 2), (1, 4, 2)]):
        means: list[Tensor] = []
        for name, number in zip(MODALITIES, lengths, strict=True):
            x = batch.features[name][index, :number]
            means.append(x.mean(0) if number else torch.zeros(DIMS[name], dtype=x.dtype))
        expected = model.linear.weight @ torch.cat(means) + model.linear.bias
        torch.testing.assert_close(model(batch).prediction_BO[index], expected)


@every
def test_learns_sixteen_items_by_heart(row: Row) -> None:
    """Random labels, so that only memory helps; a linear map of means can't get all the way."""
    torch.manual_seed(2)
    by_step = row in BY_STEP
    one = (torch.arange(16) % 4 + 2).tolist()
    lengths = {name: one if by_step else [n + k for n in one] for k, name in enumerate(MODALITIES)}
    base = streams(lengths)
    batch = Streams(
        {name: x.float() for name, x in base.features.items()}, base.valid, base.read_at
    )
    label = torch.randn(16, 1)
    model = build_sentiment_model(row[0], small(outputs=1, hidden=24, **row[1]))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    losses: list[float] = []
    for _ in range(80):
        output = model(batch)
        loss = (output.prediction_BO - label).abs().mean()
        losses.append(float(loss.detach()))
        optimizer.zero_grad()
        (loss + 0.1 * sum(output.losses.values())).backward()
        optimizer.step()
    assert losses[-1] < (0.7 if row[0] == "pooled" else 0.3) * losses[0]


@every
def test_half_precision(row: Row) -> None:
    model = built(row[0], **row[1]).float().train()
    base = streams(LENGTHS[id(row)])
    batch = Streams(
        {name: x.float() for name, x in base.features.items()}, base.valid, base.read_at
    )
    exact = model(batch).prediction_BO
    with torch.autocast("cpu", torch.bfloat16):
        output = model(batch)
    loss = output.prediction_BO.float().square().sum() + sum(output.losses.values())
    loss.backward()
    torch.testing.assert_close(output.prediction_BO.float(), exact, rtol=0.1, atol=0.1)
