"""Length penalties by name."""

import pytest

from attnbench.models.decoding import LengthPenalty


def test_power_is_the_mean_at_1_and_the_sum_at_0() -> None:
    assert LengthPenalty("power", 1.0).score(-6.0, 4) == pytest.approx(-1.5)
    assert LengthPenalty("power", 0.0).score(-6.0, 4) == -6.0
    assert LengthPenalty("power", 0.6).score(-6.0, 4) == pytest.approx(-6 / 4**0.6)


def test_gnmt_is_equation_14() -> None:
    penalty = LengthPenalty("gnmt", 0.6)
    assert penalty.score(-6.0, 1) == pytest.approx(-6.0)
    assert penalty.score(-6.0, 7) == pytest.approx(-6 / 2**0.6)


@pytest.mark.parametrize("name", ["power", "gnmt"])
@pytest.mark.parametrize("alpha", [-1.0, 0.0, 0.6, 2.0])
def test_no_longer_hypothesis_passes_the_bound(name, alpha: float) -> None:
    penalty = LengthPenalty(name, alpha)
    for total in (-0.1, -7.0):
        best = max(
            penalty.score(total - lost, length) for length in range(3, 12) for lost in (0, 0.5)
        )
        assert penalty.bound(total, 3, 11) == pytest.approx(best)


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"'wu'.*power, gnmt"):
        LengthPenalty("wu")  # type: ignore[arg-type]
