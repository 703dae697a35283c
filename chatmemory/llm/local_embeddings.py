"""Embeddings from a model in a folder, on the CPU: the local counterpart of `chatmemory.llm.openai.embeddings`.

Built from a path; reads no settings and downloads nothing. Needs the packages of the extra `local-embeddings`, which
are imported only when a model is loaded.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from chatmemory.llm.local_files import Files, LocalModelError, files_of, require_packages
from chatmemory.llm.openai import failures
from chatmemory.llm.openai.sync import forbid_running_loop
from chatmemory.llm.protocol import ReplyError, UpstreamError
from chatmemory.llm.vectors import SHORTEST, Embedded

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

BATCH = 8
"""How many texts are embedded for one write: takes some seconds on a slow, shared core."""
THREADS = max(1, min(4, os.cpu_count() or 1))
"""Threads for questions; each question is embedded on one core."""


def problem(folder: str) -> str | None:
    """Load the model to find out why it cannot be loaded. Return the reason as the end of a sentence, or None."""
    try:
        LocalEmbedder(Path(folder))
    except LocalModelError as error:
        return str(error)
    return None


class LocalEmbedder:
    """A loaded model. Threads and event loops may share it; do not use it across a fork."""

    batch = BATCH

    def __init__(self, folder: Path) -> None:
        """Load the model in `folder`, in some tenths of a second. Raise `LocalModelError` if that fails."""
        require_packages()
        files = files_of(folder)
        try:
            self.model = files.name
            self._model = _Model(files)
            self.dimensions = len(self._model.vector("What was that?")) // 4
        except Exception as error:  # noqa: BLE001  # two libraries may raise anything for broken files
            said = " ".join(str(error).split())[:200].rstrip(".") or type(error).__name__
            raise LocalModelError(f"names {folder}, where no model can be loaded: {said}") from None
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="embed")

    async def embed(self, texts: Sequence[str], *, timeout: float) -> Embedded:
        """Return the vectors of `texts` within `timeout` seconds, off the event loop. Raise `UpstreamError`.

        Texts that are not started by then are skipped.
        """
        loop, until = asyncio.get_running_loop(), time.monotonic() + timeout
        try:
            async with asyncio.timeout(timeout):
                return await loop.run_in_executor(self._threads, self._embedded, list(texts), until)
        except TimeoutError:
            raise _error(failures.TIMED_OUT) from None

    def embed_now(self, texts: Sequence[str], *, timeout: float) -> Embedded:
        """Embed in this thread. Raise `RuntimeError` if it has a running event loop."""
        forbid_running_loop()
        return self._embedded(texts, time.monotonic() + timeout)

    async def aclose(self) -> None:
        """Do nothing: there is no connection to close."""

    def _embedded(self, texts: Sequence[str], until: float) -> Embedded:
        made = []
        for text in texts:
            if time.monotonic() >= until:
                raise _error(failures.TIMED_OUT)
            try:
                made.append(self._model.vector(text))
            except Exception:  # noqa: BLE001  # callers handle one exception; its message may quote the text
                raise _error(failures.INVALID_RESPONSE) from None
        return Embedded(tuple(made), 0)


class _Model:
    """Tokenizer and network. It embeds one text at a time, so that a vector does not depend on the other texts."""

    def __init__(self, files: Files) -> None:
        import onnxruntime
        from tokenizers import Tokenizer

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1  # leave other cores to other work
        options.log_severity_level = 4
        self._session = onnxruntime.InferenceSession(
            str(files.model), options, providers=["CPUExecutionProvider"]
        )
        self._inputs = {one.name for one in self._session.get_inputs()}
        self._pooling = files.pooling
        self._tokenizer = Tokenizer.from_file(str(files.tokenizer))
        self._tokenizer.enable_truncation(files.most_tokens)
        self._tokenizer.no_padding()

    def vector(self, text: str) -> bytes:
        """The normalized vector of a text, as little-endian 32-bit floats."""
        import numpy

        encoded = self._tokenizer.encode(text.encode("utf-8", "replace").decode())
        given = {
            "input_ids": encoded.ids,
            "attention_mask": encoded.attention_mask,
            "token_type_ids": encoded.type_ids,
        }
        fed = {name: numpy.array([given[name]], dtype=numpy.int64) for name in self._inputs}
        found = self._pooled(self._session.run(None, fed)[0][0]).astype(numpy.float64)
        length = float(numpy.linalg.norm(found))
        if not SHORTEST < length < float("inf"):  # NaN fails this, too
            raise ValueError("it makes a vector that points nowhere")
        return (found / length).astype("<f4").tobytes()

    def _pooled(self, found: NDArray[numpy.float32]) -> NDArray[numpy.float32]:
        """Pool the vectors of the tokens into one, unless the network already does."""
        if found.ndim == 1:
            return found
        mean: NDArray[numpy.float32] = found[0] if self._pooling == "cls" else found.mean(axis=0)
        return mean


def _error(reason: ReplyError) -> UpstreamError:
    return UpstreamError(reason.code, reason.message)
