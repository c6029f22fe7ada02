"""Which keys a query may read."""

import pytest
import torch

from attnbench.models.attention import AttentionMask, Sequence1D
from tests.models.attention import naive
from tests.models.attention.compare import padding

CPU = torch.device("cpu")


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("reach", [0, 1, 3, 5])
@pytest.mark.parametrize("lengths", [None, (6, 4), (6, 0)])
def test_padding_causality_and_range_together(
    lengths: tuple[int, int] | None, reach: int, causal: bool
) -> None:
    valid = None if lengths is None else padding(*lengths)
    window = None
    if reach:
        window = (1 - reach, 0) if causal else (-(reach // 2), reach // 2)
    allowed = AttentionMask(valid, causal=causal).allowed(Sequence1D(6, 6), window, CPU)
    visible = naive.visibility(valid, causal=causal, reach=reach)
    expected = torch.tensor(
        [[[visible(b, q, k) for k in range(6)] for q in range(6)] for b in range(2)]
    )[:, None]
    if allowed.mask is None:
        assert expected.all()
        return
    readable = allowed.mask.expand(2, 1, 6, 6)
    if allowed.any_BHQ1 is not None:  # rows that may read nothing are let through and zeroed
        readable = readable & allowed.any_BHQ1
    assert torch.equal(readable, expected)


def test_a_later_query_sees_the_keys_before_it() -> None:
    mask = AttentionMask(causal=True)
    assert mask.allowed(Sequence1D(1, 4, query_start=3), None, CPU).mask is None
    both = mask.allowed(Sequence1D(2, 4, query_start=2), None, CPU).mask
    assert both is not None
    assert both[0, 0].tolist() == [[True, True, True, False], [True, True, True, True]]


def test_beams_of_one_item_see_the_same_keys() -> None:
    where = Sequence1D(3, 5, query_start=1, query_step=0)
    allowed = AttentionMask(causal=True).allowed(where, None, CPU).mask
    assert allowed is not None
    assert allowed[0, 0].tolist() == [[True, True, False, False, False]] * 3


def test_the_mask_is_made_once_for_all_layers() -> None:
    mask = AttentionMask(padding(5, 3))
    first = mask.allowed(Sequence1D(5, 5), None, CPU)
    assert mask.allowed(Sequence1D(5, 5), None, CPU) is first
    assert mask.allowed(Sequence1D(5, 5), (-1, 1), CPU) is not first


def test_who_is_real() -> None:
    keys, queries = padding(5, 3), padding(4, 2)
    assert AttentionMask(keys).queries_BQ is keys
    assert AttentionMask(keys, queries).queries_BQ is queries
    assert AttentionMask(keys).queries_of(memory=True) is None
    assert AttentionMask(keys, queries).queries_of(memory=True) is queries
    assert AttentionMask().queries_BQ is None
