"""Training that is killed and started again sees the batches that an uninterrupted one sees."""

from pathlib import Path

import pytest
import torch
from lightning import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint

from attnbench.datamodules.translation import TranslationData
from attnbench.datamodules.translation_config import TranslationDataConfig
from tests.datamodules.writing import Sentence, write_corpus

pytestmark = pytest.mark.filterwarnings("ignore:Checkpoint directory .* exists and is not empty")


class Killed(Exception):
    pass


class Kill(Callback):
    def __init__(self, step: int) -> None:
        self.step = step

    def on_train_batch_start(self, trainer: Trainer, *_: object) -> None:
        if trainer.global_step == self.step:
            raise Killed


class Recorder(LightningModule):
    """Learns nothing; remembers which lines it saw."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(()))
        self.seen: list[list[int]] = []
        self.validated: list[list[int]] = []

    def training_step(self, batch):
        self.seen.append(batch.index_B.tolist())
        return self.weight * batch.tokens

    def validation_step(self, batch):
        self.validated.append(batch.index_B.tolist())

    def predict_step(self, batch):
        return batch.index_B

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


@pytest.fixture
def root(tmp_path) -> Path:
    train = [(f"{'word ' * (n % 7 + 1)}.", f"{'Wort ' * (n % 5 + 1)}.") for n in range(60)]
    return write_corpus(tmp_path / "data", train=train, val=train[:9], test=train[:4])


def data(root: Path, **changed) -> TranslationData:
    settings = {"subword": "none", "max_tokens": 40, "seed": 4, **changed}
    return TranslationData(TranslationDataConfig(dataset="demo", root=root, **settings))


def trainer(folder: Path, *callbacks: Callback, **settings) -> Trainer:
    return Trainer(
        default_root_dir=folder,
        accelerator="cpu",
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[ModelCheckpoint(folder, save_last=True, every_n_train_steps=1), *callbacks],
        **settings,
    )


def limits(kind: str, batches: int) -> dict:
    """Two and a half epochs by steps, with validation in between, or three whole epochs."""
    if kind == "steps":
        return {"max_steps": batches * 5 // 2, "val_check_interval": 4, "max_epochs": -1}
    return {"max_epochs": 3}


@pytest.mark.parametrize("kind", ["steps", "epochs"])
@pytest.mark.parametrize("after", ["first", "middle", "last but one", "epoch", "epoch and one"])
def test_resumed_training_sees_exactly_the_remaining_batches(root, tmp_path, kind, after):
    batches = len(data(root).train_dataloader())
    assert batches > 8
    step = {
        "first": 1,
        "middle": batches // 2,
        "last but one": batches - 1,
        "epoch": batches,
        "epoch and one": batches + 1,
    }[after]

    whole = Recorder()
    trainer(tmp_path / "whole", **limits(kind, batches)).fit(whole, data(root))
    assert len(whole.seen) == (batches * 5 // 2 if kind == "steps" else batches * 3)
    assert sorted(sum(whole.seen[:batches], [])) == list(range(60))

    folder = tmp_path / "killed"
    killed = Recorder()
    with pytest.raises(Killed):
        trainer(folder, Kill(step), **limits(kind, batches)).fit(killed, data(root))
    assert killed.seen == whole.seen[:step]

    resumed = Recorder()
    trainer(folder, **limits(kind, batches)).fit(
        resumed, data(root), ckpt_path=folder / "last.ckpt"
    )
    assert resumed.seen == whole.seen[step:]
    assert all(lines in whole.validated for lines in resumed.validated)


def test_validation_starts_from_its_first_batch_after_a_partial_check(root, tmp_path):
    model = Recorder()
    settings = {"num_sanity_val_steps": 1, "max_epochs": 2, "limit_train_batches": 2}
    loaded = data(root, max_tokens=16)
    trainer(tmp_path, **settings).fit(model, loaded)
    first = next(iter(loaded.val_dataloader())).index_B.tolist()
    per_epoch = len(loaded.val_dataloader())
    assert per_epoch > 1
    assert [model.validated[n] for n in (0, 1, 1 + per_epoch)] == [first] * 3


def test_short_epochs_go_through_all_of_the_data(root, tmp_path):
    model = Recorder()
    batches = len(data(root).train_dataloader())
    settings = {"limit_train_batches": 2, "max_epochs": batches // 2, "limit_val_batches": 0}
    trainer(tmp_path, **settings).fit(model, data(root))
    seen = sum(model.seen, [])
    assert len(seen) == len(set(seen)) > 50


def test_prediction_gives_every_line(root, tmp_path):
    found = trainer(tmp_path).predict(Recorder(), data(root))
    assert found is not None
    assert sorted(torch.cat(found).tolist()) == [0, 1, 2, 3]  # type: ignore[arg-type]


def test_checkpoint_of_other_batches_is_refused(root, tmp_path):
    folder = tmp_path / "run"
    trainer(folder, max_steps=3).fit(Recorder(), data(root))
    for changed, part in (
        ({"max_tokens": 60}, "max_tokens was 40 and is 60"),
        ({"seed": 5}, "seed"),
    ):
        with Sentence("can't be continued", part):
            trainer(folder, max_steps=6).fit(
                Recorder(), data(root, **changed), ckpt_path=folder / "last.ckpt"
            )


def test_data_module_alone_keeps_the_place(root):
    first = data(root)
    batches = iter(first.train_dataloader())
    for _ in range(3):
        next(batches)
    state = first.state_dict()
    rest = [batch.index_B.tolist() for batch in batches]
    second = data(root)
    second.load_state_dict(state)
    assert [batch.index_B.tolist() for batch in second.train_dataloader()] == rest


def test_loading_leaves_the_global_random_state_alone(root):
    before = torch.get_rng_state()
    for _ in data(root).train_dataloader():
        pass
    assert torch.equal(torch.get_rng_state(), before)
