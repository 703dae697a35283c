"""Texts → vectors: what every way to make them promises.

A vector comes as bytes: little-endian 32-bit floats of length one, so that two of them are as alike as their product
says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

SHORTEST = 1e-6
"""A vector that is shorter points nowhere."""


@dataclass(frozen=True, slots=True)
class Embedded:
    """Vectors in the order of their texts, and the tokens that were paid for (0 where the endpoint does not tell)."""

    vectors: tuple[bytes, ...]
    tokens: int


class Embedder(Protocol):
    """One model that makes vectors."""

    model: str
    """The name under which its vectors are kept: those of two models are never compared."""
    dimensions: int
    batch: int
    """Texts that one call is given, at most."""

    async def embed(self, texts: Sequence[str], *, timeout: float) -> Embedded:
        """The vectors of `texts` within `timeout` seconds. Raises `UpstreamError`."""

    def embed_now(self, texts: Sequence[str], *, timeout: float) -> Embedded:
        """The same, for threads without a running event loop (else `RuntimeError`)."""

    async def aclose(self) -> None:
        """Let go of what is open for the running loop."""
