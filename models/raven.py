"""RAVEN: words whose vectors shift with how they are said.

"Words Can Shift: Dynamically Adjusting Word Representations Using Nonverbal Behaviors" (Wang et
al., AAAI 2019). For word i with vector e and its segments of audio and vision::

    h_a, h_v = last states of LSTMs over the segments          nonverbal sub-networks
    w_a = sigmoid(W_ha [h_a; e] + b_a), w_v likewise           attention gates
    h_m = w_a (W_a h_a) + w_v (W_v h_v) + b_h                 nonverbal shift
    e_m = e + alpha h_m, alpha = min(beta |e| / |h_m|, 1)     multimodal-shifted word

and an LSTM over the shifted words. The gates are scalars; widths and beta are hyper-parameters
that the paper tunes and doesn't print.

In aligned data, and behind a CTC alignment, the segment of a word is one step, the mean of what
was sampled during the word. A sub-network then makes a single step from a state of zeros, where an
LSTM's recurrent weights and its forget gate have nothing to act on: they are left out, so that no
parameter is counted that can't matter.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .sentiment_config import SentimentModelConfig
from .stream_layers import ResidualHead, make_lstm, pack_aligned
from .streams import Streams, StreamsOutput, read_out


class Raven(nn.Module):
    """RAVEN over aligned streams; the vectors that shift are the text features themselves.

    Args:
        config: the settings; ``raven_beta`` bounds the shift.
        hidden: width of all LSTMs.

    Raises:
        ValueError: without text there's nothing to shift.
    """

    def __init__(self, config: SentimentModelConfig, hidden: int) -> None:
        super().__init__()
        if "text" not in config.used:
            raise ValueError("raven shifts the vectors of words: add text to the modalities")
        self.modalities = tuple(config.used)
        words = config.used["text"]
        nonverbal = {name: width for name, width in config.used.items() if name != "text"}
        self.subnetworks = nn.ModuleDict(
            {name: OneStepLSTM(width, hidden) for name, width in nonverbal.items()}
        )
        self.gates = nn.ModuleDict({name: nn.Linear(hidden + words, 1) for name in nonverbal})
        self.shifts = nn.ModuleDict(
            {name: nn.Linear(hidden, words, bias=False) for name in nonverbal}
        )
        self.bias = nn.Parameter(torch.zeros(words)) if nonverbal else None
        self.beta = config.raven_beta
        self.text_dropout = nn.Dropout(config.text_dropout)
        self.lstm = make_lstm(words, config, hidden)
        self.head = ResidualHead(hidden, config.outputs, config.output_dropout)

    def forward(self, streams: Streams, need_weights: bool = False) -> StreamsOutput:
        """Predictions (B, O). Raises ValueError for streams that aren't aligned."""
        single, _, read_at_B = pack_aligned(streams, self.modalities, "raven", "text")
        words_BTF = self.text_dropout(single["text"].x_BTF)
        if self.bias is not None:
            shift_BTF = self.bias
            for name in self.subnetworks:
                stream = single[name]
                state_BTH = self.subnetworks[name](stream.x_BTF)
                state_BTH = state_BTH.masked_fill(~stream.valid_BT[..., None], 0)
                gate_BT1 = self.gates[name](torch.cat([state_BTH, words_BTF], -1)).sigmoid()
                shift_BTF = shift_BTF + gate_BT1 * self.shifts[name](state_BTH)
            words_BTF = words_BTF + limited(shift_BTF, words_BTF, self.beta)
        read_BH = read_out(self.lstm(words_BTF)[0], read_at_B)
        return StreamsOutput(self.head(read_BH), {}, {})


class OneStepLSTM(nn.Module):
    """The state of an LSTM after one step from zeros: ``o * tanh(i * tanh(g))``.

    Args:
        inputs: width F of a step.
        hidden: width H of the state.
    """

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.gates = nn.Linear(inputs, 3 * hidden)

    def forward(self, x_BTF: Tensor) -> Tensor:
        """(B, T, F) to (B, T, H), every step by itself."""
        enter_BTH, made_BTH, leave_BTH = self.gates(x_BTF).chunk(3, -1)
        return leave_BTH.sigmoid() * (enter_BTH.sigmoid() * made_BTH.tanh()).tanh()


def limited(shift_BTF: Tensor, words_BTF: Tensor, beta: float) -> Tensor:
    """The shift times alpha = min(beta |word| / |shift|, 1)."""
    most_BT1 = beta * torch.linalg.vector_norm(words_BTF, dim=-1, keepdim=True)
    length_BT1 = torch.linalg.vector_norm(shift_BTF, dim=-1, keepdim=True)
    beyond_BT1 = length_BT1 > most_BT1
    alpha_BT1 = torch.where(beyond_BT1, most_BT1 / torch.where(beyond_BT1, length_BT1, 1), 1)
    return alpha_BT1 * shift_BTF
