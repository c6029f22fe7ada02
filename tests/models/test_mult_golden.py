"""MulT against the public code: outputs of every reference case, and parameter counts."""

import json
import re
from typing import Any

import pytest
import torch
from torch import Tensor

from attnbench.models.mult import REFERENCE_QUIRKS, MulT, MultConfig
from attnbench.models.streams import MODALITIES, Streams
from tests.models.attention.golden import case_files, read_case
from tests.shared import golden_dir

LETTERS = {"l": "text", "a": "audio", "v": "vision"}
LETTER = {name: letter for letter, name in LETTERS.items()}
"""The reference's letter of a modality."""


def config_of(case: dict[str, Any]) -> MultConfig:
    """Our settings for a configuration of the reference: sizes and all quirks."""
    settings: dict[str, Any] = dict(REFERENCE_QUIRKS)
    if not case["attn_mask"]:
        settings["future_mask"] = "none"
    for name, kernel in zip(MODALITIES, case["kernels"], strict=True):
        settings[f"kernel_{name}"] = kernel
    return MultConfig(
        dims=dict(zip(MODALITIES, case["orig_d"], strict=True)),
        outputs=case["output_dim"],
        targets=tuple(name for name in MODALITIES if case[f"{LETTER[name]}only"]),
        dim=case["d"],
        heads=case["num_heads"],
        crossmodal_layers=case["layers"],
        memory_layers=max(case["layers"], 3),
        conv_padding="same" if case["conv_padding"] else "none",
        **settings,
    )


def renamed(state: dict[str, Tensor], model: MulT) -> dict[str, Tensor]:
    """The reference's parameters under our names, those of networks that are not used left out."""
    ours: dict[str, Tensor] = {}
    heads = {"proj1": "expand", "proj2": "contract", "out_layer": "output"}
    for name, tensor in state.items():
        first, _, rest = name.partition(".")
        if first in heads:
            ours[f"{heads[first]}.{rest}"] = tensor
        elif match := re.fullmatch(r"proj_([lav])", first):
            ours[f"convolutions.{LETTERS[match[1]]}.conv.{rest}"] = tensor
        elif match := re.fullmatch(r"trans_([lav])_with_([lav])", first):
            prefix = f"crossmodal.{LETTERS[match[1]]}_from_{LETTERS[match[2]]}"
            ours |= transformer(f"{prefix}.", rest, tensor, "attention", "attention_norm")
        elif match := re.fullmatch(r"trans_([lav])_mem", first):
            prefix = f"memory.{LETTERS[match[1]]}."
            ours |= transformer(prefix, rest, tensor, "self_attention", "self_residual.norm")
    used = {tuple(name.split(".")[:2]) for name in model.state_dict()}
    return {name: tensor for name, tensor in ours.items() if tuple(name.split(".")[:2]) in used}


def transformer(
    prefix: str, name: str, tensor: Tensor, attention: str, norm: str
) -> dict[str, Tensor]:
    """One parameter of a reference Transformer under our name, its joint projection split."""
    if match := re.fullmatch(r"layer_norm\.(\w+)", name):
        return {f"{prefix}norm.{match[1]}": tensor}
    match = re.fullmatch(r"(layers\.\d+\.)(.*?)\.?(in_proj_)?(weight|bias)", name)
    if match is None:  # buffers without influence
        return {}
    layer, part, joint, kind = match.groups()
    if joint:
        projections = zip(("query", "key", "value"), tensor.chunk(3), strict=True)
        return {f"{prefix}{layer}{attention}.{to}_proj.{kind}": one for to, one in projections}
    names = {
        "self_attn.out_proj": f"{attention}.out_proj",
        "fc1": "ffn.expand",
        "fc2": "ffn.contract",
        "layer_norms.0": norm,
        "layer_norms.1": "ffn_residual.norm",
    }
    return {f"{prefix}{layer}{names[part]}.{kind}": tensor}


def streams_of(inputs: dict[str, Tensor]) -> Streams:
    """The reference's inputs; it knows no padding."""
    features = {name: inputs[f"x_{LETTER[name]}"] for name in MODALITIES}
    valid = {
        name: torch.ones(x.shape[:2], dtype=torch.bool, device=x.device)
        for name, x in features.items()
    }
    read_at = {name: torch.full((x.shape[0],), x.shape[1] - 1) for name, x in features.items()}
    return Streams(features, valid, read_at)


@pytest.mark.parametrize("path", case_files("mult"), ids=lambda path: path.stem)
def test_outputs_are_those_of_the_public_code(path: Any) -> None:
    case = read_case(path)
    model = MulT(config_of(case.config)).eval()
    model.load_state_dict(renamed(case.state, model))
    streams = streams_of(case.inputs)
    with torch.no_grad():
        last_hs, _ = model.represent(streams)
        prediction = model(streams).prediction_BO
    torch.testing.assert_close(last_hs, case.outputs["last_hs"], rtol=0, atol=1e-5)
    torch.testing.assert_close(prediction, case.outputs["prediction"], rtol=0, atol=1e-5)


def counts() -> list[dict[str, Any]]:
    """The recorded counts; none (and the test is skipped) where the file is absent."""
    path = golden_dir() / "mult" / "parameter_counts.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []


@pytest.mark.parametrize("case", counts(), ids=lambda case: f"{case['label']}-{case['mode']}")
def test_parameter_counts_are_those_of_the_public_code(case: dict[str, Any]) -> None:
    """Of a model with one target, the parameters that ever get a gradient there."""
    with torch.device("meta"):
        model = MulT(config_of(case["config"]))
    whole = case["mode"] == "lav"
    expected = case["parameters" if whole else "parameters_with_gradient"]
    assert sum(parameter.numel() for parameter in model.parameters()) == expected
