"""Which model this process talks to, by configuration: one client a process, never kept over a fork."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from django.conf import settings

from chatmemory.llm.embeddings import Embedder
from chatmemory.llm.offline import OfflineModel
from chatmemory.llm.openai import OpenAIModel
from chatmemory.llm.protocol import ChatModel

_made: tuple[tuple[object, ...], ChatModel] | None = None
_embedder: tuple[tuple[object, ...], Embedder] | None = None
_watched: Callable[[ChatModel], ChatModel] | None = None


def is_offline() -> bool:
    """Whether the built-in model answers, because no upstream is configured."""
    return not settings.OPENAI_API_KEY and not settings.OPENAI_BASE_URL


def chat_model() -> ChatModel:
    """The model that answers and summarizes. Another process or another configuration gets a client of its own."""
    global _made  # one client a process is the point
    names = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_API_STYLE", "OPENAI_TERMINAL")
    wanted = (os.getpid(), *(getattr(settings, name) for name in names))
    if _made is None or _made[0] != wanted:
        _made = (wanted, _make())
    return _seen(_made[1])


def embeds() -> bool:
    """Whether turns are found by their meaning, too: a model for that is named, and there is an upstream."""
    return bool(settings.MEMORY_EMBEDDINGS_MODEL) and not is_offline()


def embedder() -> Embedder:
    """The model that makes vectors. Another process or another configuration gets one of its own."""
    global _embedder  # as above
    names = (
        "OPENAI_API_KEY",
        "OPENAI_BASE_URL",
        "MEMORY_EMBEDDINGS_MODEL",
        "MEMORY_EMBEDDINGS_DIMENSIONS",
    )
    wanted = (os.getpid(), *(getattr(settings, name) for name in names))
    if _embedder is None or _embedder[0] != wanted:
        key, url, model, dimensions = (getattr(settings, name) for name in names)
        made = Embedder(api_key=key, base_url=url or None, model=model, dimensions=dimensions)
        _embedder = (wanted, made)
    return _embedder[1]


def offline_model() -> ChatModel:
    """The built-in model, also used as summarizer where the upstream keeps failing."""
    return _seen(_offline())


@contextmanager
def watched_by(watched: Callable[[ChatModel], ChatModel]) -> Iterator[None]:
    """Within, this process's models are handed out wrapped by `watched`, which measures what they are asked."""
    global _watched  # for the lab, which has a process to itself; the server has no watcher
    before, _watched = _watched, watched
    try:
        yield
    finally:
        _watched = before


def _seen(model: ChatModel) -> ChatModel:
    return model if _watched is None else _watched(model)


def _offline() -> OfflineModel:
    return OfflineModel(summary_tokens=settings.MEMORY_LIMITS.summary_cap)


def _make() -> ChatModel:
    if is_offline():
        return _offline()
    return OpenAIModel(
        api_key=settings.OPENAI_API_KEY,
        base_url=settings.OPENAI_BASE_URL or None,
        style=settings.OPENAI_API_STYLE,
        terminal=settings.OPENAI_TERMINAL,
    )


async def aclose() -> None:
    """Close the client's connections at shutdown."""
    global _made, _embedder  # see above
    made, _made = _made, None
    vectors, _embedder = _embedder, None
    if made is not None and isinstance(made[1], OpenAIModel):
        await made[1].aclose()
    if vectors is not None:
        await vectors[1].aclose()
