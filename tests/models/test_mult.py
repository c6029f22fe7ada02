"""MulT: the formula in loops, padding, sites, options and what is refused."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from attnbench.models.attention import (
    AttentionMask,
    Sequence1D,
    SiteError,
    refusal,
    variant_examples,
)
from attnbench.models.crossmodal import CrossmodalLayer, StepEmbedding
from attnbench.models.mult import MULT_SITES, MulT, MultConfig
from attnbench.models.streams import MODALITIES, Streams, last_valid

DIMS = {"text": 6, "audio": 5, "vision": 7}
LENGTHS = {"text": [5, 3, 1, 2], "audio": [9, 4, 6, 11], "vision": [7, 12, 2, 5]}
"""Real steps of four items."""

SMALL: dict[str, Any] = {"dim": 16, "heads": 2, "crossmodal_layers": 2, "memory_layers": 1}


def mult(**options: Any) -> MulT:
    """A small float64 MulT, every parameter off its starting value."""
    torch.manual_seed(3)
    model = MulT(MultConfig(**{"dims": DIMS, "outputs": 2, **SMALL, **options}))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model.double().eval()


def streams(
    lengths: dict[str, list[int]] = LENGTHS, *, more: int = 0, left: bool = False
) -> Streams:
    """Items of these lengths, the same features each time; ``more`` steps of padding on top."""
    features, valid, read_at = {}, {}, {}
    for place, name in enumerate(MODALITIES):
        generator = torch.Generator().manual_seed(place)
        items = [torch.randn(20, DIMS[name], generator=generator) for _ in range(8)]
        steps = max(lengths[name]) + more
        x = 99 * torch.ones(len(lengths[name]), steps, DIMS[name])  # padding that would be seen
        real = torch.zeros(x.shape[:2], dtype=torch.bool)
        for item, length in enumerate(lengths[name]):
            where = slice(steps - length, steps) if left else slice(0, length)
            x[item, where] = items[item][:length]
            real[item, where] = True
        features[name], valid[name], read_at[name] = x.double(), real, last_valid(real)
    return Streams(features, valid, read_at)


def served(spec: str) -> dict[str, str]:
    """The sites that a spec can serve, with the spec."""
    return {name: spec for name, site in MULT_SITES.items() if refusal(spec, site) is None}


EVERY = [spec for spec in variant_examples() if served(spec)]


def naive_block(layer: CrossmodalLayer, x: Tensor, source: Tensor) -> Tensor:
    """One crossmodal block for one item, (Q, D) and (K, D), query by query and head by head."""

    def norm(rows: Tensor, module: Any) -> Tensor:
        centred = rows - rows.mean(-1, keepdim=True)
        spread = (centred.square().mean(-1, keepdim=True) + module.eps).sqrt()
        return centred / spread * module.weight + module.bias

    attention: Any = layer.attention
    width = attention.head_dim
    asked = (
        norm(x, layer.attention_norm) @ attention.query_proj.weight.T + attention.query_proj.bias
    )
    low = norm(source, layer.attention_norm)
    keys = low @ attention.key_proj.weight.T + attention.key_proj.bias
    values = low @ attention.value_proj.weight.T + attention.value_proj.bias
    rows = []
    for query in asked:
        heads = []
        for head in range(attention.heads):
            part = slice(head * width, (head + 1) * width)
            energy = torch.stack([query[part] @ key[part] / math.sqrt(width) for key in keys])
            share = energy.exp() / energy.exp().sum()
            heads.append(sum(one * value[part] for one, value in zip(share, values, strict=True)))
        rows.append(attention.out_proj.weight @ torch.cat(heads) + attention.out_proj.bias)
    x = x + torch.stack(rows)
    hidden = norm(x, layer.ffn_residual.norm) @ layer.ffn.expand.weight.T + layer.ffn.expand.bias
    return x + hidden.clamp_min(0) @ layer.ffn.contract.weight.T + layer.ffn.contract.bias


def test_a_crossmodal_block_is_the_formula() -> None:
    model = mult()
    layer = model.crossmodal["audio_from_text"].layers[1]  # type: ignore[union-attr,index]
    assert isinstance(layer, CrossmodalLayer)
    queries, keys = [9, 4], [3, 5]
    x, source = torch.randn(2, 9, 16).double(), torch.randn(2, 5, 16).double()
    real = torch.arange(5)[None] < torch.tensor(keys)[:, None]
    found, _ = layer(x, source, Sequence1D(9, 5), AttentionMask(real))
    for item in range(2):
        expected = naive_block(layer, x[item, : queries[item]], source[item, : keys[item]])
        torch.testing.assert_close(found[item, : queries[item]], expected)


def test_the_parts_are_put_together_as_in_the_paper() -> None:
    """Six directions, two of them side by side for each target, the last step, the residual."""
    model = mult(crossmodal_layers=1)
    one = {name: [length[0]] for name, length in LENGTHS.items()}
    batch = streams(one)
    low = {}
    for name in MODALITIES:
        convolved = model.convolutions[name](batch.features[name])
        low[name] = StepEmbedding(16)(convolved, batch.valid[name])[0]
    read = []
    for target in MODALITIES:
        sides = []
        for source in MODALITIES:
            if source != target:
                net: Any = model.crossmodal[f"{target}_from_{source}"]
                sides.append(net.norm(naive_block(net.layers[0], low[target], low[source])))
        memory: Any = model.memory[target]
        x = memory.embedding(torch.cat(sides, -1)[None], batch.valid[target])
        for layer in memory.layers:
            x = layer(x, None, None)
        read.append(memory.norm(x)[0, -1])
    last = torch.cat(read)
    expected = model.output(last + model.contract(model.expand(last).relu()))
    torch.testing.assert_close(model(batch).prediction_BO[0], expected)


@pytest.mark.parametrize("conv_padding", ["same", "none"])
@pytest.mark.parametrize("spec", EVERY)
def test_padding_changes_nothing(spec: str, conv_padding: str) -> None:
    """Items alone and together, and with more padding; also on the left without positions."""
    model = mult(**served(spec), conv_padding=conv_padding)
    together = model(streams()).prediction_BO
    torch.testing.assert_close(model(streams(more=5)).prediction_BO, together)
    if spec in ("dot", "nsa", "nsa(norm=layer)", "none"):
        torch.testing.assert_close(model(streams(more=5, left=True)).prediction_BO, together)
    if "norm=batch" not in spec:
        first = {name: length[:1] for name, length in LENGTHS.items()}
        torch.testing.assert_close(model(streams(first)).prediction_BO, together[:1])


@pytest.mark.parametrize("spec", EVERY)
def test_every_variant_trains(spec: str) -> None:
    """Values and gradients are finite and every parameter gets one, with an empty stream too."""
    model = mult(**served(spec)).train()
    # Streams of similar length: a variant with a range reads keys near the query's own index.
    batch = streams({"text": [9, 3, 0, 2], "audio": [9, 0, 6, 7], "vision": [8, 7, 2, 5]})
    assert batch.read_at["audio"].tolist() == [8, -1, 5, 6]
    prediction = model(batch).prediction_BO
    assert prediction.isfinite().all()
    prediction.square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        if "key_proj.bias" not in name:  # the same for all keys: softmax cancels it
            assert parameter.grad.any(), name


@pytest.mark.parametrize("site", MULT_SITES)
def test_another_variant_gives_other_outputs(site: str) -> None:
    plain, swapped = mult(), mult(**{site: "terms(1100)"})
    swapped.load_state_dict(plain.state_dict(), strict=False)
    batch = streams()
    difference = plain(batch).prediction_BO - swapped(batch).prediction_BO
    assert (difference.abs() > 1e-6).all()


@pytest.mark.parametrize(
    ("spec", "site", "reason"),
    [
        ("none", "crossmodal", "no stream would see another one"),
        ("dynamic", "crossmodal", "can't read another sequence"),
        ("gsa(query)", "crossmodal", "every query and key needs a box"),
        ("relation", "memory_self", "it needs the geometry"),
    ],
)
def test_variants_that_can_not_serve_a_site_are_refused(spec: str, site: str, reason: str) -> None:
    with pytest.raises(SiteError, match=reason):
        mult(**{site: spec})


def test_a_future_mask_refuses_variants_that_see_the_future() -> None:
    mult(crossmodal="nsa")
    with pytest.raises(SiteError, match="would see the future"):
        mult(crossmodal="nsa", future_mask="reference")


@pytest.mark.parametrize("source_level", ["low", "intermediate"])
def test_weights_can_be_asked_for(source_level: str) -> None:
    model = mult(source_level=source_level)
    batch = streams()
    plain, asked = model(batch), model(batch, need_weights=True)
    torch.testing.assert_close(plain.prediction_BO, asked.prediction_BO)
    assert not plain.weights and not plain.losses
    assert list(asked.weights) == [
        f"{target} from {source}" for target in MODALITIES for source in MODALITIES
        if target != source
    ]  # fmt: skip
    for layer in asked.weights["text from audio"]:
        assert layer.shape == (4, 2, 5, 11)
        torch.testing.assert_close(layer.sum(-1), torch.ones(4, 2, 5).double())
        assert not layer[1, :, :, 4:].any()
    assert len(asked.weights["text from audio"]) == 2


@pytest.mark.parametrize(("queries", "keys"), [(3, 11), (11, 3), (6, 6), (8, 5)])
def test_the_reference_future_mask(queries: int, keys: int) -> None:
    """Query i sees keys up to i + |K - Q|, of the padded lengths."""
    lengths = {"text": [queries], "audio": [keys], "vision": [2]}
    model = mult(future_mask="reference", padding_masks=False)
    weights = model(streams(lengths), need_weights=True).weights["text from audio"][0]
    seen = torch.arange(keys) <= torch.arange(queries)[:, None] + abs(keys - queries)
    assert ((weights[0, 0] > 0) == seen).all()


def test_without_masks_padding_is_seen_and_the_last_step_is_read() -> None:
    plain, quirky = mult(), mult(padding_masks=False, read="last")
    same = {name: [4, 4] for name in MODALITIES}
    torch.testing.assert_close(
        plain(streams(same)).prediction_BO, quirky(streams(same)).prediction_BO
    )
    for option in ({"padding_masks": False}, {"read": "last"}):
        other = mult(**option)(streams()).prediction_BO
        assert ((other - plain(streams()).prediction_BO).abs() > 1e-6).any(-1).sum() >= 3


def test_positions_count_real_steps_only() -> None:
    embedding = StepEmbedding(6).double()
    x = torch.randn(1, 5, 6).double()
    whole = embedding(x, torch.ones(1, 5, dtype=torch.bool)) - x * 6**0.5
    late = embedding(x, torch.tensor([[False, True, True, False, True]])) - x * 6**0.5
    torch.testing.assert_close(late[0, [1, 2, 4]], whole[0, :3])
    assert late[0, [0, 3]].abs().max() < 1e-12
    angle = torch.tensor([3.0, 3 / 100, 3 / 10000]).double()
    torch.testing.assert_close(whole[0, 2], torch.cat([angle.sin(), angle.cos()]))


def test_first_channel_positions_take_a_zero_for_padding() -> None:
    steps, quirky = StepEmbedding(6).double(), StepEmbedding(6, "first-channel").double()
    x = torch.randn(1, 5, 6).double()
    real = torch.ones(1, 5, dtype=torch.bool)
    torch.testing.assert_close(steps(x, real), quirky(x, real))
    x[0, 2, 0] = 0
    found = quirky(x, real)
    torch.testing.assert_close(found[0, 2], x[0, 2] * 6**0.5)
    torch.testing.assert_close(found[0, 3:], steps(x, real)[0, 3:])


def test_intermediate_sources_are_what_the_opposite_direction_has_reached() -> None:
    low, intermediate = mult(), mult(source_level="intermediate")
    assert low.state_dict().keys() == intermediate.state_dict().keys()
    batch = streams()
    assert ((low(batch).prediction_BO - intermediate(batch).prediction_BO).abs() > 1e-6).all()
    one = {"crossmodal_layers": 1}
    torch.testing.assert_close(
        mult(**one)(batch).prediction_BO,
        mult(**one, source_level="intermediate")(batch).prediction_BO,
    )
    intermediate.train()(batch).prediction_BO.sum().backward()
    assert all(parameter.grad is not None for parameter in intermediate.parameters())


@pytest.mark.parametrize(
    ("options", "directions", "width"),
    [
        ({"targets": ("text",)}, ["text_from_audio", "text_from_vision"], 32),
        (
            {"modalities": ("vision", "text"), "targets": ("vision", "text")},
            ["text_from_vision", "vision_from_text"],
            32,
        ),
        (
            {"modalities": ("text", "audio"), "targets": ("audio",)},
            ["audio_from_text"],
            16,
        ),
    ],
)
def test_only_what_is_used_is_built(
    options: dict[str, Any], directions: list[str], width: int
) -> None:
    model = mult(**options)
    assert list(model.crossmodal) == directions
    assert set(model.memory) == set(options["targets"])
    assert set(model.convolutions) == set(options.get("modalities", MODALITIES))
    batch = streams()
    last, _ = model.represent(batch)
    assert last.shape == (4, width)
    model(batch).prediction_BO.sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_a_stream_of_the_models_width_may_go_without_convolution() -> None:
    dims = DIMS | {"audio": 16}
    assert set(mult(dims=dims, skip_projection_when_equal=True).convolutions) == {"text", "vision"}
    assert set(mult(dims=dims).convolutions) == set(MODALITIES)


def test_attention_dropout_follows_the_source() -> None:
    config = {f"attention_dropout_{name}": place / 10 for place, name in enumerate(MODALITIES, 1)}
    model = mult(**config)
    for key, net in model.crossmodal.items():
        expected = config[f"attention_dropout_{key.partition('_from_')[2]}"]
        assert all(layer.attention.dropout == expected for layer in net.layers)  # type: ignore[union-attr]
    for memory in model.memory.values():
        assert memory.layers[0].self_attention.dropout == 0.1  # type: ignore[index,union-attr]


def test_streams_without_any_step() -> None:
    full = streams({name: [3, 2] for name in MODALITIES})
    none = {"text": torch.zeros(2, 0, 6).double(), "vision": torch.zeros(2, 4, 7).double()}
    mask = {name: torch.zeros(x.shape[:2], dtype=torch.bool) for name, x in none.items()}
    nowhere = dict.fromkeys(none, torch.tensor([-1, -1]))
    batch = Streams({**full.features, **none}, {**full.valid, **mask}, {**full.read_at, **nowhere})
    for padding in ("same", "none"):
        prediction = mult(conv_padding=padding)(batch).prediction_BO
        assert prediction.isfinite().all()


def test_it_can_be_counted_without_memory_for_it() -> None:
    with torch.device("meta"):
        model = MulT(MultConfig(DIMS, 2, **SMALL))
        whole = {name: torch.ones(2, 4, dtype=torch.bool) for name in MODALITIES}
        features = {name: torch.empty(2, 4, width) for name, width in DIMS.items()}
        last = {name: torch.full((2,), 3) for name in MODALITIES}
    assert model(Streams(features, whole, last)).prediction_BO.shape == (2, 2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"targets": ("smell",)}, "no modality is called 'smell'; choose from text, audio, vision"),
        ({"modalities": ("text",)}, "at least two modalities; take lf-transformer"),
        ({"dims": {"text": 6, "audio": 5}}, "the data have no vision: leave it out"),
        (
            {"modalities": ("text", "audio"), "targets": ("vision",)},
            r"one or more of the modalities text\+audio, not vision",
        ),
        (
            {"targets": ("text",), "source_level": "intermediate"},
            r"needs all of text\+audio\+vision as targets",
        ),
        ({"heads": 3}, "3 heads don't divide the width 16"),
        ({"kernel_audio": 2}, "odd and 1 or more, not 2"),
    ],
)
def test_settings_that_do_not_fit_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        mult(**options)
