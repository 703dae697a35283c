"""Texts → vectors by a model in a folder: what `chatmemory.llm.openai.embeddings` asks of a server, here on the CPU.

Built from a path; reads no settings, and downloads nothing. Needs the packages of the extra `local-embeddings`, which
are imported where a model is loaded, so that nobody else pays for them.
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
"""Texts that are stored together: what takes some seconds on a slow core that others use, too."""
THREADS = max(1, min(4, os.cpu_count() or 1))
"""For questions, of which each is embedded by one core."""


def problem(folder: str) -> str | None:
    """Why no model can be loaded from `folder`, as the end of a sentence; it is loaded to know."""
    try:
        LocalEmbedder(Path(folder))
    except LocalModelError as error:
        return str(error)
    return None


class LocalEmbedder:
    """One model, loaded. Threads and event loops may share it; it is not to be taken over a fork."""

    batch = BATCH

    def __init__(self, folder: Path) -> None:
        """Load what is in `folder`: some tenths of a second. Raises `LocalModelError`."""
        require_packages()
        files = files_of(folder)
        try:
            self.model = files.name
            self._model = _Model(files)
            self.dimensions = len(self._model.vector("What was that?")) // 4
        except Exception as error:  # noqa: BLE001  # whatever two foreign libraries make of broken files
            said = " ".join(str(error).split())[:200].rstrip(".") or type(error).__name__
            raise LocalModelError(f"names {folder}, where no model can be loaded: {said}") from None
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="embed")

    async def embed(self, texts: Sequence[str], *, timeout: float) -> Embedded:
        """The vectors of `texts` within `timeout` seconds, off the event loop. Raises `UpstreamError`.

        What has not begun by then is not done at all.
        """
        loop, until = asyncio.get_running_loop(), time.monotonic() + timeout
        try:
            async with asyncio.timeout(timeout):
                return await loop.run_in_executor(self._threads, self._embedded, list(texts), until)
        except TimeoutError:
            raise _error(failures.TIMED_OUT) from None

    def embed_now(self, texts: Sequence[str], *, timeout: float) -> Embedded:
        """The same in this thread, which has no running event loop (else `RuntimeError`)."""
        forbid_running_loop()
        return self._embedded(texts, time.monotonic() + timeout)

    async def aclose(self) -> None:
        """Nothing is open."""

    def _embedded(self, texts: Sequence[str], until: float) -> Embedded:
        made = []
        for text in texts:
            if time.monotonic() >= until:
                raise _error(failures.TIMED_OUT)
            try:
                made.append(self._model.vector(text))
            except Exception:  # noqa: BLE001  # the callers know one exception; what it says may quote the text
                raise _error(failures.NONSENSE) from None
        return Embedded(tuple(made), 0)


class _Model:
    """Tokenizer and network. One text at a time: so a vector does not depend on what else is embedded with it."""

    def __init__(self, files: Files) -> None:
        import onnxruntime
        from tokenizers import Tokenizer

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1  # other cores have other work
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
        """Little-endian 32-bit floats of length one."""
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
        if not SHORTEST < length < float("inf"):  # not so for NaN
            raise ValueError("it makes a vector that points nowhere")
        return (found / length).astype("<f4").tobytes()

    def _pooled(self, found: NDArray[numpy.float32]) -> NDArray[numpy.float32]:
        """One vector of those of the tokens, unless the network itself makes one."""
        if found.ndim == 1:
            return found
        mean: NDArray[numpy.float32] = found[0] if self._pooling == "cls" else found.mean(axis=0)
        return mean


def _error(reason: ReplyError) -> UpstreamError:
    return UpstreamError(reason.code, reason.message)
