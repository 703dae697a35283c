"""The models of this process: one client for a configuration.

The clients of upstreams are imported only if one is configured: their SDK takes 35 MB and half a second.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from django.conf import settings

from chatmemory.llm.offline import OfflineModel
from chatmemory.llm.openai.reading import Style, Terminal
from chatmemory.llm.openai.requests import is_openai_host
from chatmemory.llm.protocol import ChatModel

if TYPE_CHECKING:
    from chatmemory.llm.openai.client import OpenAIModel, UpstreamEmbedder

_wrapper: Callable[[ChatModel], ChatModel] | None = None


def load() -> None:
    """Import what this configuration needs, so that no request waits for it."""
    if not is_offline():
        importlib.import_module("chatmemory.llm.openai.client")


def is_offline() -> bool:
    """Whether the built-in model answers, because no upstream is configured."""
    return not settings.OPENAI_API_KEY and not settings.OPENAI_BASE_URL


def disarms_control_tokens() -> bool:
    """Whether control tokens of models are disarmed in prompts before they are sent.

    OpenAI reads them as text anyway, and the built-in model has none.
    """
    setting = settings.UPSTREAM_CONTROL_TOKENS
    if is_offline() or setting == "send":
        return False
    return setting == "disarm" or not is_openai_host(settings.OPENAI_BASE_URL)


def chat_model() -> ChatModel:
    """The model that answers and summarizes."""
    if is_offline():
        return offline_model()
    key, url = settings.OPENAI_API_KEY, settings.OPENAI_BASE_URL
    return _wrapped(_chat_client(key, url, settings.OPENAI_API_STYLE, settings.OPENAI_TERMINAL))


def offline_model() -> ChatModel:
    """The built-in model, also used as summarizer if the upstream keeps failing."""
    return _wrapped(OfflineModel())


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


def embeds() -> bool:
    """Whether an embeddings model is configured. Whether it is used also depends on the database."""
    return bool(settings.MEMORY_EMBEDDINGS_MODEL) and not is_offline()


def embedder() -> UpstreamEmbedder:
    """The configured embeddings model."""
    key, url = settings.OPENAI_API_KEY, settings.OPENAI_BASE_URL
    model, dimensions = settings.MEMORY_EMBEDDINGS_MODEL, settings.MEMORY_EMBEDDINGS_DIMENSIONS
    return _embeddings_client(key, url, model, dimensions)


@functools.lru_cache(maxsize=1)
def _chat_client(api_key: str, base_url: str, style: Style, terminal: Terminal) -> OpenAIModel:
    from chatmemory.llm.openai.client import OpenAIModel

    return OpenAIModel(api_key, base_url, style, terminal)


@functools.lru_cache(maxsize=1)
def _embeddings_client(api_key: str, base_url: str, model: str, dimensions: int) -> UpstreamEmbedder:
    from chatmemory.llm.openai.client import UpstreamEmbedder

    return UpstreamEmbedder(api_key, base_url, model, dimensions)


async def aclose() -> None:
    """Close the running loop's connections at shutdown."""
    if not is_offline():
        from chatmemory.llm.openai import transport

        await transport.aclose()
