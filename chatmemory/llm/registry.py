"""The models of this process, by configuration: one client per process, never kept across a fork.

The clients of upstreams are imported only if one is configured: their SDK takes 35 MB and half a second.
"""

from __future__ import annotations

import importlib
import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from django.conf import settings

from chatmemory.llm.local_embeddings import LocalEmbedder
from chatmemory.llm.local_files import LocalModelError
from chatmemory.llm.offline.model import OfflineModel
from chatmemory.llm.openai.hosts import is_openai_host
from chatmemory.llm.protocol import ChatModel
from chatmemory.llm.vectors import Embedder

if TYPE_CHECKING:
    from chatmemory.llm.openai.client import OpenAIModel
    from chatmemory.llm.openai.embeddings import UpstreamEmbedder

logger = logging.getLogger(__name__)

_made: tuple[tuple[object, ...], OfflineModel | OpenAIModel] | None = None
_embedder: tuple[tuple[object, ...], UpstreamEmbedder] | None = None
_local: tuple[tuple[object, ...], LocalEmbedder | str] | None = None
"""The model of a folder, or the reason why it cannot be loaded."""
_loading = threading.Lock()
_wrapper: Callable[[ChatModel], ChatModel] | None = None


def load() -> None:
    """Import what this configuration needs, so that no request waits for it and forked processes share it."""
    if not is_offline():
        importlib.import_module("chatmemory.llm.openai.client")
        importlib.import_module("chatmemory.llm.openai.embeddings")


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
    """Whether turns are also found by meaning, with a model of a folder or of the upstream."""
    if settings.MEMORY_EMBEDDINGS_FOLDER:
        return isinstance(_of_folder(), LocalEmbedder)
    return bool(settings.MEMORY_EMBEDDINGS_MODEL) and not is_offline()


def embedder() -> Embedder:
    """The embeddings model. Each process and each configuration has its own.

    Raises `LocalModelError` if `embeds` is false for a folder.
    """
    global _embedder  # as above
    if settings.MEMORY_EMBEDDINGS_FOLDER:
        found = _of_folder()
        if isinstance(found, str):
            raise LocalModelError(found)
        return found
    names = (
        "OPENAI_API_KEY",
        "OPENAI_BASE_URL",
        "MEMORY_EMBEDDINGS_MODEL",
        "MEMORY_EMBEDDINGS_DIMENSIONS",
    )
    wanted = (os.getpid(), *(getattr(settings, name) for name in names))
    if _embedder is None or _embedder[0] != wanted:
        from chatmemory.llm.openai.embeddings import UpstreamEmbedder

        key, url, model, dimensions = (getattr(settings, name) for name in names)
        made = UpstreamEmbedder(api_key=key, base_url=url or None, model=model, dimensions=dimensions)
        _embedder = (wanted, made)
    return _embedder[1]


def embeddings_problem() -> str | None:
    """Why the model of `MEMORY_EMBEDDINGS_FOLDER` cannot be used, as a sentence, or None. Loads it if necessary."""
    found = _of_folder() if settings.MEMORY_EMBEDDINGS_FOLDER else ""
    return f"MEMORY_EMBEDDINGS_FOLDER {found}." if found and isinstance(found, str) else None


def _of_folder() -> LocalEmbedder | str:
    """The model of the folder, or why it cannot be loaded. It is loaded, and a failure logged, once per process."""
    global _local  # as above
    wanted = (os.getpid(), settings.MEMORY_EMBEDDINGS_FOLDER)
    with _loading:
        if _local is None or _local[0] != wanted:
            _local = (wanted, _load(Path(settings.MEMORY_EMBEDDINGS_FOLDER)))
        return _local[1]


def _load(folder: Path) -> LocalEmbedder | str:
    try:
        return LocalEmbedder(folder)
    except LocalModelError as error:
        logger.error("no embeddings", extra={"reason": str(error)})
        return str(error)


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
        base_url=settings.OPENAI_BASE_URL or None,
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
