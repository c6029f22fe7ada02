import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnbench.datamodules.batching import TokenBatches
from tests.datamodules.writing import Sentence


def lengths(seed: int, count: int = 500) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    source = random.integers(1, 40, count)
    return source, np.clip(source + random.integers(-5, 6, count), 1, None)


def as_lists(batches: list[np.ndarray]) -> list[list[int]]:
    return [batch.tolist() for batch in batches]


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), min_size=1, max_size=60),
    st.integers(30, 200),
    st.one_of(st.none(), st.integers(1, 10)),
    st.integers(0, 3),
)
def test_every_sentence_once_within_the_bounds(pairs, max_tokens, max_sentences, epoch):
    source, target = np.array(pairs).T
    plan = TokenBatches(source, target, max_tokens=max_tokens, max_sentences=max_sentences, seed=3)
    batches = plan.batches(epoch)
    assert sorted(np.concatenate(batches)) == list(range(len(pairs)))
    assert len(batches) == len(plan)
    longest = np.maximum(source, target)
    for rows in batches:
        assert len(rows) * longest[rows].max() <= max_tokens
        assert len(rows) <= (max_sentences or len(rows))


def test_batches_are_full_and_hold_little_padding():
    source, target = lengths(0)
    batches = TokenBatches(source, target, max_tokens=400).batches()
    longest = np.maximum(source, target)
    used = [len(rows) * longest[rows].max() for rows in batches]
    assert np.mean(used) > 0.9 * 400
    real = sum(source[rows].sum() for rows in batches)
    padded = sum(len(rows) * source[rows].max() for rows in batches)
    assert real / padded > 0.85


def test_the_order_depends_on_seed_and_epoch_alone():
    source, target = lengths(1)

    def plan(seed: int) -> TokenBatches:
        return TokenBatches(source, target, max_tokens=300, seed=seed)

    first = plan(5)
    late = as_lists(plan(5).batches(7))
    for epoch in range(7):
        first.batches(epoch)
    assert as_lists(first.batches(7)) == late, "epochs before it don't matter"
    assert late != as_lists(plan(5).batches(6))
    assert late != as_lists(plan(6).batches(7))


def test_epochs_mix_both_batches_and_their_order():
    source, target = lengths(2)
    plan = TokenBatches(source, target, max_tokens=300, seed=1)
    first, second = (as_lists(plan.batches(epoch)) for epoch in (0, 1))
    assert {frozenset(rows) for rows in first} != {frozenset(rows) for rows in second}
    sizes = [len(rows) for rows in first]
    assert sizes != sorted(sizes) and sizes != sorted(sizes, reverse=True)


def test_evaluation_is_longest_first_and_always_the_same():
    source, target = lengths(3)
    plan = TokenBatches(source, target, max_tokens=300, shuffle=False)
    longest = [int(np.maximum(source, target)[rows].max()) for rows in plan.batches()]
    assert longest == sorted(longest, reverse=True)
    assert as_lists(plan.batches(0)) == as_lists(plan.batches(5))


@pytest.mark.parametrize("replicas", [2, 3, 8])
def test_ranks_share_the_batches_of_one_process(replicas):
    source, target = lengths(4)

    def plan(rank: int, replicas: int) -> TokenBatches:
        return TokenBatches(
            source, target, max_tokens=400, seed=2, num_replicas=replicas, rank=rank
        )

    alone = as_lists(plan(0, 1).batches(3))
    shares = [as_lists(plan(rank, replicas).batches(3)) for rank in range(replicas)]
    assert len({len(share) for share in shares}) == 1
    assert len(shares[0]) == len(plan(1, replicas)) == -(-len(alone) // replicas)
    together = [shares[n % replicas][n // replicas] for n in range(len(shares[0]) * replicas)]
    assert together[: len(alone)] == alone
    assert together[len(alone) :] == alone[: len(together) - len(alone)]


def test_fewer_batches_than_ranks_still_give_each_rank_one():
    ones = np.ones(3, dtype=int)
    for rank in range(4):
        plan = TokenBatches(ones, ones, max_tokens=2, num_replicas=4, rank=rank)
        assert len(plan.batches()) == 1


def test_sentences_that_are_too_long():
    source, target = np.array([3, 9, 4]), np.array([3, 2, 11])
    plan = TokenBatches(source, target, max_tokens=8)
    assert plan.dropped == 2
    assert as_lists(plan.batches()) == [[0]]
    with Sentence("Line 3 of split 'val'", "11 tokens", "max_tokens=8"):
        TokenBatches(source, target, max_tokens=8, too_long="error", name="split 'val'")
    with Sentence("No sentence of the data", "max_tokens=2"):
        TokenBatches(source, target, max_tokens=2)
