"""Generation with the real translator: the other sentences of a batch change nothing."""

from typing import Any

import pytest
import torch
from torch import Tensor

from attnbench.models.attention import refusal, variant_examples
from attnbench.models.decoding import (
    Hypothesis,
    LengthPenalty,
    beam_search,
    greedy_search,
    sample,
)
from attnbench.models.translator import TRANSLATOR_SITES, Translator, TranslatorConfig

PAD, EOS = 1, 2
SYMBOLS: dict[str, Any] = {"bos": EOS, "eos": EOS, "pad": PAD}
SENTENCES = 64
LIMIT = 12


def served(spec: str) -> dict[str, str]:
    """The sites that a spec can serve, with the spec."""
    return {name: spec for name, site in TRANSLATOR_SITES.items() if refusal(spec, site) is None}


SPECS = [
    *variant_examples(),
    "terms(0010)+deformable",
    "terms(1111,range=3)",
    "none",
]


def translator(spec: str, **options: object) -> Translator:
    """A small random translator with the spec wherever it can stand."""
    torch.manual_seed(3)
    config = TranslatorConfig(
        source_vocabulary=40,
        target_vocabulary=40,
        dim=16,
        ffn_dim=32,
        heads=2,
        encoder_layers=2,
        decoder_layers=2,
        share_embeddings="none",
        **{"encoder_self": "dot", "decoder_self": "dot", "cross": "dot", **served(spec)},  # type: ignore[arg-type]
        **options,  # type: ignore[arg-type]
    )
    model = Translator(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():  # so that zero offsets and biases can't hide a mistake
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def sentences() -> list[list[int]]:
    generator = torch.Generator().manual_seed(5)
    lengths = torch.randint(1, 13, (SENTENCES,), generator=generator).tolist()
    return [
        [*torch.randint(4, 40, (length,), generator=generator).tolist(), EOS] for length in lengths
    ]


def padded(sources: list[list[int]]) -> tuple[Tensor, Tensor]:
    source_BS = torch.full((len(sources), max(map(len, sources))), PAD)
    for row, source in enumerate(sources):
        source_BS[row, : len(source)] = torch.tensor(source)
    return source_BS, source_BS != PAD


@torch.no_grad()
def generate(model: Translator, sources: list[list[int]]) -> list[list[Hypothesis]]:
    return beam_search(
        model,
        model.start(*padded(sources)),
        items=len(sources),
        width=4,
        max_length_I=[len(source) + 4 for source in sources],
        length_penalty=LengthPenalty("power", 0.6),
        n_best=4,
        **SYMBOLS,
    )


def tokens(found: list[list[Hypothesis]]) -> list[list[tuple[int, ...]]]:
    return [[one.tokens for one in hypotheses] for hypotheses in found]


@pytest.mark.parametrize("spec", SPECS)
def test_the_batch_changes_nothing(spec: str) -> None:
    # In float64, so that no near tie is decided by the order in which a matrix product adds.
    model = translator(spec).double()
    sources = sentences()
    together = generate(model, sources)
    best = [found[0].tokens for found in together]
    assert len(set(best)) > 20 and len({len(one) for one in best}) > 4
    order = torch.randperm(SENTENCES, generator=torch.Generator().manual_seed(9)).tolist()
    shuffled = generate(model, [sources[index] for index in order])
    assert tokens([shuffled[order.index(index)] for index in range(SENTENCES)]) == tokens(together)
    for index in range(0, SENTENCES, 7):
        (alone,) = generate(model, [sources[index]])
        assert tokens([alone]) == tokens([together[index]])
        for one, other in zip(alone, together[index], strict=True):
            assert one.score == pytest.approx(other.score, abs=1e-5)


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("positions", ["relative", "sinusoidal"])
def test_the_batch_changes_nothing_in_float32(norm_first: bool, positions: str) -> None:
    model = translator("terms(1111)", norm_first=norm_first, positions=positions)
    sources = sentences()
    together = generate(model, sources)
    for index in range(0, SENTENCES, 7):
        assert generate(model, [sources[index]])[0][0].tokens == together[index][0].tokens


@pytest.mark.parametrize("spec", ["terms(1111)", "dynamic(kernel=3)", "none"])
@torch.no_grad()
def test_scores_are_those_of_the_full_pass(spec: str) -> None:
    model = translator(spec)
    sources = sentences()[:12]
    for source, found in zip(sources, generate(model, sources), strict=True):
        for one in found:
            target = torch.tensor([[EOS, *one.tokens[:-1]]])
            logits_TV = model(*padded([source]), target)[0]
            scores_T = logits_TV.log_softmax(-1).gather(1, torch.tensor(one.tokens)[:, None])
            assert one.positional_scores == pytest.approx(scores_T.squeeze(1).tolist(), abs=1e-4)


@torch.no_grad()
def test_greedy_is_a_beam_of_1_and_the_argmax_of_the_full_pass() -> None:
    model = translator("terms(0011)")
    sources = sentences()[:16]
    limits = [len(source) + 4 for source in sources]
    arguments = {"items": len(sources), "max_length_I": limits, **SYMBOLS}
    greedy = greedy_search(model, model.start(*padded(sources)), **arguments)
    beam = beam_search(model, model.start(*padded(sources)), width=1, **arguments)
    assert [one.tokens for one in greedy] == [found[0].tokens for found in beam]
    for source, limit, one in zip(sources, limits, greedy, strict=True):
        logits_TV = model(*padded([source]), torch.tensor([[EOS, *one.tokens[:-1]]]))[0]
        logits_TV[:, PAD] = logits_TV[0, EOS] = -torch.inf
        assert logits_TV[:limit].argmax(-1).tolist() == list(one.tokens[:limit])


def test_samples_carry_the_gradient_of_their_log_probability() -> None:
    model = translator("terms(1111)").double()
    sources = sentences()[:3]
    state = model.start(*padded(sources))
    drawn = sample(model, state, items=3, width=2, seed_I=[1, 2, 3], max_length_I=LIMIT, **SYMBOLS)
    drawn.log_probabilities_NT.sum().backward()
    found = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}

    model.zero_grad()
    source_BS, valid_BS = padded([source for source in sources for _ in range(2)])
    target_BT = torch.cat([torch.full((6, 1), EOS), drawn.tokens_NT[:, :-1]], 1)
    banned = torch.zeros(LIMIT + 1, model.config.target_vocabulary, dtype=torch.bool)
    banned[:, PAD], banned[0, EOS] = True, True
    banned[LIMIT], banned[LIMIT, EOS] = True, False  # there the end is forced
    logits_BTV = model(source_BS, valid_BS, target_BT).float()
    logits_BTV = logits_BTV.masked_fill(banned[: logits_BTV.shape[1]], -torch.inf)
    chosen_BT = logits_BTV.log_softmax(-1).gather(2, drawn.tokens_NT[..., None]).squeeze(2)
    chosen_BT[drawn.valid_NT].sum().backward()
    expected = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    assert found.keys() == expected.keys()
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, atol=1e-5, rtol=1e-4)


@torch.no_grad()
def test_no_sentence_has_its_keys_stored_once_a_beam() -> None:
    model = translator("terms(1111)")
    source = padded(sentences()[:8])
    state = model.start(*source)
    held = state.nbytes
    state.select(torch.arange(8).repeat_interleave(8))
    assert state.width == 8
    assert state.nbytes == held
