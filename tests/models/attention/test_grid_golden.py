"""The energy terms on feature maps against the reference numbers, every case found."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from attnbench.models.attention import Grid2D, NoAttention, build_attention
from attnbench.models.attention.grid_terms import GridTermsAttention
from attnbench.models.layers.spatial import Grids, SpatialAttention
from tests.models.attention.golden import Case, case_files, read_case

LINEAR = {
    "query_conv": "query_proj",
    "key_conv": "key_proj",
    "value_conv": "value_proj",
    "proj_conv": "out_proj",
}
BIASES = {"appr_bias": "content_bias_HE", "geom_bias": "relative_bias_HE"}


def spec_of(case: Case) -> str:
    """The spec of a case's configuration."""
    config = case.config
    width = config["in_channels"] // config["num_heads"] * config["num_heads"]
    return (
        f"terms({config['attention_type']},magnitude={config['position_magnitude']},"
        f"position_dim={max(config['position_embedding_dim'], 0)},width={width})"
    )


def loaded(case: Case, module: GridTermsAttention) -> None:
    """Give the module the parameters of a case; all must have a place."""
    state = dict(case.state)
    state.pop("gamma")
    ours: dict[str, Tensor] = {}
    for theirs, name in LINEAR.items():
        for kind in ("weight", "bias"):
            if (value := state.pop(f"{theirs}.{kind}", None)) is not None:
                ours[f"{name}.{kind}"] = value.flatten(1) if kind == "weight" else value
    for theirs, name in BIASES.items():
        if (value := state.pop(theirs, None)) is not None:
            ours[name] = value.view(module.heads, -1)
    if "appr_geom_fc_x.weight" in state:
        maps = [state.pop(f"appr_geom_fc_{axis}.weight") for axis in "xy"]
        for weight in maps:  # their distance is query minus key, so that sines turn round
            weight[:, : weight.shape[1] // 2] *= -1
        ours["relative_proj.weight"] = torch.cat(maps, 1)
    assert not state
    module.load_state_dict(ours)


@pytest.mark.parametrize("path", case_files("generalized_attention"), ids=lambda path: path.stem)
def test_case(path: Path) -> None:
    case = read_case(path)
    config, x = case.config, case.inputs["x"]
    heads = config["num_heads"]
    module = build_attention(spec_of(case), dim=config["in_channels"], heads=heads, axes=2)
    if config["attention_type"] == "0000":
        # There the reference averages uniformly; the paper's row is no attention module at all.
        assert isinstance(module, NoAttention)
        uniform = case.outputs["attention_float64_loops"]
        torch.testing.assert_close(uniform, torch.full_like(uniform, 1 / uniform.shape[-1]))
        return
    assert isinstance(module, GridTermsAttention)
    loaded(case, module)
    strides = {"key_stride": config["kv_stride"], "query_stride": config["q_stride"]}
    block = SpatialAttention(module, gate="one", **strides).double().eval()
    with torch.no_grad():
        block.get_parameter("gate").fill_(case.state["gamma"].item())
    y = block(x.double(), Grids())
    torch.testing.assert_close(y, case.outputs["y_float64_loops"], rtol=0, atol=1e-5)
    if "y" in case.outputs and "mmcv" in config["source"]:
        y = block.float()(x, Grids())
        torch.testing.assert_close(y, case.outputs["y"], rtol=0, atol=1e-5)
    where = Grid2D(*config["HW"], **strides)
    cells = [x[..., ::stride, ::stride].flatten(2).mT for stride in strides.values()]
    output = module.float()(cells[1], cells[0], geometry=where, need_weights=True)
    expected = case.outputs["attention_float64_loops"].float()
    torch.testing.assert_close(output.weights, expected, rtol=0, atol=1e-5)
