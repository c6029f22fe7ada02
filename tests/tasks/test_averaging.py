"""Averaging checkpoints and the learning rate schedules."""

import pytest
import torch

from attnbench.tasks.averaging import average_checkpoints
from attnbench.tasks.schedules import schedule_factor


def _save(path, **tensors):
    torch.save({"state_dict": tensors, "global_step": 1}, path)
    return path


def test_average_is_the_mean_and_keeps_types_and_counters(tmp_path):
    values = torch.randn(5, 3, 4)
    paths = [
        _save(
            tmp_path / f"{index}.ckpt", weight=value, half=value.half(), count=torch.tensor(index)
        )
        for index, value in enumerate(values)
    ]
    average = average_checkpoints(paths)
    torch.testing.assert_close(average["weight"], values.double().mean(0).float())
    assert average["half"].dtype == torch.float16
    assert average["count"] == 4 and average["count"].dtype == torch.int64


def test_checkpoints_of_another_model_are_refused(tmp_path):
    first = _save(tmp_path / "a.ckpt", weight=torch.zeros(1))
    second = _save(tmp_path / "b.ckpt", other=torch.zeros(1))
    with pytest.raises(ValueError, match=r"b\.ckpt"):
        average_checkpoints([first, second])
    with pytest.raises(ValueError, match="no checkpoint"):
        average_checkpoints([])


def test_inverse_square_root_is_the_papers_formula():
    dim, warmup = 512, 4000
    factor = schedule_factor("inverse_sqrt", warmup, 100_000)
    peak = dim**-0.5 * warmup**-0.5
    for step in (1, 10, 3999, 4000, 4001, 50_000):
        published = dim**-0.5 * min(step**-0.5, step * warmup**-1.5)
        assert factor(step - 1) * peak == pytest.approx(published, rel=1e-12)


def test_linear_ends_at_zero_and_no_warmup_starts_at_the_peak():
    factor = schedule_factor("linear", 10, 100)
    assert factor(9) == pytest.approx(1)
    assert factor(100) == 0 and 0 < factor(99) < 0.02
    assert schedule_factor("linear", 0, 100)(0) == pytest.approx(1)
