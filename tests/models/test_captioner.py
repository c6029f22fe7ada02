"""The captioner: published sizes, captions of one image together, decoding, boxes, the order."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from attnbench.models.attention import Boxes, SiteError, refusal, variant_examples
from attnbench.models.captioner import (
    CAPTIONER_SITES,
    Captioner,
    CaptionerConfig,
    absolute_geometry,
)
from attnbench.models.decoding import beam_search, greedy_search, sample
from tests.models.attention.compare import relative_error

IMAGES, REGIONS, SYMBOLS = 4, 7, 23
SEARCH: dict[str, Any] = {"bos": 0, "eos": 0, "pad": None}
GEOMETRY = ["gsa(query,geometry_dim=8)", "ngsa(query+key,geometry_dim=8)", "relation"]


def served(spec: str) -> dict[str, str]:
    """The sites that a spec can serve, with the spec."""
    return {name: spec for name, site in CAPTIONER_SITES.items() if refusal(spec, site) is None}


EVERY = [spec for spec in variant_examples() if served(spec)]


def captioner(spec: str = "dot", **options: Any) -> Captioner:
    """A small float64 captioner, every parameter off its starting value."""
    torch.manual_seed(3)
    sites = {"encoder_self": "dot", "decoder_self": "dot", "cross": "dot", **served(spec)}
    sizes = {"feature_dim": 6, "dim": 16, "ffn_dim": 24, "heads": 2}
    layers = {"encoder_layers": 2, "decoder_layers": 2}
    model = Captioner(CaptionerConfig(SYMBOLS, **{**sizes, **layers, **sites, **options}))  # type: ignore[arg-type]
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model.double().eval()


def images() -> tuple[Tensor, Tensor, Tensor]:
    """Features, mask and boxes; one image has a single region."""
    features = torch.randn(IMAGES, REGIONS, 6).double()
    valid = torch.arange(REGIONS)[None] < torch.tensor([7, 3, 1, 5])[:, None]
    boxes = 100 * torch.rand(IMAGES, REGIONS, 4).double()
    boxes[..., 2:] += boxes[..., :2]
    return features, valid, boxes


def captions(number: int, length: int = 6) -> Tensor:
    """Decoder inputs (B, C, T) that begin with 0."""
    words = torch.randint(1, SYMBOLS, (IMAGES, number, length))
    words[..., 0] = 0
    return words


@pytest.mark.parametrize(
    ("layers", "spec", "expected"),
    [
        (1, "dot", 18_130_704),
        (2, "dot", 25_487_120),
        (4, "dot", 40_199_952),
        (6, "dot", 54_912_784),
        (4, "nsa", 40_199_952),
        (4, "gsa(content)", 40_204_112),
        (4, "gsa(query)", 41_514_832),
        (4, "gsa(key)", 41_514_832),
        (4, "ngsa(query)", 41_514_832),
    ],
)
def test_published_parameter_counts(layers: int, spec: str, expected: int) -> None:
    """18.1, 25.5, 40.2 and 54.9 M of Table 1; 40.2 and 41.5 M of Table 4."""
    config = CaptionerConfig(9488, encoder_layers=layers, decoder_layers=layers, encoder_self=spec)
    with torch.device("meta"):
        model = Captioner(config)
    assert sum(parameter.numel() for parameter in model.parameters()) == expected
    published = {1: 18.1, 2: 25.5, 4: 40.2, 6: 54.9}[layers]
    if spec in ("gsa(query)", "gsa(key)", "ngsa(query)"):
        published = 41.5
    assert abs(expected / 1e6 - published) < 0.05


def test_absolute_geometry_adds_almost_nothing() -> None:
    with torch.device("meta"):
        model = Captioner(CaptionerConfig(9488, absolute_geometry=True))
    more = sum(parameter.numel() for parameter in model.parameters()) - 40_199_952
    assert more == 6 * 512  # 40.2 M in Table 4


def test_costs_are_counted_without_memory() -> None:
    """Multiply-accumulates of the published sizes on the meta device."""
    with torch.device("meta"):
        model = Captioner(CaptionerConfig(9488, encoder_self="gsa(query)"))
        inputs = (torch.empty(1, 36, 2048), torch.ones(1, 36, dtype=torch.bool))
        boxes, words = torch.empty(1, 36, 4), torch.zeros(1, 1, 16, dtype=torch.long)
        with FlopCounterMode(display=False) as counter:
            logits = model(*inputs, boxes, words)
    assert logits.is_meta and logits.shape == (1, 1, 16, 9488)
    layers = 4 * (36 * 3.1e6 + 16 * 4.2e6)  # about the weights of a layer for each element
    assert 0.9 * layers < counter.get_total_flops() / 2 < 1.5 * layers


@pytest.mark.parametrize("spec", EVERY)
def test_the_captions_of_an_image_do_not_see_one_another(spec: str) -> None:
    model, (features, valid, boxes), words = captioner(spec), images(), captions(3)
    together = model(features, valid, boxes, words)
    assert together.shape == (IMAGES, 3, 6, SYMBOLS)
    for c in range(3):
        alone = model(features, valid, boxes, words[:, c : c + 1])
        torch.testing.assert_close(together[:, c : c + 1], alone)


@pytest.mark.parametrize("spec", [*EVERY, "gsa(key)+deformable"])
def test_an_image_does_not_notice_its_padding_or_its_neighbours(spec: str) -> None:
    model, (features, valid, boxes), words = captioner(spec), images(), captions(2)
    together = model(features, valid, boxes, words)
    broken = features.masked_fill(~valid[..., None], 1e3), boxes.masked_fill(~valid[..., None], -5)
    torch.testing.assert_close(model(broken[0], valid, broken[1], words), together)
    for b, regions in enumerate(valid.sum(1).tolist()):
        one = slice(b, b + 1)
        alone = model(
            features[one, :regions], valid[one, :regions], boxes[one, :regions], words[one]
        )
        torch.testing.assert_close(together[one], alone)


@pytest.mark.parametrize(
    ("spec", "norm_first"), [*((spec, False) for spec in EVERY), ("ngsa(query)", True)]
)
@torch.no_grad()
def test_step_by_step_equals_the_whole_pass(spec: str, norm_first: bool) -> None:
    model, (features, valid, boxes) = captioner(spec, norm_first=norm_first), images()
    words = captions(1)
    logits = model(features, valid, boxes, words)[:, 0]
    state = model.start(features, valid, boxes)
    for t in range(words.shape[-1]):
        torch.testing.assert_close(model.step(words[:, 0, t], state), logits[:, t])


@torch.no_grad()
def test_beam_search_scores_are_those_of_the_full_pass() -> None:
    model, (features, valid, boxes) = captioner("ngsa(query)"), images()
    found = beam_search(
        model,
        model.start(features, valid, boxes),
        items=IMAGES,
        width=3,
        n_best=3,
        max_length_I=8,
        **SEARCH,
    )
    assert len({best[0].tokens for best in found}) > 1
    for b, beams in enumerate(found):
        one = slice(b, b + 1)
        for beam in beams:
            words = torch.tensor([[[0, *beam.tokens[:-1]]]])
            logits = model(features[one], valid[one], boxes[one], words)[0, 0]
            scores = logits.log_softmax(-1).gather(1, torch.tensor(beam.tokens)[:, None])
            expected = pytest.approx(scores.squeeze(1).tolist(), abs=1e-4)
            assert list(beam.positional_scores) == expected


@torch.no_grad()
def test_nothing_of_an_image_is_stored_once_a_beam() -> None:
    model, inputs = captioner("gsa(query)"), images()
    state = model.start(*inputs)
    held = state.nbytes
    assert held == 2 * 2 * IMAGES * REGIONS * 16 * 8  # keys and values of two layers
    model.step(torch.zeros(IMAGES, dtype=torch.long), state)
    grown = state.nbytes - held
    state.select(torch.arange(IMAGES).repeat_interleave(3))
    assert state.nbytes == held + 3 * grown
    greedy_search(model, model.start(*inputs), items=IMAGES, max_length_I=5, **SEARCH)


def test_samples_carry_the_gradient_of_their_log_probability() -> None:
    """As self-critical training needs it: through decoding equals through the whole pass."""
    model, (features, valid, boxes) = captioner("gsa(query)"), images()
    drawn = sample(
        model,
        model.start(features, valid, boxes),
        items=IMAGES,
        width=3,
        seed_I=[1, 2, 3, 4],
        max_length_I=6,
        min_length=0,
        **SEARCH,
    )
    tokens = drawn.tokens_NT.view(IMAGES, 3, -1)
    inputs = torch.cat([torch.zeros_like(tokens[..., :1]), tokens[..., :-1]], -1)
    logits = model(features, valid, boxes, inputs)
    scores = logits.log_softmax(-1).gather(-1, tokens[..., None]).squeeze(-1)
    free = drawn.valid_NT.view_as(tokens).clone()
    free[..., 6:] = False  # there the end is forced
    ours = drawn.log_probabilities_NT.view_as(tokens)
    torch.testing.assert_close(ours[free].double(), scores[free], atol=1e-5, rtol=1e-5)
    parameters = dict(model.named_parameters())
    found = torch.autograd.grad(ours[free].sum(), list(parameters.values()))
    expected = torch.autograd.grad(scores[free].sum(), list(parameters.values()))
    for name, one, other in zip(parameters, found, expected, strict=True):
        assert relative_error(one, other) < 1e-4 or name.endswith("key_proj.bias"), name


@pytest.mark.parametrize("spec", ["dot", "nsa", *GEOMETRY])
@pytest.mark.parametrize("absolute", [False, True])
def test_the_order_of_the_regions_does_not_matter(spec: str, absolute: bool) -> None:
    model, (features, valid, boxes) = captioner(spec, absolute_geometry=absolute), images()
    words, moved = captions(2), torch.randperm(REGIONS)
    expected = model(features, valid, boxes, words)
    turned = model(features[:, moved], valid[:, moved], boxes[:, moved], words)
    torch.testing.assert_close(turned, expected)


@pytest.mark.parametrize("spec", GEOMETRY)
def test_boxes_are_read_where_asked_for_and_only_there(spec: str) -> None:
    (features, valid, boxes), words = images(), captions(1)
    other = boxes.flip(1)
    plain, aware = captioner(), captioner(spec)
    assert torch.equal(plain(features, valid, boxes, words), plain(features, valid, None, words))
    assert not plain.needs_boxes and aware.needs_boxes
    y = aware(features, valid, boxes, words)
    torch.testing.assert_close(aware(features, valid, boxes / 640 + 1, words), y)
    assert not torch.allclose(aware(features, valid, other, words), y)
    with pytest.raises(SiteError, match="needs the boxes of the regions"):
        aware(features, valid, None, words)


def test_absolute_geometry() -> None:
    boxes = torch.tensor([[[10.0, 20, 30, 50], [0, 0, 40, 100], [1, 2, 3, 4]]])
    valid = torch.tensor([[True, True, False]])
    given = absolute_geometry(boxes, valid, torch.tensor([[100.0, 200.0]]))
    expected = torch.tensor([[0.1, 0.1, 0.3, 0.25, 0.03], [0, 0, 0.4, 0.5, 0.2], [0.0] * 5])
    torch.testing.assert_close(given[0], expected)
    of_extent = absolute_geometry(boxes, valid)
    torch.testing.assert_close(
        of_extent, absolute_geometry(boxes, valid, torch.tensor([[40, 100]]))
    )
    torch.testing.assert_close(absolute_geometry(boxes / 7, valid), of_extent)
    assert (absolute_geometry(0 * boxes, valid) == 0).all()
    assert absolute_geometry(boxes[:, :0], valid[:, :0]).shape == (1, 0, 5)


def test_absolute_geometry_reaches_the_captions() -> None:
    (features, valid, boxes), words = images(), captions(1)
    model = captioner(absolute_geometry=True)
    size = torch.full((IMAGES, 2), 300.0)
    y = model(features, valid, boxes, words, size)
    assert model.needs_boxes
    assert not torch.allclose(model(features, valid, boxes + 20, words, size), y)
    state = model.start(features, valid, boxes, size)
    torch.testing.assert_close(model.step(words[:, 0, 0], state), y[:, 0, 0])
    with pytest.raises(SiteError, match="absolute_geometry needs the boxes"):
        model(features, valid, None, words)


@pytest.mark.parametrize("spec", ["dot", "nsa", *GEOMETRY])
def test_an_image_without_regions(spec: str) -> None:
    """Finite, and equal whatever stands in its padding."""
    model, (features, valid, boxes), words = captioner(spec).train(), images(), captions(1)
    valid = valid.clone()
    valid[1] = False
    loss = model(features, valid, boxes, words).square().mean()
    loss.backward()
    gradients = [p.grad for p in model.parameters()]
    assert all(gradient is not None and gradient.isfinite().all() for gradient in gradients)
    assert torch.isfinite(loss)


@pytest.mark.parametrize(
    ("site", "spec", "reason"),
    [
        (
            "encoder_self",
            "terms(0100)",
            "needs the geometry Sequence1D, and encoder_self offers Box",
        ),
        ("decoder_self", "gsa(query)", "every query and key needs a box"),
        ("decoder_self", "nsa", "see the future"),
        ("cross", "gsa(query)", "every query and key needs a box"),
        ("cross", "terms(0001)", "needs the geometry Sequence1D, and cross offers none"),
        ("cross", "none", "never sees the image"),
        ("cross", "dynamic", "can't read another sequence"),
    ],
)
def test_who_may_not_stand_where(site: str, spec: str, reason: str) -> None:
    with pytest.raises(SiteError, match=reason):
        captioner(**{site: spec})


def test_the_geometry_is_made_once_for_all_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    original = Boxes._make_log_ratios

    def counted(self: Boxes) -> Tensor:
        made.append(1)
        return original(self)

    monkeypatch.setattr(Boxes, "_make_log_ratios", counted)
    features, valid, boxes = images()
    captioner("gsa(query)", encoder_layers=3).encode(features, valid, boxes)
    assert len(made) == 1
