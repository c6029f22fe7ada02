"""Attention as a sum of four energy terms, and the projections that the energy family shares.

"An Empirical Study of Spatial Attention Mechanisms in Deep Networks" (Zhu et al., ICCV 2019,
arXiv 1904.05873), equations 1 and 2::

    y_q = sum_m W_m [ sum_k A_m(q, k) * W'_m x_k ],   A_m(q, k) ~ exp( sum_j beta_j E_j )
    E1 = z_q^T U_m^T V^C_m x_k       query content and key content
    E2 = z_q^T U_m^T V^R_m R_{k-q}   query content and relative position
    E3 = u_m^T V^C_m x_k             key content only
    E4 = v_m^T V^R_m R_{k-q}         relative position only

U is shared by E1 and E2, V^C by E1 and E3, V^R by E2 and E4, so that E1 + E3 = (q + u) . k and
E2 + E4 = (q + v) . r. R is the sinusoidal encoding of the relative position, key index minus
query index, also between source and target.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from .contract import Attention, AttentionOutput, AttentionState, SiteError
from .geometry import Geometry, Sequence1D
from .kernels import AxisScores, Energy, attend, forced_path
from .masks import Allowed, AttentionMask
from .registry import register_attention
from .traits import Traits

NO_MASK = AttentionMask()


class KeyValueState(AttentionState):
    """Keys and values seen so far, and the projected encodings of the offsets in reach.

    Where they grow, rows that ``select`` chose are picked when the next position is appended, so
    that each step copies them once.
    """

    def __init__(
        self, keys_BHKE: Tensor | None, values_BHKE: Tensor | None, *, grows: bool
    ) -> None:
        self.keys_BHKE = keys_BHKE
        self.values_BHKE = values_BHKE
        self.grows = grows
        self.relative: tuple[int, int, Tensor] | None = None
        self._chosen_N: Tensor | None = None

    @property
    def length(self) -> int:
        """Number of keys held."""
        return 0 if self.values_BHKE is None else self.values_BHKE.shape[2]

    def append(self, keys_BHKE: Tensor | None, values_BHKE: Tensor) -> None:
        """Add the keys (if the variant has any) and values of the new positions."""
        if self.values_BHKE is None:
            self.keys_BHKE, self.values_BHKE = keys_BHKE, values_BHKE
            return
        self.values_BHKE = _joined(self.values_BHKE, self._chosen_N, values_BHKE)
        if self.keys_BHKE is not None and keys_BHKE is not None:
            self.keys_BHKE = _joined(self.keys_BHKE, self._chosen_N, keys_BHKE)
        self._chosen_N = None

    def select(self, index_N: Tensor) -> None:
        """As in ``AttentionState.select``."""
        if self._chosen_N is not None:
            index_N = self._chosen_N.index_select(0, index_N)
        self._chosen_N = index_N
        if not self.grows:
            self._pick()

    def _pick(self) -> None:
        """Pick the chosen rows now."""
        index_N, self._chosen_N = self._chosen_N, None
        if index_N is None:
            return
        if self.values_BHKE is not None:
            self.values_BHKE = self.values_BHKE.index_select(0, index_N)
        if self.keys_BHKE is not None:
            self.keys_BHKE = self.keys_BHKE.index_select(0, index_N)

    def tensors(self) -> Sequence[Tensor]:
        """As in ``AttentionState.tensors``."""
        self._pick()
        held = [self.keys_BHKE, self.values_BHKE, self.relative[2] if self.relative else None]
        return [tensor for tensor in held if tensor is not None]


@register_attention(
    "terms",
    positional="terms",
    examples=(
        *(f"terms({number:04b})" for number in range(1, 16)),
        "terms(0100,range=5)",
        "terms(1111,range=3)",
    ),
)
class TermsAttention(Attention):
    """The sum of the chosen terms E1..E4; ``terms(1000)`` is dot-product attention.

    Args:
        dim: model width D.
        heads: number of heads H (8 in the paper).
        dropout: dropout on the attention weights.
        terms: four bits, E1 to E4.
        range: number of neighbouring keys n_k a query may read (Table 3), odd; 0 reads all.
            Centred on the query, or the last n_k keys where the future is hidden, as many as
            the taps of a dynamic convolution of that kernel size.
        scale: divide the energies by sqrt(E). On by default: the paper's formula shows no
            divisor and its image code (mmcv) has none, but its translation experiments take
            the Transformer's hyper-parameters, and terms(1000) is then exactly dot.
        bias: biases on query, key and value projections; the paper's formula has none.
        base: longest wavelength of R over 2 pi, 10000 in Transformers (mmcv takes 1000 on images).
    """

    def __init__(
        self,
        dim: int,
        heads: int = 8,
        *,
        dropout: float = 0.0,
        terms: str,
        range: int = 0,
        scale: bool = True,
        bias: bool = False,
        base: float = 10000.0,
    ) -> None:
        super().__init__(dim, heads)
        TermsAttention.traits(terms=terms, range=range, base=base)
        self.dropout = dropout
        self.range = range
        self.base = base
        self.scale = 1 / math.sqrt(self.head_dim) if scale else 1.0
        self.make(terms, position_dim=dim, bias=bias)

    def make(self, terms: str, *, position_dim: int, bias: bool) -> None:
        """Make the weights that the formula has for the terms, and no others.

        Args:
            terms: four bits, E1 to E4.
            position_dim: width of the encoding R.
            bias: biases on query, key and value projections.
        """
        self.terms = bits_of(terms)
        if not any(self.terms):
            raise ValueError("terms(0000) is no attention: write none")
        content, relative, key_only, position_only = self.terms
        dim, width = self.dim, self.heads * self.head_dim
        positions = relative or position_only
        self.query_proj = nn.Linear(dim, width, bias) if content or relative else None
        self.key_proj = nn.Linear(dim, width, bias) if content or key_only else None
        self.relative_proj = nn.Linear(position_dim, width, False) if positions else None
        self.value_proj = nn.Linear(dim, width, bias)
        self.out_proj = nn.Linear(width, dim)
        shape = (self.heads, self.head_dim)
        self.content_bias_HE = nn.Parameter(torch.empty(shape)) if key_only else None
        self.relative_bias_HE = nn.Parameter(torch.empty(shape)) if position_only else None
        self.reset_parameters()

    @classmethod
    def traits(cls, **options: Any) -> Traits:
        """As in ``Attention.traits``."""
        bits = bits_of(options.get("terms", "1000"))
        reach, base = options.get("range", 0), options.get("base", 1.0)
        if reach < 0 or (reach and reach % 2 == 0):
            raise ValueError(f"range is an odd number of keys, or 0 for all, not {reach}")
        if not 0 < base < math.inf:
            raise ValueError(f"base is a positive number, not {base}")
        if not any(bits):
            return Traits(family="none", weights="none")
        positions = reach or bits[1] or bits[3]
        geometry = frozenset({Sequence1D.name}) if positions else frozenset()
        return Traits(family="energy", weights="dense", geometry=geometry)

    def reset_parameters(self) -> None:
        """Xavier-uniform projections, zero biases; u and v uniform in +-1/sqrt(2 E) as in mmcv."""
        for module in self.children():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
        bound = 1 / math.sqrt(2 * self.head_dim)
        for bias in (self.content_bias_HE, self.relative_bias_HE):
            if bias is not None:
                nn.init.uniform_(bias, -bound, bound)

    def forward(
        self,
        query_BQD: Tensor,
        memory_BKD: Tensor | None = None,
        *,
        geometry: Geometry | None = None,
        mask: AttentionMask | None = None,
        state: AttentionState | None = None,
        need_weights: bool = False,
    ) -> AttentionOutput:
        """As in ``Attention.forward``."""
        mask = NO_MASK if mask is None else mask
        queries = query_BQD.shape[1]
        held = state if isinstance(state, KeyValueState) else None
        start = 0
        if held is None:
            keys_BHKE, values_BHKE = self.keys_and_values(
                query_BQD if memory_BKD is None else memory_BKD, mask.keys_BK
            )
        else:
            if held.grows:
                if not mask.causal:  # positions that are decoded one by one look back only
                    mask = AttentionMask(mask.keys_BK, causal=True)
                start = held.length
                held.append(*self.keys_and_values(query_BQD))
            keys_BHKE, values_BHKE = held.keys_BHKE, held.values_BHKE
            assert values_BHKE is not None
        keys = values_BHKE.shape[2]
        where = self.standing(queries, keys, start) if geometry is None else geometry
        if (where.queries, where.keys) != (queries, keys):
            raise ValueError(
                f"the geometry is for {where.queries} queries and {where.keys} keys, but the "
                f"call has {queries} and {keys}: make it from the tensors of this batch"
            )
        window = self.window(mask.causal)
        reads_memory = memory_BKD is not None or (held is not None and not held.grows)
        valid_BQ = mask.queries_of(memory=reads_memory)
        energy = self.energy(query_BQD, keys_BHKE, where, window, valid_BQ, held)
        context_BHQE, weights = attend(
            energy,
            values_BHKE,
            self.allowed(mask, where, window, query_BQD.device),
            queries=queries,
            dropout=self.dropout if self.training else 0.0,
            need_weights=need_weights,
        )
        context_BQD = context_BHQE.transpose(1, 2).flatten(2)
        if forced_path() == "explicit":  # the cost on paper is that of every query
            context_BQD = context_BQD.expand(-1, queries, -1)
        context_BQD = self.out_proj(context_BQD).expand(-1, queries, -1).contiguous()
        return AttentionOutput(context_BQD, weights, state)

    def begin(
        self, memory_BKD: Tensor | None = None, mask: AttentionMask | None = None
    ) -> AttentionState:
        """As in ``Attention.begin``."""
        if memory_BKD is None:
            return KeyValueState(None, None, grows=True)
        keys, values = self.keys_and_values(memory_BKD, None if mask is None else mask.keys_BK)
        return KeyValueState(keys, values, grows=False)

    def standing(self, queries: int, keys: int, start: int) -> Geometry:
        """Where queries and keys stand if the caller doesn't say."""
        return Sequence1D(queries, keys, query_start=start)

    def allowed(
        self,
        mask: AttentionMask,
        where: Geometry,
        window: tuple[int, int] | None,
        device: torch.device,
    ) -> Allowed:
        """Which keys each query may read."""
        return mask.allowed(where, window, device)

    def window(self, causal: bool) -> tuple[int, int] | None:
        """Offsets ``key - query`` in reach; None if all are."""
        if not self.range:
            return None
        return (1 - self.range, 0) if causal else (-(self.range // 2), self.range // 2)

    def project_queries(self, query_BQD: Tensor, valid_BQ: Tensor | None) -> Tensor:
        """Queries before they are split into heads, (B, Q, D); ``valid_BQ`` marks the real ones."""
        assert self.query_proj is not None
        return self.query_proj(query_BQD)

    def project_keys(self, memory_BKD: Tensor, valid_BK: Tensor | None) -> Tensor:
        """Keys before they are split into heads, (B, K, D); ``valid_BK`` marks the real ones."""
        assert self.key_proj is not None
        return self.key_proj(memory_BKD)

    def keys_and_values(
        self, memory_BKD: Tensor, valid_BK: Tensor | None = None
    ) -> tuple[Tensor | None, Tensor]:
        """Keys (None if no term reads them) and values of a memory, (B, H, K, E)."""
        values = self.split(self.value_proj(memory_BKD))
        if self.key_proj is None:
            return None, values
        return self.split(self.project_keys(memory_BKD, valid_BK)), values

    def split(self, x_BTD: Tensor) -> Tensor:
        """(B, T, D) to (B, H, T, E)."""
        return x_BTD.unflatten(-1, (self.heads, self.head_dim)).transpose(1, 2)

    def energy(
        self,
        query_BQD: Tensor,
        keys_BHKE: Tensor | None,
        where: Geometry,
        window: tuple[int, int] | None,
        valid_BQ: Tensor | None,
        held: KeyValueState | None,
    ) -> Energy:
        """The scores of equation 2, with the shared weights multiplied once."""
        content, relative, key_only, position_only = self.terms
        query_BHQE = None
        if content or relative:
            query_BHQE = self.split(self.project_queries(query_BQD, valid_BQ)) * self.scale
        u_H1E = None if self.content_bias_HE is None else self.content_bias_HE[:, None] * self.scale
        v_H1E = (
            None if self.relative_bias_HE is None else self.relative_bias_HE[:, None] * self.scale
        )
        parts: dict[str, Any] = {}
        if content:
            assert query_BHQE is not None
            parts["query_BHQE"] = query_BHQE if u_H1E is None else query_BHQE + u_H1E
            parts["key_BHKE"] = keys_BHKE
        elif key_only:
            assert u_H1E is not None and keys_BHKE is not None
            parts["key_bias_BHK"] = (keys_BHKE @ u_H1E.transpose(-2, -1)).squeeze(-1)
        if relative or position_only:
            asking = query_BHQE if relative else None
            if v_H1E is not None:
                asking = v_H1E[None] if asking is None else asking + v_H1E
            assert asking is not None
            parts |= self.relative_parts(asking, where, window, held)
        return Energy(**parts)

    def relative_parts(
        self,
        asking_BHQE: Tensor,
        where: Geometry,
        window: tuple[int, int] | None,
        held: KeyValueState | None,
    ) -> dict[str, Any]:
        """The parts of the energy that relative positions give, by their names in ``Energy``."""
        return {"axes": (AxisScores(self.relative_scores(asking_BHQE, where, window, held)),)}

    def relative_scores(
        self,
        asking_BHQE: Tensor,
        where: Geometry,
        window: tuple[int, int] | None,
        held: KeyValueState | None,
    ) -> Tensor:
        """Scores (B or 1, H, Q, K) of ``asking_BHQE`` (B or 1, H, Q or 1, E) against R_{k-q}."""
        if not isinstance(where, Sequence1D):
            raise SiteError(f"relative positions need the geometry Sequence1D, not {where.name}")
        lowest, highest = where.offsets
        low, high = lowest, highest
        if window is not None:
            low, high = max(low, window[0]), min(high, window[1])
        if low > high:  # no key of the window exists
            batch, heads = asking_BHQE.shape[:2]
            return asking_BHQE.new_zeros(batch, heads, where.queries, where.keys)
        table_HPE = self.relative_table(low, high, where, asking_BHQE, held)
        scores_BHQP = asking_BHQE @ table_HPE.transpose(-2, -1)
        if window is not None:  # offsets outside the window are masked: any score will do
            scores_BHQP = nn.functional.pad(scores_BHQP, (low - lowest, highest - high))
        return where.skew(scores_BHQP.expand(-1, -1, where.queries, -1))

    def relative_table(
        self, low: int, high: int, where: Sequence1D, like: Tensor, held: KeyValueState | None
    ) -> Tensor:
        """V^R R for the offsets low..high, (H, P, E); while decoding it is kept and grown."""
        assert self.relative_proj is not None
        if held is not None:
            if held.relative is None or low < held.relative[0] or high > held.relative[1]:
                low_kept, high_kept = min(2 * low, -16), max(high, 0)
                table = self.project_offsets(low_kept, high_kept, where, like)
                held.relative = (low_kept, high_kept, table)
            first = low - held.relative[0]
            return held.relative[2][:, first : first + high - low + 1]
        return self.project_offsets(low, high, where, like)

    def project_offsets(self, low: int, high: int, where: Sequence1D, like: Tensor) -> Tensor:
        """V^R R for the offsets low..high, (H, P, E)."""
        assert self.relative_proj is not None
        encoding_PD = where.encoding(low, high, self.dim, self.base, like)
        projected_PD = self.relative_proj(encoding_PD)
        return projected_PD.unflatten(-1, (self.heads, self.head_dim)).transpose(0, 1)


def _joined(held_BHKE: Tensor, chosen_N: Tensor | None, new_NHKE: Tensor) -> Tensor:
    """The rows ``chosen_N`` of what is held (None: all), then the new positions."""
    if chosen_N is None:
        return torch.cat([held_BHKE, new_NHKE], 2)
    if torch.is_grad_enabled() and (held_BHKE.requires_grad or new_NHKE.requires_grad):
        return torch.cat([held_BHKE.index_select(0, chosen_N), new_NHKE], 2)
    rows, heads, new, width = new_NHKE.shape
    held = held_BHKE.shape[2]
    joined_NHKE = new_NHKE.new_empty(rows, heads, held + new, width)
    torch.index_select(held_BHKE, 0, chosen_N, out=joined_NHKE[:, :, :held])
    joined_NHKE[:, :, held:] = new_NHKE
    return joined_NHKE


def bits_of(text: str) -> tuple[bool, bool, bool, bool]:
    """Which of E1 to E4 a text such as ``0110`` asks for; ValueError if it isn't four bits."""
    if len(text) != 4 or set(text) - {"0", "1"}:
        raise ValueError(f"terms are four bits for E1 to E4, e.g. terms(0110), not {text!r}")
    content, relative, key_only, position_only = (bit == "1" for bit in text)
    return content, relative, key_only, position_only
