"""The attention contract: one call signature for every variant, and opaque decoding state."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from .geometry import Geometry
from .masks import AttentionMask
from .traits import Traits

NO_MEMORY_IN_CHAIN = "a convolution in front serves self-attention only: pass no memory"


class SiteError(ValueError):
    """A variant was asked to serve a site that it can't serve."""


class AttentionState(abc.ABC):
    """What a variant keeps between decoding steps; only the variant knows what is inside."""

    @abc.abstractmethod
    def select(self, index_N: Tensor) -> None:
        """Keep the batch rows ``index_N`` (long), in that order: beams reordered, items dropped."""

    @abc.abstractmethod
    def tensors(self) -> Sequence[Tensor]:
        """Every tensor that is held."""

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum(tensor.nbytes for tensor in self.tensors())


class AttentionOutput(NamedTuple):
    """Result of one attention call.

    Attributes:
        context_BQD: what was gathered, projected back to the model width.
        weights: what ``Traits.weights`` says, only if asked for: dense ``(B, H, Q, K)``.
        state: the decoding state to pass to the next step, if one was passed in.
        aux: named scalars that a task may weigh into its loss.
    """

    context_BQD: Tensor
    weights: Tensor | None = None
    state: AttentionState | None = None
    aux: dict[str, Tensor] = {}


class Attention(nn.Module, abc.ABC):
    """Base class of all variants; subclasses register with ``register_attention``."""

    def __init__(self, dim: int, heads: int, width: int = 0) -> None:
        super().__init__()
        width = width or dim  # of all heads together
        if dim < 1 or heads < 1 or width < 1 or width % heads:
            raise ValueError(f"{heads} heads don't divide the width {width}; choose a divisor")
        self.dim = dim
        self.heads = heads
        self.head_dim = width // heads

    @classmethod
    @abc.abstractmethod
    def traits(cls, **options: Any) -> Traits:
        """What the variant can do with these options; ValueError if they're out of range."""

    @abc.abstractmethod
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
        """Attend from ``query_BQD`` to ``memory_BKD`` (None: to the queries themselves).

        Args:
            query_BQD: queries; with ``state`` those of the next step(s) only.
            memory_BKD: elements to read; None is self-attention. With the state of a memory
                it is left out, since the state holds its keys and values.
            geometry: where queries and keys stand, made once a batch.
            mask: which keys and queries are real, and whether the future is hidden.
            state: from ``begin``; makes the call one step of decoding. In self-attention a
                step sees its past only, with or without a causal mask.
            need_weights: also return the weights.

        Returns:
            An ``AttentionOutput``. A query without any valid key gets context from zeros only
            (the output projection's bias), with finite gradients.
        """

    def begin(
        self, memory_BKD: Tensor | None = None, mask: AttentionMask | None = None
    ) -> AttentionState:
        """The state before the first decoding step.

        Args:
            memory_BKD: encoder output for encoder-decoder attention (its keys and values are
                computed here, once an item); None for self-attention.
            mask: which elements of the memory are real.
        """
        raise SiteError(f"{type(self).__name__} can't decode step by step")


class NoAttention(Attention):
    """No attention module at all: layers leave the whole sub-layer out.

    This is the "w/o" row of "An Empirical Study of Spatial Attention Mechanisms" (Zhu et al.,
    ICCV 2019). A public re-implementation averages uniformly instead, which is something else.
    Called on its own it returns zeros.
    """

    def __init__(self, dim: int, heads: int = 8, *, dropout: float = 0.0) -> None:
        super().__init__(dim, heads)

    @classmethod
    def traits(cls, **options: Any) -> Traits:
        """As in ``Attention.traits``."""
        return Traits(family="none", weights="none")

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
        """Zeros of the queries' shape."""
        return AttentionOutput(torch.zeros_like(query_BQD), state=state)

    def begin(
        self, memory_BKD: Tensor | None = None, mask: AttentionMask | None = None
    ) -> AttentionState:
        """As in ``Attention.begin``."""
        return ChainState([])


class ChainState(AttentionState):
    """The states of several modules that work in a row."""

    def __init__(self, states: list[AttentionState]) -> None:
        self.states = states

    def select(self, index_N: Tensor) -> None:
        """As in ``AttentionState.select``."""
        for state in self.states:
            state.select(index_N)

    def tensors(self) -> Sequence[Tensor]:
        """As in ``AttentionState.tensors``."""
        return [tensor for state in self.states for tensor in state.tensors()]


class Chain(Attention):
    """A self-attention variant with convolution units in front: ``terms(0010)+deformable``.

    Each front unit reads the input and its output is what the inner variant sees, as Zhu et al.
    insert a deformable convolution "before the input of each attention module" (section 4.1).
    """

    def __init__(self, inner: Attention, fronts: list[Attention]) -> None:
        super().__init__(inner.dim, inner.heads)
        self.fronts = nn.ModuleList(reversed(fronts))
        self.inner = inner

    @classmethod
    def traits(cls, **options: Any) -> Traits:
        """As in ``Attention.traits``."""
        raise SiteError("a chain has the traits of its spec: use traits_of(spec)")

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
        """As in ``Attention.forward``; self-attention only."""
        if memory_BKD is not None:
            raise SiteError(NO_MEMORY_IN_CHAIN)
        states: Sequence[AttentionState | None] = [None] * (len(self.fronts) + 1)
        if state is not None:
            assert isinstance(state, ChainState)
            states = state.states
        aux: dict[str, Tensor] = {}
        for front, front_state in zip(self.fronts, states, strict=False):
            moved = front(query_BQD, geometry=geometry, mask=mask, state=front_state)
            query_BQD = moved.context_BQD
            aux |= moved.aux
        output: AttentionOutput = self.inner(
            query_BQD, geometry=geometry, mask=mask, state=states[-1], need_weights=need_weights
        )
        return output._replace(state=state, aux=aux | output.aux)

    def begin(
        self, memory_BKD: Tensor | None = None, mask: AttentionMask | None = None
    ) -> AttentionState:
        """As in ``Attention.begin``; self-attention only."""
        if memory_BKD is not None:
            raise SiteError(NO_MEMORY_IN_CHAIN)
        return ChainState([module.begin() for module in [*self.fronts, self.inner]])
