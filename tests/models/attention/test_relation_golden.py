"""Relation attention against the Object Relation Transformer's code, every case found."""

from pathlib import Path
from typing import Any

import pytest
import torch

from attnbench.models.attention import AttentionMask, Boxes
from attnbench.models.attention.boxes import encode_ratios
from attnbench.models.attention.relation import RelationAttention
from tests.models.attention.golden import case_files, read_case


@pytest.mark.parametrize("path", case_files("relation_attention"), ids=lambda path: path.stem)
def test_case(path: Path) -> None:
    case = read_case(path)
    config, state = case.config, case.state
    sinusoid = config["trignometric_embedding"]
    # The sine holds 100 times the ratios, and so their rounding in the reference's float32.
    tolerance: dict[str, Any] = {"rtol": 1e-5, "atol": 1e-4 if sinusoid else 1e-5}
    boxes_BN4 = case.inputs["boxes"].clone()
    boxes_BN4[..., 2:] += 1  # the reference counts both border pixels
    valid_BN = case.inputs["mask"][:, 0].bool()
    boxes = Boxes(boxes_BN4, valid_BN)
    pairs = valid_BN[:, :, None] & valid_BN[:, None]

    # The centres move by half a pixel, all alike.
    expected = case.outputs["raw_log_geometry"][pairs]
    torch.testing.assert_close(boxes.log_ratios()[pairs], expected, rtol=1e-5, atol=1e-5)
    if sinusoid:
        encoding = encode_ratios(boxes.log_ratios(), config["dim_g"], config["wave_len"])[pairs]
        torch.testing.assert_close(encoding, case.outputs["embedding"][pairs], atol=1e-3, rtol=0)

    module = RelationAttention(
        config["d_model"],
        config["heads"],
        features="sinusoid" if sinusoid else "raw",
        geometry_dim=config["dim_g"],
        wave=float(config["wave_len"]),
    ).eval()
    parts = {
        name: torch.cat([case.state.pop(f"WGs.{head}.{name}") for head in range(config["heads"])])
        for name in ("weight", "bias")
    }
    module.gate.load_state_dict(parts)
    layers = [module.query_proj, module.key_proj, module.value_proj, module.out_proj]
    for place, layer in enumerate(layers):
        assert layer is not None
        layer.load_state_dict(
            {name: state.pop(f"linears.{place}.{name}") for name in ("weight", "bias")}
        )
    assert not state
    mask = AttentionMask(valid_BN)
    output = module(case.inputs["x"], geometry=boxes, mask=mask, need_weights=True)
    real = valid_BN[:, None, :, None]
    assert output.weights is not None
    torch.testing.assert_close(
        output.weights * real, case.outputs["attention_weights"] * real, **tolerance
    )
    expected = case.outputs["attention_output"][valid_BN]
    torch.testing.assert_close(output.context_BQD[valid_BN], expected, **tolerance)
