import json

import numpy as np
import pytest
import torch

from attnbench.datamodules.caption_card import CaptionCard, check_captions
from attnbench.datamodules.caption_config import CaptionDataConfig
from attnbench.datamodules.captions import CaptionData
from tests.datamodules.caption_files import (
    DIM,
    IDS,
    SENTENCES,
    features_of,
    karpathy_entries,
    write_coco_root,
    write_json,
    write_karpathy,
    write_npz,
)
from tests.datamodules.writing import Sentence


def data(root, **settings) -> CaptionData:
    values = {"dataset": "coco-captions", "min_count": 0, "batch_size": 2, **settings}
    return CaptionData(CaptionDataConfig(root=root, **values))


def test_a_batch_holds_features_boxes_and_shifted_captions(tmp_path):
    module = data(write_coco_root(tmp_path), captions_per_image=3, batch_size=3)
    batch = next(iter(module.predict_dataloader("train")))
    assert len(batch) == 3 and batch.index_B.tolist() == [0, 1, 2]
    counts = [len(features_of(ident)[0]) for ident in IDS[:3]]
    assert batch.features_BNF.shape == (3, max(counts), DIM)
    assert batch.valid_BN.sum(1).tolist() == counts
    assert batch.boxes_BN4 is not None
    np.testing.assert_array_equal(batch.boxes_BN4[0, : counts[0]], features_of(IDS[0])[1])
    words = module.vocabulary
    # Evaluation takes the first captions, again from the first where there are too few.
    texts = [[0, 1, 0], [0, 1, 2], [0, 0, 0]]
    for image, numbers in enumerate(texts):
        for place, number in enumerate(numbers):
            raw = SENTENCES[image][number].lower().replace(".", "").split()
            ids = words.encode(raw)
            length = len(ids) + 1
            assert batch.output_BCT[image, place, :length].tolist() == [*ids, 0]
            assert batch.input_BCT[image, place, :length].tolist() == [0, *ids]
            assert batch.token_valid_BCT[image, place].tolist()[:length] == [True] * length
            assert not batch.token_valid_BCT[image, place, length:].any()
            assert not batch.output_BCT[image, place, length:].any()
    assert batch.tokens == int(batch.token_valid_BCT.sum())
    assert [len(each) for each in batch.references] == [2, 3, 1]
    moved = batch.to("cpu")
    assert moved.references is batch.references and moved.tokens == batch.tokens


def test_captions_are_cut_but_references_for_counting_are_not(tmp_path):
    module = data(write_coco_root(tmp_path), max_length=3)
    batch = next(iter(module.predict_dataloader("train")))
    assert batch.output_BCT.shape[-1] == 4
    assert all(len(ids) <= 3 for each in batch.references for ids in each)
    whole = module.train_references()
    assert [len(ids) for ids in whole[0]] == [6, 3] and len(whole) == 3


def test_references_ids_and_text(tmp_path):
    module = data(write_coco_root(tmp_path))
    assert module.references("train") == SENTENCES[:3]
    assert module.references("test") == [SENTENCES[4]]
    assert module.image_ids("train") == IDS[:3] and module.image_ids("val") == [100]
    ids = torch.tensor([*module.vocabulary.encode(["a", "dog"]), 0, 1])
    assert module.decode(ids) == "a dog" == module.decode(ids.tolist())
    assert module.feature_dim == DIM and module.has_boxes


def many(root, images=23):
    """A data set of many images with 1 to 7 captions each, that say which one they are."""
    entries = [
        {
            "imgid": number,
            "filename": f"{number}.jpg",
            "split": "train" if number < images - 2 else ("val", "test")[number % 2],
            "sentences": [
                {"tokens": [f"w{number}", f"c{c}"], "raw": f"w{number} c{c}"}
                for c in range(1 + number % 7)
            ],
        }
        for number in range(images)
    ]
    write_karpathy(root, entries)
    write_npz(root, list(range(images)))
    return root


def contents(batches):
    return [(b.index_B.tolist(), b.output_BCT.tolist()) for b in batches]


def test_batches_depend_on_seed_and_epoch_alone(tmp_path):
    root = many(tmp_path)
    module = data(root, batch_size=4)
    loader = module.train_dataloader()
    first, second = contents(loader), contents(loader)
    assert len(first) == len(loader) == 6
    assert sorted(i for rows, _ in first for i in rows) == list(range(21))
    assert [r for r, _ in first] != [r for r, _ in second]
    torch.manual_seed(99)
    again = data(root, batch_size=4).train_dataloader()
    assert contents(again) == first and contents(again) == second
    assert contents(data(root, batch_size=4, seed=2).train_dataloader()) != first


def test_fewer_captions_are_drawn_again_and_of_more_a_run_is_taken(tmp_path):
    module = data(many(tmp_path), batch_size=4, captions_per_image=3)
    loader = module.train_dataloader()
    seen: dict[int, set] = {}
    for _ in range(40):
        for batch in loader:
            for image, rows in zip(batch.index_B.tolist(), batch.output_BCT, strict=True):
                chosen = [int(module.decode(ids).split()[1][1:]) for ids in rows]
                seen.setdefault(image, set()).add(tuple(chosen))
    assert seen[0] == {(0, 0, 0)}  # one caption
    assert seen[2] == {(0, 1, 2)}  # just as many
    assert seen[6] == {(n, n + 1, n + 2) for n in range(5)}  # seven captions
    assert all(set(run) <= {0, 1} for run in seen[1]) and len(seen[1]) > 4  # two captions


def test_training_goes_on_with_exactly_the_next_batch(tmp_path):
    root = many(tmp_path)
    module = data(root, batch_size=4)
    loader = module.train_dataloader()
    expected = [*contents(loader), *contents(loader)]
    for stop in (0, 2, 5, 6, 9):
        module = data(root, batch_size=4)
        loader = module.train_dataloader()
        taken = []
        while len(taken) < stop:
            for batch in loader:
                taken.append(batch)
                if len(taken) == stop:
                    break
        state = json.loads(json.dumps(module.state_dict()))
        resumed = data(root, batch_size=4)
        resumed.load_state_dict(state)
        loader = resumed.train_dataloader()
        rest = contents(loader)
        while len(taken) + len(rest) < 12:
            rest += contents(loader)
        assert contents(taken) + rest == expected


def test_a_place_in_other_batches_is_refused(tmp_path):
    module = data(many(tmp_path), batch_size=4)
    next(iter(module.train_dataloader()))
    other = data(tmp_path, batch_size=5)
    other.load_state_dict(module.state_dict())
    with Sentence("batch_size was 4 and is 5"):
        other.train_dataloader()


def test_ranks_share_the_images(tmp_path):
    module = data(many(tmp_path), batch_size=4)
    split = module.predict_dataloader("train").split
    from dataclasses import replace

    from attnbench.datamodules.caption_loader import CaptionLoader

    plan = module.train_dataloader().plan
    loaders = [CaptionLoader(split, replace(plan, num_replicas=2, rank=r)) for r in range(2)]
    found = [[i for batch in loader for i in batch.index_B.tolist()] for loader in loaders]
    assert [len(rows) for rows in found] == [11, 11]
    assert set(found[0] + found[1]) == set(range(21))
    assert [len(loader) for loader in loaders] == [3, 3] == [len(list(x)) for x in loaders]


def test_words_are_counted_in_all_splits_unless_told_otherwise(tmp_path):
    write_coco_root(tmp_path)
    everything = data(tmp_path, min_count=2).vocabulary
    training = data(tmp_path, min_count=2, count_splits="train").vocabulary
    # "sleeps" twice in training and once in validation, "a" often, "bed" 2 and 2, "dog" 2 and 2
    assert "bed" in everything.words and "bed" not in training.words
    assert "a" in training.words and training.unk == len(training.words)


def test_images_without_features(tmp_path):
    write_karpathy(tmp_path)
    write_npz(tmp_path, IDS[:1] + IDS[3:])
    with Sentence("2 of 3 images of train have no features", "42, 7", "missing_features"):
        data(tmp_path).setup("fit")
    module = data(tmp_path, missing_features="leave_out")
    assert module.image_ids("train") == IDS[:1]
    card = module.card()
    assert card.splits["train"].dropped == {"no features, such as 42, 7": 2}
    assert "2 images left out, no features, such as 42, 7" in card.render(200)


def test_no_features_at_all_or_none_that_fit(tmp_path):
    write_karpathy(tmp_path)
    with Sentence(str(tmp_path), "has no features", "extract="):
        data(tmp_path).setup("fit")
    with Sentence("nothing.h5", "is not there"):
        data(tmp_path, features="nothing.h5").setup("fit")
    write_npz(tmp_path, [1, 2])
    with Sentence("none of the wanted images"):
        data(tmp_path).setup("fit")
    with Sentence("coco-captions needs root"):
        data(None).setup("fit")


def test_a_split_that_is_missing(tmp_path):
    entries = [e for e in karpathy_entries() if e["split"] != "test"]
    write_karpathy(tmp_path, entries)
    write_npz(tmp_path)
    module = data(tmp_path)
    module.setup("fit")
    with Sentence("no images of split 'test'", "train, val", "split_file"):
        module.setup("test")
    with Sentence("no split 'other'"):
        module.image_ids("other")


def test_features_are_packed_once_into_the_cache(tmp_path):
    root, cache = write_coco_root(tmp_path / "root"), tmp_path / "cache"
    first = data(root, cache=cache)
    first.setup("fit")
    assert str(first.store.folder).startswith(str(cache))
    stamp = (first.store.folder / "header.json").stat().st_mtime_ns
    second = data(root, cache=cache)
    assert second.store.folder == first.store.folder
    assert (second.store.folder / "header.json").stat().st_mtime_ns == stamp
    np.savez(root / "bu_att" / "42.npz", feat=np.zeros((2, DIM), np.float32))
    np.save(root / "bu_box" / "42.npy", np.array([[0, 0, 1, 1]] * 2, np.float32))
    third = data(root, cache=cache)
    assert third.store.folder != first.store.folder
    assert not third.store.of(third.store.places["42"])[0].any()


def test_temporary_features_go_with_the_module(tmp_path):
    module = data(write_coco_root(tmp_path))
    folder = module.store.folder
    assert folder.is_dir() and not folder.is_relative_to(tmp_path)
    del module
    import gc

    gc.collect()
    assert not folder.exists()


def test_features_may_be_named_by_file(tmp_path):
    entries = karpathy_entries()
    for entry in entries:
        del entry["cocoid"]  # so that the ids are 0, 1, 2 …
    write_karpathy(tmp_path, entries)
    write_npz(tmp_path)  # named by the number in the file's name
    module = data(tmp_path)
    batch = next(iter(module.predict_dataloader("train")))
    np.testing.assert_array_equal(batch.features_BNF[0, :3], features_of(IDS[0])[0][:3])
    assert "features are named by number in the file name" in module.card().notes


def test_the_sizes_of_images(tmp_path):
    entries = karpathy_entries()
    entries[0] |= {"width": 640, "height": 480}
    write_karpathy(tmp_path, entries)
    write_npz(tmp_path)
    batch = next(iter(data(tmp_path).predict_dataloader("train")))
    assert batch.size_B2[0].tolist() == [640, 480]
    extent = features_of(42)[1][:, 2:].max(0)  # where only the boxes are known
    np.testing.assert_allclose(batch.size_B2[1], extent)


def test_few_images_and_few_regions(tmp_path):
    module = data(write_coco_root(tmp_path), train_images=2, eval_images=1, max_regions=2)
    assert module.image_ids("train") == IDS[:2]
    batch = next(iter(module.train_dataloader()))
    assert batch.features_BNF.shape[1] == 2


def test_the_card_says_what_was_found(tmp_path):
    card = check_captions("coco-captions", write_coco_root(tmp_path), min_count=1, max_length=5)
    assert card.format == "Karpathy JSON" and list(card.splits) == ["train", "val", "test"]
    train = card.splits["train"]
    assert (train.images, train.captions, train.longest, train.cut) == (3, 6, 6, 3)
    assert train.unknown > 0
    assert card.features["dim"] == DIM and card.features["boxes"] is True
    assert card.features["regions"] == "2 to 4"
    assert list(card.files) == ["dataset_coco.json"]
    assert CaptionCard.model_validate_json(card.model_dump_json()) == card
    text = card.render(200)
    assert "3 │" in text and "with boxes" in text and card.vocabulary_sha256[:16] in text


def test_the_fingerprint_follows_captions_features_and_words(tmp_path):
    root = write_coco_root(tmp_path)
    first = data(root).fingerprint()
    assert set(first) == {
        "dataset_coco.json",
        "features features.bin",
        "features boxes.bin",
        "vocabulary",
    }
    assert data(root).fingerprint() == first
    changed = data(root, min_count=1).fingerprint()
    assert {k for k in first if first[k] != changed[k]} == {"vocabulary"}
    np.savez(root / "bu_att" / "42.npz", feat=features_of(42)[0] + 1)
    changed = data(root).fingerprint()
    assert {k for k in first if first[k] != changed[k]} == {"features features.bin"}


def test_words_of_a_given_vocabulary(tmp_path):
    root = write_coco_root(tmp_path / "root")
    words = write_json(
        tmp_path / "cocotalk.json",
        {"ix_to_word": {"1": "dog", "2": "a", "3": "UNK"}, "images": []},
    )
    module = data(root, vocabulary=words)
    assert module.vocabulary.words == ("dog", "a", "UNK")
    assert module.train_references()[0][0] == [2, 1, 3, 3, 3, 3]
    assert "as the files fix them" in module.card().vocabulary_rule


@pytest.mark.parametrize("bad", [{"batch_size": 0}, {"captions_per_image": 0}, {"extra": 1}])
def test_settings_out_of_range(bad):
    with pytest.raises(ValueError):
        CaptionDataConfig(**bad)
