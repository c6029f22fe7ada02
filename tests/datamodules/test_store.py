import numpy as np
import pytest

from attnbench.datamodules.store import StoreBuilder, TokenStore

SENTENCES = [[4, 5, 6], [], [3, 3], [7]]


def test_sentences_come_back_with_their_end():
    store = TokenStore.from_lists(SENTENCES, vocabulary_size=100)
    assert [store[row].tolist() for row in range(4)] == [[*s, 2] for s in SENTENCES]
    assert store.lengths.tolist() == [4, 1, 3, 2]


@pytest.mark.parametrize("size, kind", [(65536, np.uint16), (65537, np.int32)])
def test_the_smallest_type_that_holds_every_id(size, kind):
    store = TokenStore.from_lists([[size - 1]], vocabulary_size=size)
    assert store.ids.dtype == kind
    assert store[0].tolist() == [size - 1, 2]


def test_padding_on_the_right():
    store = TokenStore.from_lists(SENTENCES, vocabulary_size=100)
    padded, valid = store.padded(np.array([3, 0, 1]))
    assert padded.tolist() == [[7, 2, 1, 1], [4, 5, 6, 2], [2, 1, 1, 1]]
    assert padded.dtype == np.int64
    assert (valid == (padded != 1)).all()


def test_chunks_and_selections_share_one_array():
    builder = StoreBuilder(100)
    for sentence in SENTENCES:
        builder.add([sentence])
    store = builder.finish()
    chosen = store.select(np.array([2, 0]))
    assert [chosen[row].tolist() for row in range(2)] == [[3, 3, 2], [4, 5, 6, 2]]
    assert np.shares_memory(chosen.ids, store.ids)
    assert store.unknown() == chosen.unknown() == 2
    assert store.select(np.array([0, 3])).unknown() == 0
