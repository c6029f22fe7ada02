"""Early and late fusion against loops: what is joined, in which order, and which step is read."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from attnbench.models.stream_layers import pack
from attnbench.models.streams import MODALITIES, Streams
from tests.models.sentiment_streams import ALIGNED, UNALIGNED, built, streams


def run_lstm(lstm: Any, steps: list[Tensor]) -> Tensor:
    """The equations of a one-layer LSTM, step by step; zeros for no step."""
    state = memory = torch.zeros(lstm.hidden_size, dtype=torch.float64)
    for x in steps:
        gates = lstm.weight_ih_l0 @ x + lstm.bias_ih_l0 + lstm.weight_hh_l0 @ state
        enter, forget, made, leave = (gates + lstm.bias_hh_l0).chunk(4)
        memory = forget.sigmoid() * memory + enter.sigmoid() * made.tanh()
        state = leave.sigmoid() * memory.tanh()
    return state


def convolved(model: Any, name: str, x_TF: Tensor) -> Tensor:
    """The temporal convolution of one stream without padding, as a loop: (T, D)."""
    weight_DFK = model.front.convolutions[name].conv.weight
    kernel = weight_DFK.shape[-1]
    rows: list[Tensor] = []
    for step in range(len(x_TF)):
        row = torch.zeros(weight_DFK.shape[0], dtype=x_TF.dtype)
        for tap in range(kernel):
            place = step + tap - kernel // 2
            if 0 <= place < len(x_TF):
                row = row + weight_DFK[..., tap] @ x_TF[place]
        rows.append(row)
    return torch.stack(rows) if rows else x_TF.new_zeros(0, weight_DFK.shape[0])


def real(batch: Streams, name: str, item: int) -> Tensor:
    return batch.features[name][item][batch.valid[name][item]]


def test_early_fusion_lstm_is_one_lstm_over_joined_steps() -> None:
    model: Any = built("ef-lstm")
    batch = streams(ALIGNED)
    for item in range(4):
        parts = [convolved(model, name, real(batch, name, item)) for name in MODALITIES]
        state = run_lstm(model.lstm, list(torch.cat(parts, -1)))
        expected = model.head(state[None])[0]
        torch.testing.assert_close(model(batch).prediction_BO[item], expected)


def test_early_fusion_keeps_steps_where_one_modality_is_missing() -> None:
    """A step that only some have stays a step: the others are zeros there, and nothing moves."""
    model: Any = built("ef-lstm", kernel_text=3)
    batch = streams({"text": (4,), "audio": (4,), "vision": (4,)})
    batch.valid["text"][0, :2] = False
    batch.valid["vision"][0, 3] = False
    parts: list[Tensor] = []
    for name in MODALITIES:
        x_TF = batch.features[name][0] * batch.valid[name][0][:, None]
        parts.append(convolved(model, name, x_TF) * batch.valid[name][0][:, None])
    state = run_lstm(model.lstm, list(torch.cat(parts, -1)))
    torch.testing.assert_close(model(batch).prediction_BO, model.head(state[None]))


def test_late_fusion_lstm_reads_each_stream_at_its_step() -> None:
    """Also a step in the middle, which stands for an utterance among its neighbours."""
    model: Any = built("lf-lstm")
    batch = streams({**UNALIGNED, "vision": (7, 0, 1, 5)})
    read_at = {**batch.read_at, "audio": torch.tensor([4, 0, 2, 3])}
    batch = Streams(batch.features, batch.valid, read_at)
    for item in range(4):
        read: list[Tensor] = []
        for name in MODALITIES:
            x_TD = convolved(model, name, real(batch, name, item))
            upto = int(read_at[name][item]) + 1
            read.append(run_lstm(model.lstms[name], list(x_TD[:upto])))
        expected = model.head(torch.cat(read)[None])[0]
        torch.testing.assert_close(model(batch).prediction_BO[item], expected)


def transformer(encoder: Any, x_TD: Tensor) -> Tensor:
    """The layers over one sequence without padding, by PyTorch's own pre-norm layer."""
    for layer in encoder.layers:
        attention, dim = layer.self_attention, x_TD.shape[-1]
        inner = layer.ffn.expand.out_features
        one = nn.TransformerEncoderLayer(
            dim, attention.heads, inner, dropout=0.0, norm_first=True, batch_first=True
        ).double()
        parts = [attention.query_proj, attention.key_proj, attention.value_proj]
        state = {
            "self_attn.in_proj_weight": torch.cat([part.weight for part in parts]),
            "self_attn.in_proj_bias": torch.cat([part.bias for part in parts]),
            "self_attn.out_proj.weight": attention.out_proj.weight,
            "self_attn.out_proj.bias": attention.out_proj.bias,
            "linear1.weight": layer.ffn.expand.weight,
            "linear1.bias": layer.ffn.expand.bias,
            "linear2.weight": layer.ffn.contract.weight,
            "linear2.bias": layer.ffn.contract.bias,
            "norm1.weight": layer.self_residual.norm.weight,
            "norm1.bias": layer.self_residual.norm.bias,
            "norm2.weight": layer.ffn_residual.norm.weight,
            "norm2.bias": layer.ffn_residual.norm.bias,
        }
        one.load_state_dict(state)
        x_TD = one(x_TD[None])[0]
    return encoder.norm(x_TD)


def embedded(encoder: Any, x_TD: Tensor) -> Tensor:
    return encoder.embed(x_TD[None], torch.ones(1, len(x_TD), dtype=torch.bool))[0]


def test_late_fusion_transformer_reads_the_last_step_of_each() -> None:
    model: Any = built("lf-transformer")
    batch = streams(UNALIGNED)
    for item in range(4):
        read = [
            transformer(encoder, embedded(encoder, convolved(model, name, real(batch, name, item))))
            for name, encoder in model.encoders.items()
        ]
        expected = model.head(torch.cat([x_TD[-1] for x_TD in read])[None])[0]
        torch.testing.assert_close(model(batch).prediction_BO[item], expected)


def test_early_fusion_transformer_runs_over_streams_after_one_another() -> None:
    """Each stream has positions from the same start; each is read where it ends."""
    model: Any = built("ef-transformer")
    batch = streams(UNALIGNED)
    for item in range(4):
        parts = [
            embedded(model.encoder, convolved(model, name, real(batch, name, item)))
            for name in MODALITIES
        ]
        x_TD = transformer(model.encoder, torch.cat(parts))
        ends = torch.tensor([len(part) for part in parts]).cumsum(0) - 1
        expected = model.head(x_TD[ends].flatten()[None])[0]
        torch.testing.assert_close(model(batch).prediction_BO[item], expected)


def test_positions_matter() -> None:
    """Steps in another order are another item, for every fusion."""
    for name in ("ef-lstm", "lf-lstm", "ef-transformer", "lf-transformer"):
        model = built(name, kernel_audio=1)
        batch = streams({"text": (4,), "audio": (4,), "vision": (4,)})
        turned = {**batch.features, "audio": batch.features["audio"][:, [1, 0, 2, 3]]}
        other = model(Streams(turned, batch.valid, batch.read_at)).prediction_BO
        assert not torch.allclose(model(batch).prediction_BO, other)


@pytest.mark.parametrize("steps", [0, 3])
def test_packing_moves_real_steps_to_the_front(steps: int) -> None:
    x = torch.arange(2.0 * steps).view(2, steps, 1) + 1
    valid = torch.tensor([[False, True, True], [False, False, False]])[:, :steps]
    packed = pack(x, valid, torch.tensor([steps - 1, -1]))
    assert packed.x_BTF.shape == (2, max(steps, 1), 1)
    assert packed.length_B.tolist() == ([2, 0] if steps else [0, 0])
    assert packed.read_at_B.tolist() == ([1, -1] if steps else [-1, -1])
    if steps:
        assert packed.x_BTF[0, :, 0].tolist() == [2.0, 3.0, 0.0]
        assert not packed.x_BTF[1].any()
