"""The translation task learns, groups its parameters, notices divergence and keeps file order."""

import lightning
import pytest
import torch

from attnbench.datamodules.translation import TranslationData
from attnbench.tasks.errors import ConfigError, Diverged
from attnbench.tasks.registry import TASKS
from attnbench.tasks.settings import resolve
from attnbench.tasks.translation import TranslationTask
from attnbench.tasks.translation_config import TranslationConfig
from tests.datamodules.fairseq_files import SENTENCES, write_folder

TINY = {
    "dataset": "demo",
    "subword": "none",
    "vocabulary_size": 1000,
    "dim": 32,
    "ffn_dim": 64,
    "heads": 4,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "max_tokens": 1000,
    "learning_rate": 5e-3,
    "warmup_steps": 30,
    "max_steps": 200,
    "threads": 1,
}


@pytest.fixture(scope="module")
def data() -> TranslationData:
    return TranslationData(resolve(TranslationConfig, TINY))


def _task(data: TranslationData, **settings) -> TranslationTask:
    entry = TASKS["translation"]
    task = entry.build(resolve(TranslationConfig, {**TINY, **settings}), data)
    assert isinstance(task, TranslationTask)
    return task


def _fit(task: TranslationTask, data: TranslationData, **options) -> lightning.Trainer:
    trainer = lightning.Trainer(
        accelerator="cpu",
        max_steps=task.config.max_steps,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        use_distributed_sampler=False,
        **options,
    )
    trainer.fit(task, data)
    return trainer


def test_training_brings_the_loss_far_below_guessing(data):
    task = _task(data)
    trainer = _fit(task, data, val_check_interval=200, check_val_every_n_epoch=None)
    guessing = torch.tensor(float(len(data.vocabulary))).log()
    assert trainer.callback_metrics["val/loss"] < 0.5 * guessing
    assert trainer.callback_metrics["val/ppl"] == trainer.callback_metrics["val/loss"].exp()


def test_translations_come_back_in_file_order_whatever_the_batches(data):
    task = _task(data)
    torch.manual_seed(0)
    for parameter in task.parameters():
        parameter.data.add_(0.05 * torch.randn_like(parameter))
    together = task.evaluate(data, "val")
    alone = TranslationData(resolve(TranslationConfig, {**TINY, "max_sentences": 1}))
    assert task.evaluate(alone, "val").predictions == together.predictions
    assert together.items == len(data.references("val"))
    assert len(set(together.predictions)) > 20
    assert set(together.metrics) == {"bleu", "bleu_tok", "bleu_tok_split", "chrf"}
    assert set(together.signatures) == set(together.metrics)


def test_a_loss_that_is_not_finite_stops_the_run_with_advice(data):
    task = _task(data, learning_rate=1e30, warmup_steps=0)
    with pytest.raises(Diverged, match="lower learning_rate"):
        _fit(task, data, limit_val_batches=0)


def test_offsets_learn_at_a_tenth_of_the_rate(data):
    task = _task(data, encoder_self="terms(0010)+deformable", decoder_self="deformable")
    groups = task.configure_optimizers()["optimizer"].param_groups
    rate = {id(p): group["initial_lr"] for group in groups for p in group["params"]}
    offsets = {id(p) for name, p in task.named_parameters() if "offset" in name}
    assert offsets
    assert rate.keys() == {id(p) for p in task.parameters()}
    for parameter, value in rate.items():
        assert value == pytest.approx(5e-4 if parameter in offsets else 5e-3)


def test_dropout_depends_on_seed_and_step_alone(data):
    def first_losses(disturb: bool) -> list[float]:
        torch.manual_seed(3)
        task = _task(data, dropout=0.5, max_steps=3)
        losses: list[float] = []
        step = task.training_step

        def recorded(batch, batch_idx):
            loss = step(batch, batch_idx)
            losses.append(float(loss.detach()))
            if disturb:
                torch.rand(7)  # whatever else draws random numbers between two steps
            return loss

        task.training_step = recorded  # type: ignore[method-assign]
        _fit(task, TranslationData(task.config), limit_val_batches=0)
        return losses

    assert first_losses(False) == first_losses(True)


def test_one_embedding_needs_one_dictionary(tmp_path):
    root = write_folder(tmp_path, train=SENTENCES, valid=SENTENCES, test=SENTENCES)
    _task(TranslationData(resolve(TranslationConfig, {**TINY, "root": root})))
    equally_large = "the 3\nboat 3\n, 2\nmadeupword0000 0\n"
    for symbols in (equally_large, "the 3\nhouse 3\n, 2\na 1\nb 1\n"):
        (root / "dict.en.txt").write_text(symbols)
        two = TranslationData(resolve(TranslationConfig, {**TINY, "root": root}))
        with pytest.raises(ConfigError, match="use share_embeddings=decoder"):
            _task(two)
        _task(two, share_embeddings="decoder")


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_an_accelerator_that_is_not_there():
    with pytest.raises(ConfigError, match="accelerator=cuda, but this machine"):
        resolve(TranslationConfig, {**TINY, "accelerator": "cuda"}).check_machine()
    with pytest.raises(ConfigError, match="precision=16-mixed needs a GPU and this machine"):
        resolve(TranslationConfig, {**TINY, "precision": "16-mixed"}).check_machine()
