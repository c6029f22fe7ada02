"""A learned alignment onto the text, for models that need aligned streams: "CTC + ...".

Tsai et al. (ACL 2019), section 4 and appendix, train the methods that need aligned input on
unaligned data together with connectionist temporal classification (Graves et al., ICML 2006): a
recurrent network reads a source and predicts for each of its steps which text position it belongs
to, T + 1 symbols with the blank; the CTC loss of the sequence 1, 2, ..., T trains it beside the
task's loss; the predicted probabilities make a pseudo-aligned source out of the source.

Left open by the paper, and chosen here: LSTMs of ``ctc_layers`` layers and ``ctc_hidden`` units
with a linear layer to the symbols (the public code takes the LSTM's state, which is bounded by 1,
as the logits); symbols beyond an item's own text are impossible; an aligned step is a mean of the
source, its weights normalised over the source's real steps (the public code sums); the loss is
in nats a text step.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .sentiment_config import SentimentModelConfig
from .stream_layers import Packed, pack_stream
from .streams import Streams, StreamsOutput


class AlignedByCTC(nn.Module):
    """A model of aligned streams behind an alignment of every other modality onto the text.

    Args:
        config: the settings; ``text_steps`` is the longest text that can be aligned to.
        model: takes aligned ``Streams``.
    """

    def __init__(self, config: SentimentModelConfig, model: nn.Module) -> None:
        super().__init__()
        if config.text_steps is None:
            raise ValueError(
                "alignment_by=ctc needs to know the longest text: set text_steps to its steps"
            )
        self.text_steps = config.text_steps
        self.aligners = nn.ModuleDict(
            {
                name: CTCAligner(width, config.text_steps, config.ctc_hidden, config.ctc_layers)
                for name, width in config.used.items()
                if name != "text"
            }
        )
        self.model = model

    def forward(self, streams: Streams, need_weights: bool = False) -> StreamsOutput:
        """The model's output for the aligned streams; in training also the loss ``ctc``.

        ``ctc`` is the mean over items and modalities that can be aligned: those with a text and
        a source of at least as many steps. Others leave it as it is, and are aligned all the same.
        With weights come those of the alignments, (B, 1, text, source) as ``text from audio``.

        Raises:
            ValueError: a text longer than ``text_steps``.
        """
        aligned, losses, weights = self.align(streams)
        output: StreamsOutput = self.model(aligned, need_weights)
        losses = {**output.losses, **losses} if self.training else output.losses
        weights = {**output.weights, **weights} if need_weights else output.weights
        return StreamsOutput(output.prediction_BO, losses, weights)

    def align(self, streams: Streams) -> tuple[Streams, dict[str, Tensor], dict[str, list[Tensor]]]:
        """The streams with every modality on the text's steps, the loss and the weights."""
        text = self._text(streams)
        features, valid = {"text": text.x_BTF}, {"text": text.valid_BT}
        read_at = {"text": text.read_at_B}
        weights: dict[str, list[Tensor]] = {}
        total = text.x_BTF.new_zeros((), dtype=torch.float32)
        counted = text.length_B.new_zeros(())
        for name, aligner in self.aligners.items():
            source = pack_stream(streams, name)
            log_BTS = aligner(source, text)
            weight_BST = alignment_weights(log_BTS, source, text)
            features[name] = weight_BST.to(source.x_BTF.dtype) @ source.x_BTF
            some_B = source.length_B > 0
            valid[name] = text.valid_BT & some_B[:, None]
            read_at[name] = torch.where(some_B, text.read_at_B, -1)
            weights[f"text from {name}"] = [weight_BST[:, None]]
            if self.training:
                loss, items = ctc_loss(log_BTS, source, text)
                total, counted = total + loss, counted + items
        aligned = Streams(features, valid, read_at)
        return aligned, {"ctc": total / counted.clamp_min(1)}, weights

    def _text(self, streams: Streams) -> Packed:
        """The text without padding beyond ``text_steps``."""
        text = pack_stream(streams, "text")
        most = self.text_steps
        if text.valid_BT.shape[1] <= most:
            return text
        longest = int(text.length_B.max())
        if longest > most:
            raise ValueError(
                f"a batch has a text of {longest} steps, but the CTC alignment was built for "
                f"{most}: set text_steps to the longest text of all parts"
            )
        return Packed(text.x_BTF[:, :most], text.valid_BT[:, :most], text.read_at_B)


class CTCAligner(nn.Module):
    """Which text position each step of a source belongs to: log-probabilities of T + 1 symbols.

    Args:
        width: feature width F of the source.
        text_steps: most text positions T.
        hidden, layers: of the LSTM.
    """

    def __init__(self, width: int, text_steps: int, hidden: int, layers: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(width, hidden, layers, batch_first=True)
        self.symbols = nn.Linear(hidden, text_steps + 1)

    def forward(self, source: Packed, text: Packed) -> Tensor:
        """Log-probabilities (B, T, S + 1) for T source and S text steps; 0 is the blank.

        Positions beyond an item's text have a probability of 0, written as a large negative log.
        """
        logits_BTS = self.symbols(self.lstm(source.x_BTF)[0])
        logits_BTS = logits_BTS[..., : text.valid_BT.shape[1] + 1]
        logits_BTS = logits_BTS.to(torch.promote_types(logits_BTS.dtype, torch.float32))
        possible_BS = F.pad(text.valid_BT, (1, 0), value=True)
        return logits_BTS.masked_fill(~possible_BS[:, None], -1e30).log_softmax(-1)


def alignment_weights(log_BTS: Tensor, source: Packed, text: Packed) -> Tensor:
    """How much of each source step a text step takes: (B, S, T), rows sum to 1.

    The probability of the text step without the blank, over its sum along the source's real
    steps; 0 for padding of either and where there is no source at all.
    """
    log_BST = log_BTS[..., 1:].transpose(1, 2)
    weight_BST = log_BST.masked_fill(~source.valid_BT[:, None], -1e38).softmax(-1)
    real_BST = text.valid_BT[..., None] & source.valid_BT[:, None]
    return weight_BST.masked_fill(~real_BST, 0)


def ctc_loss(log_BTS: Tensor, source: Packed, text: Packed) -> tuple[Tensor, Tensor]:
    """Sum over the items that can be aligned of the CTC loss a text step, and their number.

    The target of an item is 1, 2, ... to the length of its text, all different, so that a source
    of at least as many steps can be aligned to it. The others would have an infinite loss; they
    count as 0, without a gradient.
    """
    target_BS = torch.arange(1, log_BTS.shape[2], device=log_BTS.device)
    target_BS = target_BS.expand(log_BTS.shape[0], -1)
    possible_B = (source.length_B >= text.length_B) & (text.length_B > 0)
    loss_B = F.ctc_loss(
        log_BTS.transpose(0, 1),
        target_BS,
        source.length_B.clamp_min(1),
        text.length_B,
        reduction="none",
        zero_infinity=True,
    )
    loss_B = torch.where(possible_B, loss_B / text.length_B.clamp_min(1), 0)
    return loss_B.sum(), possible_B.sum()
