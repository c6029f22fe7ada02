"""MCTN: what one modality says must be translatable into the others, and back.

"Found in Translation: Learning Robust Joint Representations by Cyclic Translations Between
Modalities" (Pham et al., AAAI 2019). Text S is encoded (E), decoded into a target modality T and
translated back by the same Seq2Seq model (equations 6 to 8)::

    E = enc(S), T' = dec(E), S' = dec(enc(T'))
    loss = lambda_t |T' - T|^2 + lambda_c |S' - S|^2 + task     (equation 18)

With three modalities the joint representation is translated on into the third, which has no way
back (figure 1: language to vision and back, then to acoustic). A recurrent network over the last
joint representation predicts. At test time text alone is read: nothing is decoded.

Left open by the paper, and chosen here: the Seq2Seq model is one LSTM to encode, one LSTM cell with
additive attention (Bahdanau et al., ICLR 2015) to decode, shared by both directions, with linear
layers of their own to and from each modality's width; the decoder is fed what it made itself, from
zeros on; squared errors are divided by the target's mean square where that is above 1, so that
features in large units don't drown the task. The two terms are called ``translation`` (the sum
over targets) and ``cycle``; a task has their weights.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .sentiment_config import SentimentModelConfig
from .stream_layers import Packed, ResidualHead, pack_aligned
from .streams import Streams, StreamsOutput, read_out

TARGETS = ("vision", "audio")
"""The order in which text is translated."""


class CyclicTranslation(nn.Module):
    """MCTN over aligned streams.

    Args:
        config: the settings; ``dim`` is the width in which steps enter the LSTMs.
        hidden: width of all LSTMs.

    Raises:
        ValueError: text or something to translate it into is missing.
    """

    def __init__(self, config: SentimentModelConfig, hidden: int) -> None:
        super().__init__()
        self.targets = tuple(name for name in TARGETS if name in config.used)
        if "text" not in config.used or not self.targets:
            raise ValueError(
                "mctn translates text into other modalities: name text and at least one more"
            )
        self.modalities = tuple(config.used)
        self.enter = nn.ModuleDict(
            {name: nn.Linear(width, config.dim) for name, width in config.used.items()}
        )
        self.leave = nn.ModuleDict(
            {name: nn.Linear(2 * hidden, width) for name, width in config.used.items()}
        )
        self.text_dropout = nn.Dropout(config.text_dropout)
        self.levels = nn.ModuleList(
            Seq2Seq(config.dim if level == 0 else hidden, config.dim, hidden)
            for level in range(len(self.targets))
        )
        self.predict = nn.LSTM(hidden, hidden, batch_first=True)
        self.head = ResidualHead(hidden, config.outputs, config.output_dropout)

    def forward(self, streams: Streams, need_weights: bool = False) -> StreamsOutput:
        """Predictions (B, O); in training the losses ``translation`` and ``cycle`` too.

        Raises:
            ValueError: in training, for streams that aren't aligned.
        """
        read = self.modalities if self.training else ("text",)
        streams_in, _, read_at_B = pack_aligned(streams, read, "mctn", "text")
        text = streams_in["text"]
        x_BTD = self.enter["text"](self.text_dropout(text.x_BTF))
        translations: list[Tensor] = []
        cycle = x_BTD.new_zeros(())
        for level, name in zip(self.levels, self.targets, strict=True):
            assert isinstance(level, Seq2Seq)
            joint_BTH = level.encode(x_BTD)
            if self.training:
                target_BTF = self._decode(level, joint_BTH, text, name)
                translations.append(translation_loss(target_BTF, streams_in[name]))
                if name == self.targets[0]:
                    back_BTH = level.encode(self.enter[name](target_BTF))
                    back_BTF = self._decode(level, back_BTH, text, "text")
                    cycle = translation_loss(back_BTF, text)
            x_BTD = joint_BTH
        read_BH = read_out(self.predict(x_BTD)[0], read_at_B)
        losses = {"translation": sum(translations, x_BTD.new_zeros(())), "cycle": cycle}
        return StreamsOutput(self.head(read_BH), losses if self.training else {}, {})

    def _decode(self, level: Seq2Seq, joint_BTH: Tensor, source: Packed, name: str) -> Tensor:
        return level.decode(joint_BTH, source, self.enter[name], self.leave[name])


class Seq2Seq(nn.Module):
    """An LSTM that encodes and an LSTM cell with attention that decodes as many steps.

    Args:
        inputs: width of what is encoded.
        outputs: width in which what was decoded is fed back.
        hidden: width H of both.
    """

    def __init__(self, inputs: int, outputs: int, hidden: int) -> None:
        super().__init__()
        self.encoder = nn.LSTM(inputs, hidden, batch_first=True)
        self.start = nn.Linear(hidden, hidden)
        self.cell = nn.LSTMCell(outputs + hidden, hidden)
        self.query = nn.Linear(hidden, hidden)
        self.key = nn.Linear(hidden, hidden, bias=False)
        self.score = nn.Linear(hidden, 1, bias=False)

    def encode(self, x_BTD: Tensor) -> Tensor:
        """(B, T, D) to the joint representation (B, T, H)."""
        return self.encoder(x_BTD)[0]

    def decode(
        self, joint_BTH: Tensor, source: Packed, enter: nn.Module, leave: nn.Module
    ) -> Tensor:
        """A translation (B, T, F) of T steps, each from attention and from the step before.

        Args:
            joint_BTH: the joint representation.
            source: which of its steps are real.
            enter: F to the width that is fed back.
            leave: state and context, 2 H, to F.
        """
        key_BTH = self.key(joint_BTH)
        padding_BT1 = ~source.valid_BT[..., None]
        state_BH = self.start(read_out(joint_BTH, source.length_B - 1)).tanh()
        memory_BH = torch.zeros_like(state_BH)
        fed_BD = joint_BTH.new_zeros(len(joint_BTH), self.cell.input_size - self.cell.hidden_size)
        steps: list[Tensor] = []
        for _ in range(joint_BTH.shape[1]):
            energy_BT1 = self.score((key_BTH + self.query(state_BH)[:, None]).tanh())
            weight_BT1 = energy_BT1.masked_fill(padding_BT1, -1e4).softmax(1)
            context_BH = (weight_BT1 * joint_BTH).sum(1)
            state_BH, memory_BH = self.cell(
                torch.cat([fed_BD, context_BH], -1), (state_BH, memory_BH)
            )
            made_BF = leave(torch.cat([state_BH, context_BH], -1))
            fed_BD = enter(made_BF)
            steps.append(made_BF)
        return torch.stack(steps, 1)


def translation_loss(made_BTF: Tensor, target: Packed) -> Tensor:
    """Mean squared error over the target's real steps; 0 where it has none.

    Divided by the target's mean square where that is above 1.
    """
    number = target.length_B.sum().clamp_min(1) * target.x_BTF.shape[-1]
    error_BTF = (made_BTF - target.x_BTF).masked_fill(~target.valid_BT[..., None], 0)
    square = target.x_BTF.square().sum() / number
    return error_BTF.square().sum() / number / square.clamp_min(1)
