"""The `ChatModel` for OpenAI and compatible servers: a call with its time limits and retries; and the call of their
embeddings, with the check of the vectors.

Built from values; reads no settings. `requests` builds the bodies, `transport` sends them, `reading` reads the answers.
An upstream may do anything at any speed, and a call still ends in time:

- first byte: from the call to the first byte of the answer's body, waiting for a connection included;
- idle: silence between two reads. Any byte counts, also a ping, because reasoning models send pings while they think;
- total: ends what the others cannot, such as endless pings or occasional single bytes.
"""

import asyncio
import logging
import math
import random
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any, TypeVar

from chatmemory import metrics
from chatmemory.llm.openai import failures, reading
from chatmemory.llm.openai.failures import Breaker, MalformedError
from chatmemory.llm.openai.reading import ReplyReader, Style, Terminal
from chatmemory.llm.openai.requests import HINTS, is_openai_host, refused_in, request_body, stops_to_cut_at, without
from chatmemory.llm.openai.transport import Server, as_upstream_error, whole
from chatmemory.llm.protocol import (
    Completion,
    Deadlines,
    Delta,
    Embedded,
    Prompt,
    Reply,
    ReplyError,
    UpstreamError,
    Variant,
)

logger = logging.getLogger(__name__)

T = TypeVar("T")

SECONDS_FOR_USAGE = 2.0
"""How long a reply that has ended waits for the token counts that Chat Completions sends after the end."""
SECONDS_FOR_EOF = 0.05
"""How long a reply that is over waits for the end of the body, so that its connection can be reused."""
READS_A_SECOND = 5000
"""Reads of all streams together, per second. The cost of a read, and of the write that follows it, hardly depends on
its size. So with many open streams each is read less often, and each read returns all that has arrived since."""
UNPACED_STREAMS = 50
"""With so few, the pause between two reads would cost more than it saves."""
LONGEST_PAUSE = 0.2
SHORTEST_VECTOR = 1e-6
"""A shorter vector has no meaningful direction."""
PAUSES = 0.5, 1.0
"""Seconds before a background call is tried again. A retry after a lost answer can be billed twice, and no user waits
for a summary; so there are few, and none that could not end in time. Interactive calls that failed are not retried."""


class OpenAIModel:
    """A `ChatModel` over the Responses API or Chat Completions. Threads and event loops may share it.

    An empty `base_url` is OpenAI's. `terminal` is explained at `reading.ReplyReader`.
    """

    def __init__(self, api_key: str, base_url: str, style: Style, terminal: Terminal) -> None:
        self._server = Server(api_key, base_url)
        self._is_openai = is_openai_host(base_url)
        self._style: Style = style
        self._path = "/responses" if style == "responses" else "/chat/completions"
        self._terminal: Terminal = terminal
        self._open = 0
        """How many replies are being streamed."""
        self._refused: dict[str, frozenset[str]] = {}
        """What models refused, which answered the same request without it; named as in `requests`."""

    async def stream(
        self, prompt: Prompt, variant: Variant, deadlines: Deadlines
    ) -> AsyncGenerator[Delta | Reply, None]:
        """Yield the text as it arrives, then one `Reply`. Retry no failure; raise only `CancelledError`.

        All text of one read is one `Delta`; with many open streams, reads are paced. Close the generator (`aclosing`)
        when leaving it early.
        """
        started = time.monotonic()
        reader = ReplyReader(
            self._style,
            terminal=self._terminal,
            max_bytes=deadlines.max_bytes,
            takes_calls=bool(prompt.tools),
            stops=stops_to_cut_at(prompt, self._style),
        )
        cause: Exception | None = None
        self._open += 1
        try:
            now = asyncio.get_running_loop().time
            end, seconds = now() + deadlines.total, deadlines.first_byte
            last = end
            async with aclosing(self._chunks(prompt, variant, stream=True)) as chunks:
                while chunk := await _next(chunks, min(last, now() + seconds)):
                    seconds = deadlines.idle
                    if text := reader.feed(chunk):
                        yield Delta(text)
                        if self._open > UNPACED_STREAMS and not reader.has_ended:
                            await asyncio.sleep(min(self._open / READS_A_SECOND, LONGEST_PAUSE))
                    patience = SECONDS_FOR_EOF if reader.is_over else SECONDS_FOR_USAGE
                    last = min(last, now() + patience) if reader.is_settled else end
                    if now() >= last:  # a flood of data would never let a timer fire
                        raise TimeoutError
        except Exception as exc:  # noqa: BLE001 - any exception of the SDK or its HTTP stack ends as a `Reply`
            if not reader.has_ended:
                cause = exc
                reader.fail(as_upstream_error(exc).reason)
        finally:
            self._open -= 1
        if text := reader.finish():
            yield Delta(text)
        reply = reader.reply(model=variant.model)
        if reply.error:
            metrics.UPSTREAM_ERRORS.labels(failures.kind_of(reply.error), "reply").inc()
            error = failures.with_quotable_reason(reply.error, prompt)
            _log_failure(error, variant, started, cause)
            reply = replace(reply, error=error)
        yield reply

    def complete(self, prompt: Prompt, variant: Variant, *, timeout: float) -> Completion:
        """Answer within `timeout` seconds, including all tries and pauses. Raise `UpstreamError`.

        For threads without a running event loop. The call runs in the loop of all threads, so that the total holds
        even if the upstream sends single bytes slowly, which no read timeout would end.
        """
        started = time.monotonic()
        try:
            return self._server.run(self._complete(prompt, variant, timeout))
        except Exception as exc:  # noqa: BLE001 - callers handle one exception, and the log has the cause
            failure = as_upstream_error(exc)
            metrics.UPSTREAM_ERRORS.labels(failures.kind_of(failure.reason), "summary").inc()
            reason = failures.with_quotable_reason(failure.reason, prompt)
            _log_failure(reason, variant, started, exc)
            raise UpstreamError(reason, may_retry=failure.may_retry) from None

    async def _complete(self, prompt: Prompt, variant: Variant, seconds: float) -> Completion:
        deadline = asyncio.get_running_loop().time() + seconds
        async with asyncio.timeout_at(deadline):
            for pause in (*PAUSES, None):
                try:
                    answer = await whole(self._chunks(prompt, variant, stream=False))
                    return reading.read_answer(answer, self._style, self._terminal, model=variant.model)
                except Exception as exc:  # noqa: BLE001 - retried or raised, never swallowed
                    failure = as_upstream_error(exc)
                if pause is None or not failure.may_retry:
                    break
                jittered = pause * random.uniform(0.5, 1)  # noqa: S311 - spreads load, guards nothing
                seconds = max(jittered, failure.reason.retry_after or 0)
                if seconds >= deadline - asyncio.get_running_loop().time():
                    break
                metrics.UPSTREAM_RETRIES.labels(failures.kind_of(failure.reason)).inc()
                logger.info("upstream is asked again", extra={**_log_fields(failure.reason), "pause": seconds})
                await asyncio.sleep(seconds)
            raise failure

    async def _chunks(self, prompt: Prompt, variant: Variant, *, stream: bool) -> AsyncGenerator[bytes, None]:
        """Ask the server. If it refuses something, ask again without that, and remember it if that is answered."""
        body = request_body(prompt, variant, style=self._style, is_openai=self._is_openai, stream=stream)
        refused = self._refused.get(variant.model, frozenset())
        while True:
            try:
                async with aclosing(self._server.chunks(self._path, sent := without(body, refused))) as chunks:
                    async for chunk in chunks:
                        self._refused[variant.model] = refused
                        yield chunk
                return
            except Exception as exc:
                options = (refused | {name} for name in refused_in(as_upstream_error(exc).reason))
                changed = next((one for one in options if without(body, one) != sent), None)
                if changed is None:
                    raise
                refused = changed
                logger.info("upstream is asked without what it refuses", extra={"refused": sorted(refused)})


class UpstreamEmbedder:
    """An embeddings model of a server. Threads and event loops may share it.

    The product of two of its vectors is their similarity. Vectors of different models are never compared.
    """

    batch = 128
    """Maximum number of texts per call."""

    def __init__(self, api_key: str, base_url: str, model: str, dimensions: int) -> None:
        self.model, self.dimensions = model, dimensions
        self.breaker = Breaker()
        """So that no turn waits for an endpoint that is down or too slow."""
        self._server, self._is_openai = Server(api_key, base_url), is_openai_host(base_url)
        self.run = self._server.run
        """For threads without a running event loop."""

    async def embed(self, texts: Sequence[str], *, timeout: float) -> Embedded:
        """Return the vectors of `texts` within `timeout` seconds, with one request. Raise `UpstreamError`."""
        body = {
            "input": [text.encode("utf-8", "replace").decode() for text in texts],
            "dimensions": self.dimensions,
            "encoding_format": "float",
        }
        return await self._asked(
            body, timeout, lambda answer: _embedded(reading.load_object(answer), len(texts), self.dimensions)
        )

    async def pass_on(self, parameters: Mapping[str, Any], *, timeout: float) -> tuple[bytes, int]:
        """Return the server's own answer to a client's parameters, and the billed tokens. Raise `UpstreamError`."""

        def read(answer: bytes) -> tuple[bytes, int]:
            found = reading.load_object(answer)
            if len(reading.objects_in(found.get("data"))) != len(parameters["input"]):
                raise MalformedError
            return answer, reading.count_in(found.get("usage"), "total_tokens") or 0

        sent = {name: value for name, value in parameters.items() if self._is_openai or name not in HINTS}
        return await self._asked(sent, timeout, read)

    async def _asked(self, parameters: Mapping[str, Any], timeout: float, read: Callable[[bytes], T]) -> T:
        try:
            async with asyncio.timeout(timeout):
                answer = await whole(self._server.chunks("/embeddings", {"model": self.model, **parameters}))
            return read(answer)
        except Exception as exc:  # noqa: BLE001 - callers handle one exception
            failure = as_upstream_error(exc)
            metrics.UPSTREAM_ERRORS.labels(failures.kind_of(failure.reason), "embeddings").inc()
            raise failure from None


async def _next(chunks: AsyncGenerator[bytes, None], deadline: float) -> bytes:
    """The next chunk; empty at the end. Deadlines only cover our own reads, not the work of the consumer."""
    async with asyncio.timeout_at(deadline):
        return await anext(chunks, b"")


def _embedded(answer: dict[str, Any], number: int, dimensions: int) -> Embedded:
    """The vectors in an answer to `number` texts. Raise `MalformedError` if their number or size is wrong."""
    data = reading.objects_in(answer.get("data"))
    found = {at: one.get("embedding") for one in data if isinstance(at := one.get("index"), int)}
    vectors = [found.get(at) for at in range(number)]
    if len(data) != number or not all(_is_vector(vector, dimensions) for vector in vectors):
        raise MalformedError
    units = tuple([one / math.hypot(*vector) for one in vector] for vector in vectors if vector)
    return Embedded(units, reading.count_in(answer.get("usage"), "total_tokens") or 0)


def _is_vector(numbers: object, dimensions: int) -> bool:
    if not isinstance(numbers, list) or len(numbers) != dimensions:
        return False
    are_numbers = all(type(one) in (int, float) and abs(one) < 1e9 for one in numbers)  # NaN is not
    return are_numbers and math.hypot(*numbers) >= SHORTEST_VECTOR


def _log_failure(error: ReplyError, variant: Variant, started: float, exc: Exception | None) -> None:
    """`exc`: what was raised, or an `UpstreamError` caused by that."""
    cause = exc.__cause__ if isinstance(exc, UpstreamError) else exc
    extra = {
        **_log_fields(error),
        "reason": error.sentence,
        "variant": variant.name,
        "cause": type(cause).__name__ if cause else None,
        "duration_ms": round((time.monotonic() - started) * 1000),
    }
    logger.warning("upstream failed", extra=extra)


def _log_fields(error: ReplyError) -> dict[str, Any]:
    return {
        "code": error.code,
        "upstream_code": error.upstream_code or None,
        "status": error.upstream_status or None,
    }
