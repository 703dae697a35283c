"""The `ChatModel` and the `Embedder` for OpenAI and compatible servers.

Built from values; reads no settings. `requests` builds the bodies, `transport` sends them, `stream` reads the replies.
An upstream may do anything at any speed, and a call still ends in time:

- first byte: from the call to the first byte of the answer's body, waiting for a connection included;
- idle: silence between two reads. Any byte counts, also a ping, because reasoning models send pings while they think;
- total: ends what the others cannot, such as endless pings or occasional single bytes.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import replace
from typing import Any

from chatmemory.llm.openai import failures, responses
from chatmemory.llm.openai.requests import is_openai_host, request_body, stops_of
from chatmemory.llm.openai.stream import ReplyReader, Style, Terminal
from chatmemory.llm.openai.transport import NoAnswerError, Server, forbid_running_loop, no_answer
from chatmemory.llm.protocol import (
    Completion,
    Deadlines,
    Delta,
    Embedded,
    Prompt,
    Reply,
    ReplyError,
    Variant,
)
from chatmemory.llm.retry import pause_before_retry

logger = logging.getLogger(__name__)

SECONDS_FOR_USAGE = 2.0
"""How long a reply that has ended waits for the token counts that Chat Completions sends after the end."""
SECONDS_FOR_EOF = 0.05
"""How long a reply that is over waits for the end of the body, so that its connection can be reused."""
READS_A_SECOND = 5000
"""Reads of all streams together, per second. The cost of a read, and of the write that follows it, hardly depends on
its size. So with many open streams each is read less often, and each read returns all that has arrived since."""
WORTHWHILE_PAUSE = 0.01
"""A shorter pause would cost more than it saves: with fewer than 50 streams, there is none."""
LONGEST_PAUSE = 0.2
SHORTEST_VECTOR = 1e-6
"""A shorter vector has no meaningful direction."""


class OpenAIModel:
    """A `ChatModel` over the Responses API or Chat Completions. Threads and event loops may share it.

    Without a `base_url` it uses OpenAI. `terminal` is explained at `stream.StreamParser`. `aclose` closes the
    connections of the running loop.
    """

    def __init__(
        self,
        *,
        api_key: str,
        base_url: str = "",
        style: Style = "responses",
        terminal: Terminal = "strict",
    ) -> None:
        self._server = Server(api_key, base_url)
        self._is_openai = is_openai_host(base_url)
        self._style: Style = style
        self._terminal: Terminal = terminal
        self._open = 0
        """How many replies are being streamed."""
        self._unstructured: set[str] = set()
        """Models that refused a request for structured output, but answered the same request without it."""

    async def stream(
        self, prompt: Prompt, variant: Variant, deadlines: Deadlines
    ) -> AsyncGenerator[Delta | Reply, None]:
        """Yield the text as it arrives, then one `Reply`. Make one request; raise only `CancelledError`.

        All text of one read is one `Delta`; with many open streams, reads are paced. Close the generator (`aclosing`)
        when leaving it early.
        """
        started = time.monotonic()
        reader = ReplyReader(
            self._style,
            terminal=self._terminal,
            max_bytes=deadlines.max_bytes,
            takes_calls=bool(prompt.tools),
            stops=stops_of(prompt) if self._style == "responses" else (),
        )
        failure: NoAnswerError | None = None
        self._open += 1
        try:
            async with aclosing(
                self._chunks(self._body(prompt, variant, stream=True), deadlines, reader)
            ) as chunks:
                async for chunk in chunks:
                    if text := reader.feed(chunk):
                        yield Delta(text)
                        if (pause := pause_between_reads(self._open)) and not reader.has_ended:
                            await asyncio.sleep(pause)
        except Exception as exc:  # noqa: BLE001 - any exception of the SDK or its HTTP stack ends as a `Reply`
            if not reader.has_ended:
                failure = no_answer(exc)
                reader.fail(failure.error)
        finally:
            self._open -= 1
        if text := reader.finish():
            yield Delta(text)
        reply = reader.reply(model=variant.model)
        if reply.error:
            _log_failure(reply.error, variant, started, failure)
        yield reply

    def complete(self, prompt: Prompt, variant: Variant, *, timeout: float) -> Completion:
        """Answer within `timeout` seconds, including all tries and pauses. Raise `UpstreamError`.

        For threads without a running event loop (otherwise `RuntimeError`): it runs its own, so that the total holds
        even if the upstream sends single bytes slowly, which no read timeout would end.
        """
        forbid_running_loop()
        started = time.monotonic()
        try:
            return self._server.run(self._complete(prompt, variant, timeout))
        except Exception as exc:  # noqa: BLE001 - callers handle one exception; `no_answer` keeps the cause
            failure = no_answer(exc)
            _log_failure(failure.error, variant, started, failure)
            raise failure.as_upstream_error() from None

    async def aclose(self) -> None:
        """Close the running loop's connections."""
        await self._server.aclose()

    def _body(self, prompt: Prompt, variant: Variant, *, stream: bool) -> dict[str, Any]:
        return request_body(prompt, variant, style=self._style, is_openai=self._is_openai, stream=stream)

    @property
    def _path(self) -> str:
        return "/responses" if self._style == "responses" else "/chat/completions"

    async def _chunks(
        self, body: dict[str, Any], deadlines: Deadlines, reader: ReplyReader
    ) -> AsyncGenerator[bytes, None]:
        """Yield the bytes of a streamed answer as they arrive. Raise `TimeoutError` at a deadline.

        Deadlines only cover our own reads: nothing is cancelled while the consumer works between two of them.
        """
        now = asyncio.get_running_loop().time
        last = now() + deadlines.total
        async with AsyncExitStack() as stack:
            async with asyncio.timeout_at(min(last, now() + deadlines.first_byte)):
                chunks = await stack.enter_async_context(self._server.answer(self._path, body))
                chunk = await anext(chunks, b"")
            while chunk:
                yield chunk
                if reader.has_ended:
                    last = min(last, now() + (SECONDS_FOR_EOF if reader.is_over else SECONDS_FOR_USAGE))
                if now() >= last:  # a flood of data would never let a timer fire
                    raise TimeoutError
                async with asyncio.timeout_at(min(last, now() + deadlines.idle)):
                    chunk = await anext(chunks, b"")

    async def _complete(self, prompt: Prompt, variant: Variant, seconds: float) -> Completion:
        deadline = asyncio.get_running_loop().time() + seconds
        async with asyncio.timeout_at(deadline):
            return _completion(await self._answer_in_shape(prompt, variant, deadline), variant)

    async def _answer_in_shape(
        self, prompt: Prompt, variant: Variant, deadline: float
    ) -> responses.UpstreamAnswer:
        """The answer, by the prompt's schema if the upstream supports that, otherwise by instructions only."""
        plain = replace(prompt, schema=None)
        if variant.model in self._unstructured:
            prompt = plain
        try:
            body = self._body(prompt, variant, stream=False)
            return await self._answer_with_retries(body, deadline)
        except NoAnswerError as failure:
            if prompt.schema is None or not _may_mean_schema(failure):
                raise
        body = self._body(plain, variant, stream=False)
        answer = await self._answer_with_retries(body, deadline)
        self._unstructured.add(variant.model)
        logger.info("upstream has no structured output", extra={"model": variant.model})
        return answer

    async def _answer_with_retries(self, body: dict[str, Any], deadline: float) -> responses.UpstreamAnswer:
        tries = 0
        while True:
            tries += 1
            try:
                return await self._answer(body)
            except Exception as exc:  # noqa: BLE001 - classified by `no_answer`: retried or raised, never swallowed
                failure = no_answer(exc)
            remaining = deadline - asyncio.get_running_loop().time()
            jitter = random.random()  # noqa: S311 - spreads load, guards nothing
            pause = pause_before_retry(
                tries, remaining=remaining, retry_after=failure.error.retry_after, jitter=jitter
            )
            if pause is None or not failure.is_worth_retrying:
                raise failure
            logger.info(
                "upstream is asked again",
                extra={
                    "code": failure.error.code,
                    "upstream_code": failure.error.upstream_code or None,
                    "status": failure.error.upstream_status or None,
                    "tries": tries,
                    "pause": pause,
                },
            )
            await asyncio.sleep(pause)

    async def _answer(self, body: dict[str, Any]) -> responses.UpstreamAnswer:
        answer = await self._server.whole_answer(self._path, body)
        return responses.read_responses(answer) if self._style == "responses" else responses.read_chat(answer)


class UpstreamEmbedder:
    """An `Embedder`: one model of one server. Threads and event loops may share it."""

    batch = 128

    def __init__(self, *, api_key: str, base_url: str, model: str, dimensions: int) -> None:
        self.model, self.dimensions = model, dimensions
        self._server = Server(api_key, base_url)

    async def embed(self, texts: Sequence[str], *, timeout: float) -> Embedded:
        """Return the vectors of `texts` within `timeout` seconds, with one request. Raise `UpstreamError`."""
        body = {
            "model": self.model,
            "input": [text.encode("utf-8", "replace").decode() for text in texts],
            "dimensions": self.dimensions,
            "encoding_format": "float",
        }
        try:
            async with asyncio.timeout(timeout):
                answer = await self._server.whole_answer("/embeddings", body)
            return _embedded(answer, len(texts), self.dimensions)
        except Exception as exc:  # noqa: BLE001 - callers handle one exception; `no_answer` classifies them
            raise no_answer(exc).as_upstream_error() from None

    def embed_now(self, texts: Sequence[str], *, timeout: float) -> Embedded:
        """Do the same in a thread without a running event loop (otherwise `RuntimeError`)."""
        forbid_running_loop()
        return self._server.run(self.embed(texts, timeout=timeout))

    async def aclose(self) -> None:
        """Close the running loop's connections."""
        await self._server.aclose()


def pause_between_reads(streams: int) -> float:
    """Seconds to wait between two reads of a stream, with so many open streams."""
    seconds = streams / READS_A_SECOND
    return min(seconds, LONGEST_PAUSE) if seconds >= WORTHWHILE_PAUSE else 0.0


def _may_mean_schema(failure: NoAnswerError) -> bool:
    """Whether a failure may mean that the server has no structured output. Servers have no common code for that."""
    return failure.error.upstream_status in (400, 422) and failure.error.code != "context_length_exceeded"


def _completion(answer: responses.UpstreamAnswer, variant: Variant) -> Completion:
    """The answer as a `Completion`. Cut-off and refusal are marked; any other unusual end raises `NoAnswerError`."""
    error = answer.error
    if error and error not in (failures.TOO_LONG, failures.REFUSED):
        raise NoAnswerError(error)
    return Completion(
        text=answer.text,
        model=answer.model or variant.model,
        usage=answer.usage,
        truncated=error == failures.TOO_LONG,
        refused=error == failures.REFUSED,
        response_id=answer.response_id,
    )


def _embedded(answer: dict[str, Any], number: int, dimensions: int) -> Embedded:
    """The vectors in an answer to `number` texts. Raise `MalformedError` if their number or size is wrong."""
    data = responses.objects_in(answer.get("data"))
    found = {at: one.get("embedding") for one in data if isinstance(at := one.get("index"), int)}
    if len(data) != number or found.keys() != set(range(number)):
        raise responses.MalformedError
    vectors = tuple(_unit(found[at], dimensions) for at in range(number))
    return Embedded(vectors, responses.count_in(answer.get("usage"), "total_tokens") or 0)


def _unit(numbers: object, dimensions: int) -> list[float]:
    """The vector of these numbers, with length one."""
    if not isinstance(numbers, list) or len(numbers) != dimensions:
        raise responses.MalformedError
    if not all(
        type(number) in (int, float) and abs(number) < 1e9 for number in numbers
    ):  # NaN fails this, too
        raise responses.MalformedError
    length = math.hypot(*numbers)
    if length < SHORTEST_VECTOR:
        raise responses.MalformedError
    return [number / length for number in numbers]


def _log_failure(error: ReplyError, variant: Variant, started: float, failure: NoAnswerError | None) -> None:
    cause = failure.__cause__ if failure else None
    extra = {
        "code": error.code,
        "reason": error.message,
        "variant": variant.name,
        "upstream_code": error.upstream_code or None,
        "status": error.upstream_status or None,
        "cause": type(cause).__name__ if cause else None,
        "duration_ms": round((time.monotonic() - started) * 1000),
    }
    logger.warning("upstream failed", extra=extra)
