"""The models of this process: one client for each upstream.

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
from chatmemory.llm.openai.failures import Breaker
from chatmemory.llm.openai.reading import Terminal
from chatmemory.llm.openai.requests import is_openai_host
from chatmemory.llm.protocol import ChatModel, Upstream, Variant

if TYPE_CHECKING:
    from chatmemory.llm.openai.client import OpenAIModel, UpstreamEmbedder

_wrapper: Callable[[ChatModel], ChatModel] | None = None


def load() -> None:
    """Import what this configuration needs, so that no request waits for it."""
    if _has_upstreams():
        importlib.import_module("chatmemory.llm.openai.client")


def is_offline() -> bool:
    """Whether the server has no upstream of its own: then the built-in model summarizes, and answers for variants that
    have none either."""
    return not settings.OPENAI_API_KEY and not settings.OPENAI_BASE_URL


def upstream_of(variant: Variant) -> Upstream | None:
    """The upstream that is asked for a variant; None: the built-in model answers."""
    if variant.upstream or is_offline():
        return variant.upstream
    return Upstream(settings.OPENAI_BASE_URL, settings.OPENAI_API_KEY, settings.OPENAI_API_STYLE)


def disarms_control_tokens(variant: Variant) -> bool:
    """Whether control tokens of models are disarmed in the prompts for a variant, which its fallback gets as well.

    OpenAI reads them as text anyway, and the built-in model has none.
    """
    setting = settings.UPSTREAM_CONTROL_TOKENS
    upstreams = [found for one in variant.candidates if (found := upstream_of(one))]
    return setting != "send" and any(setting == "disarm" or not is_openai_host(one.base_url) for one in upstreams)


def chat_model(variant: Variant) -> ChatModel:
    """The model that answers for a variant, or summarizes for the summarizer's."""
    upstream = upstream_of(variant)
    return _wrapped(_chat_client(upstream, settings.OPENAI_TERMINAL)) if upstream else offline_model()


def breaker_of(variant: Variant) -> Breaker:
    """This process's breaker for a variant that has a fallback: it says whether to ask the variant at all."""
    return _breaker(upstream_of(variant), variant.model)


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


def _has_upstreams() -> bool:
    return not is_offline() or any(one.upstream for one in settings.MODEL_VARIANTS.values())


@functools.cache
def _breaker(upstream: Upstream | None, model: str) -> Breaker:
    return Breaker()


@functools.cache
def _chat_client(upstream: Upstream, terminal: Terminal) -> OpenAIModel:
    from chatmemory.llm.openai.client import OpenAIModel

    return OpenAIModel(upstream.api_key, upstream.base_url, upstream.style, terminal)


@functools.lru_cache(maxsize=1)
def _embeddings_client(api_key: str, base_url: str, model: str, dimensions: int) -> UpstreamEmbedder:
    from chatmemory.llm.openai.client import UpstreamEmbedder

    return UpstreamEmbedder(api_key, base_url, model, dimensions)


async def aclose() -> None:
    """Close the running loop's connections at shutdown."""
    if _has_upstreams():
        from chatmemory.llm.openai import transport

        await transport.aclose()
