"""The models of this process, by configuration: one client per process, never kept across a fork.

The clients of upstreams are imported only if one is configured: their SDK takes 35 MB and half a second.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from django.conf import settings

from chatmemory.llm.offline.model import OfflineModel
from chatmemory.llm.openai.requests import is_openai_host
from chatmemory.llm.protocol import ChatModel, Embedder

if TYPE_CHECKING:
    from chatmemory.llm.openai.client import OpenAIModel, UpstreamEmbedder

_made: tuple[tuple[object, ...], OfflineModel | OpenAIModel] | None = None
_embedder: tuple[tuple[object, ...], UpstreamEmbedder] | None = None
_wrapper: Callable[[ChatModel], ChatModel] | None = None


def load() -> None:
    """Import what this configuration needs, so that no request waits for it and forked processes share it."""
    if not is_offline():
        importlib.import_module("chatmemory.llm.openai.client")


def is_offline() -> bool:
    """Whether the built-in model answers, because no upstream is configured."""
    return not settings.OPENAI_API_KEY and not settings.OPENAI_BASE_URL


def disarms_control_tokens() -> bool:
    """Whether control tokens of models are disarmed in prompts before they are sent.

    OpenAI reads them as text anyway, and the built-in model has none.
    """
    wanted = settings.UPSTREAM_CONTROL_TOKENS
    if is_offline() or wanted == "send":
        return False
    return wanted == "disarm" or not is_openai_host(settings.OPENAI_BASE_URL)


def chat_model() -> ChatModel:
    """The model that answers and summarizes. Each process and each configuration has its own client."""
    global _made  # one client per process is the purpose
    names = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_API_STYLE", "OPENAI_TERMINAL")
    wanted = (os.getpid(), *(getattr(settings, name) for name in names))
    if _made is None or _made[0] != wanted:
        _made = (wanted, _make())
    return _wrapped(_made[1])


def embeds() -> bool:
    """Whether an embeddings model is configured. Whether it is used also depends on the database."""
    return bool(settings.MEMORY_EMBEDDINGS_MODEL) and not is_offline()


def embedder() -> Embedder:
    """The configured embeddings model. Each process and each configuration has its own."""
    global _embedder  # as above
    names = (
        "OPENAI_API_KEY",
        "OPENAI_BASE_URL",
        "MEMORY_EMBEDDINGS_MODEL",
        "MEMORY_EMBEDDINGS_DIMENSIONS",
    )
    wanted = (os.getpid(), *(getattr(settings, name) for name in names))
    if _embedder is None or _embedder[0] != wanted:
        from chatmemory.llm.openai.client import UpstreamEmbedder

        key, url, model, dimensions = (getattr(settings, name) for name in names)
        made = UpstreamEmbedder(api_key=key, base_url=url, model=model, dimensions=dimensions)
        _embedder = (wanted, made)
    return _embedder[1]


def offline_model() -> ChatModel:
    """The built-in model, also used as summarizer if the upstream keeps failing."""
    return _wrapped(_offline())


@contextmanager
def wrap_models(wrapper: Callable[[ChatModel], ChatModel]) -> Iterator[None]:
    """Wrap this process's models with `wrapper` in the block, to see their prompts or to answer for them."""
    global _wrapper  # for the lab and quickstart, which have a process to themselves; the server does not use it
    before, _wrapper = _wrapper, wrapper
    try:
        yield
    finally:
        _wrapper = before


def _wrapped(model: ChatModel) -> ChatModel:
    return model if _wrapper is None else _wrapper(model)


def _offline() -> OfflineModel:
    return OfflineModel(summary_tokens=settings.MEMORY_LIMITS.summary_cap)


def _make() -> OfflineModel | OpenAIModel:
    if is_offline():
        return _offline()
    from chatmemory.llm.openai.client import OpenAIModel

    return OpenAIModel(
        api_key=settings.OPENAI_API_KEY,
        base_url=settings.OPENAI_BASE_URL,
        style=settings.OPENAI_API_STYLE,
        terminal=settings.OPENAI_TERMINAL,
    )


async def aclose() -> None:
    """Close the client's connections at shutdown."""
    global _made, _embedder  # see above
    made, _made = _made, None
    vectors, _embedder = _embedder, None
    if made is not None and not isinstance(made[1], OfflineModel):
        await made[1].aclose()
    if vectors is not None:
        await vectors[1].aclose()
