"""The translation task: a ``Translator`` trained with label smoothing, scored with BLEU."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Any

import torch
from torch import Tensor

from ..datamodules.batch import TranslationBatch
from ..datamodules.translation import TranslationData
from ..datamodules.vocabulary import EOS, PAD, UNK
from ..models.decoding import LengthPenalty, beam_search
from ..models.layers import projected_cross_entropy
from ..models.translator import Translator
from .attention_maps import batch_of, encoder_decoder_maps, find_item
from .cost import CostReport, cost_report
from .errors import Diverged
from .metrics.translation import translation_scores
from .module import AttentionMap, Evaluation, TaskModule
from .optimizers import adam, by_update
from .schedules import schedule_factor
from .side_by_side import side_by_side
from .translation_config import TRANSLATION_SITES, TranslationConfig

COST_TOKENS = 50
"""Tokens on each side at which costs are counted, as the published GFLOPs are."""


class TranslationTask(TaskModule):
    """Trains on ``TranslationBatch`` and translates whole splits.

    Args:
        config: all settings.
        source_symbols, target_symbols: sizes of the vocabularies.
    """

    def __init__(self, config: TranslationConfig, source_symbols: int, target_symbols: int) -> None:
        super().__init__()
        self.config = config
        self.model = Translator(config.translator(source_symbols, target_symbols))

    def configure_optimizers(self) -> dict[str, Any]:
        """Adam with warm-up; parameters that carry ``lr_scale`` learn at that multiple."""
        config = self.config
        optimizer = adam(self.model, config, config.peak_learning_rate)
        factor = schedule_factor(config.schedule, config.warmup_steps, config.max_steps)
        return by_update(optimizer, factor)

    def loss(self, batch: TranslationBatch, smoothing: float) -> Tensor:
        """Mean cross-entropy a target token, label-smoothed over the whole vocabulary.

        fairseq spreads the smoothing mass over the other V - 1 symbols and this, like
        tensor2tensor and torch, over all V: the same up to a change of the rate by 1 / V.
        """
        features_BTD = self.model.features(
            batch.source_BS, batch.source_valid_BS, batch.target_input_BT
        )
        return projected_cross_entropy(
            features_BTD[batch.target_valid_BT],
            self.model.output.weight,
            batch.target_output_BT[batch.target_valid_BT],
            smoothing=smoothing,
        )

    def training_step(self, batch: TranslationBatch, batch_idx: int) -> Tensor:
        """The smoothed loss; raises ``Diverged`` if it is not finite."""
        loss = self.loss(batch, self.config.label_smoothing)
        if batch_idx % 20 == 0 and not torch.isfinite(loss):  # reading the loss waits for a GPU
            raise Diverged(
                f"the loss was {float(loss.detach())} after {self.global_step} updates: lower "
                f"learning_rate ({self.config.peak_learning_rate:.2g}) or raise warmup_steps"
            )
        self.log("train/loss", loss.detach(), batch_size=batch.tokens)
        return loss

    def validation_step(self, batch: TranslationBatch, batch_idx: int) -> None:
        """Plain cross-entropy in nats a token."""
        self.log("val/loss", self.loss(batch, 0.0), batch_size=batch.tokens, sync_dist=True)

    def on_validation_epoch_end(self) -> None:
        """Perplexity; a validation loss that is not finite stops the run as diverged."""
        loss = self.trainer.callback_metrics["val/loss"]
        self.check_validation(float(loss), self.global_step)
        self.log("val/ppl", loss.exp())

    @torch.inference_mode()
    def translate(self, batch: TranslationBatch) -> list[list[int]]:
        """The best hypothesis of each item, symbol ids without the end symbol."""
        config, model = self.config, self.model
        lengths_I = batch.source_valid_BS.sum(1) - 1  # without the end symbol
        limit_I = (lengths_I * config.max_length_ratio).long() + config.max_length_extra
        state = model.start(batch.source_BS, batch.source_valid_BS)
        found = beam_search(
            model,
            state,
            items=len(batch),
            width=config.beam,
            bos=EOS,  # the decoder starts from the end symbol, as fairseq's does
            eos=EOS,
            pad=PAD,
            unk=UNK,
            max_length_I=limit_I,
            length_penalty=LengthPenalty(config.length_penalty, config.length_alpha),
            device=batch.source_BS.device,
        )
        return [list(best[0].tokens)[:-1] for best in found]

    def translate_all(self, batches: Iterable[TranslationBatch]) -> dict[int, list[int]]:
        """The best hypothesis of each line, by line number."""

        def lines(batch: TranslationBatch) -> Iterable[tuple[int, list[int]]]:
            return zip(batch.index_B.tolist(), self.translate(batch.to(self.device)), strict=True)

        return dict(chain.from_iterable(side_by_side(lines, batches, self.device)))

    def evaluate(self, data: TranslationData, split: str = "test") -> Evaluation:
        """Translate a split and score it.

        Args:
            data: prepared data.
            split: ``val`` or ``test``.
        """
        self.eval()
        references, tokens = data.references(split), data.reference_tokens(split)
        said = self.translate_all(data.predict_dataloader(split))
        order = range(len(references))
        hypotheses = [data.decode(said[line]) for line in order]
        hypothesis_tokens = [data.decode_tokens(said[line]) for line in order]
        metrics, signatures = translation_scores(hypotheses, references, hypothesis_tokens, tokens)
        return Evaluation({**metrics}, signatures, len(references), hypotheses)

    def attention_maps(
        self, data: TranslationData, split: str, item: str
    ) -> dict[str, AttentionMap]:
        """All weights while the reference is read: each row is for the symbol to be said next."""
        self.eval()
        lines = data.encoded(split).lines.tolist()
        line = lines[find_item(item, lines, split)]
        batch = batch_of(data.predict_dataloader(split), line).to(self.device)
        source = batch.source_BS[batch.source_valid_BS].tolist()
        read = batch.target_input_BT[batch.target_valid_BT].tolist()
        said = batch.target_output_BT[batch.target_valid_BT].tolist()
        words = data.target_vocabulary.symbols
        return encoder_decoder_maps(
            self.model,
            {site: getattr(self.config, site) for site in TRANSLATION_SITES},
            lambda: self.model.features(
                batch.source_BS, batch.source_valid_BS, batch.target_input_BT
            ),
            ("source", [data.source_vocabulary.symbols[each] for each in source]),
            ("target", [words[each] for each in read], [words[each] for each in said]),
        )


def measure(config: TranslationConfig) -> CostReport:
    """Cost of encoder and decoder for one pair of ``COST_TOKENS`` tokens a side.

    Embeddings and vocabulary projection are left out of the multiply-accumulates, as in the
    published GFLOPs, and are in the parameters (with ``vocabulary_size`` symbols).
    """
    with torch.device("meta"):
        symbols = config.vocabulary_size
        model = Translator(config.translator(symbols, symbols)).eval()
        token_1T = torch.ones(1, COST_TOKENS, dtype=torch.long)
        valid_1T = torch.ones(1, COST_TOKENS, dtype=torch.bool)
        return cost_report(
            model,
            lambda: model.features(token_1T, valid_1T, token_1T),
            COST_TOKENS,
            f"one pair of {COST_TOKENS} tokens a side, no embeddings, no vocabulary projection",
        )
