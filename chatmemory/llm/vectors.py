"""The interface of embeddings models. A vector is a list of numbers of length one: products are similarities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Embedded:
    """Vectors in the order of their texts, and the billed tokens (0 if the endpoint does not report them)."""

    vectors: tuple[list[float], ...]
    tokens: int


class Embedder(Protocol):
    """One embeddings model."""

    model: str
    """The name under which its vectors are stored: vectors of different models are never compared."""
    dimensions: int
    batch: int
    """Maximum number of texts per call."""

    async def embed(self, texts: Sequence[str], *, timeout: float) -> Embedded:
        """Return the vectors of `texts` within `timeout` seconds. Raise `UpstreamError`."""

    def embed_now(self, texts: Sequence[str], *, timeout: float) -> Embedded:
        """Do the same in a thread without a running event loop (otherwise `RuntimeError`)."""
