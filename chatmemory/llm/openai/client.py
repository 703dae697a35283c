"""The `ChatModel` for OpenAI and compatible servers: requests, deadlines, failures, connections.

Built from values; reads no settings. `requests` builds the bodies, `reply_reader` reads the replies; no type and no
exception of the SDK leaves this module. An upstream may do anything at any speed, and a call still ends in time:

- first byte: from the call to the first byte of the answer's body, waiting for a connection included;
- idle: silence between two reads. Any byte counts, also a ping, because reasoning models send pings while they think;
- total: ends what the others cannot, such as endless pings or occasional single bytes.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import random
import ssl
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

import httpx2
from openai import AsyncOpenAI, AsyncStream, DefaultAioHttpClient

from chatmemory.llm.openai import failures, responses
from chatmemory.llm.openai.deadlines import ReadDeadlines, pause_between_reads
from chatmemory.llm.openai.hosts import NO_KEY, OPENAI_URL
from chatmemory.llm.openai.reply_reader import ReplyReader
from chatmemory.llm.openai.requests import request_body, stops_of
from chatmemory.llm.openai.sdk_errors import NoAnswerError, no_answer, read_bounded, refuse_errors
from chatmemory.llm.openai.stream_parser import Style, Terminal
from chatmemory.llm.openai.stream_transport import StreamTransport
from chatmemory.llm.openai.sync import forbid_running_loop, run_in_private_loop
from chatmemory.llm.protocol import (
    Completion,
    Deadlines,
    Delta,
    Prompt,
    Reply,
    ReplyError,
    UpstreamError,
    Variant,
)
from chatmemory.llm.retry import pause_before_retry

logger = logging.getLogger(__name__)

MAX_ANSWER_BYTES = 8 * 1024 * 1024
SECONDS_FOR_USAGE = 2.0
"""How long a reply that has ended waits for the token counts that Chat Completions sends after the end."""
SECONDS_FOR_EOF = 0.05
"""How long a reply that is over waits for the end of the body, so that its connection can be reused."""


class OpenAIModel:
    """A `ChatModel` over the Responses API or Chat Completions. Threads and event loops may share it.

    Without a `base_url` it uses OpenAI. `terminal` is explained at `stream_parser.StreamParser`. For streams, each
    event loop has its own pool of connections, created at first use, so that a process forked later shares none.
    `aclose` closes the pool of the running loop.
    """

    def __init__(
        self,
        *,
        api_key: str,
        base_url: str | None = None,
        style: Style = "responses",
        terminal: Terminal = "strict",
    ) -> None:
        self._api_key = api_key or NO_KEY
        self._base_url = base_url or OPENAI_URL
        self._is_openai = self._base_url.rstrip("/") == OPENAI_URL
        self._style: Style = style
        self._terminal: Terminal = terminal
        self._transports: WeakKeyDictionary[asyncio.AbstractEventLoop, StreamTransport] = WeakKeyDictionary()
        self._open: set[ReplyReader] = set()
        """The replies that are being streamed."""
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
            own_tool=prompt.tool.name if prompt.tool else "",
            stops=stops_of(prompt) if self._style == "responses" else (),
        )
        failure: NoAnswerError | None = None
        self._open.add(reader)
        try:
            async with aclosing(
                self._chunks(self._body(prompt, variant, stream=True), deadlines, reader)
            ) as chunks:
                async for chunk in chunks:
                    if text := reader.feed(chunk):
                        yield Delta(text)
                        if (pause := pause_between_reads(len(self._open))) and not reader.has_ended:
                            await asyncio.sleep(pause)
        except Exception as exc:  # noqa: BLE001 - any exception of the SDK or its HTTP stack ends as a `Reply`
            if not reader.has_ended:
                failure = no_answer(exc)
                reader.fail(failure.error)
        finally:
            self._open.discard(reader)
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
            return run_in_private_loop(self._complete(prompt, variant, timeout))
        except Exception as exc:  # noqa: BLE001 - callers handle one exception; `no_answer` keeps the cause
            failure = no_answer(exc)
            _log_failure(failure.error, variant, started, failure)
            error = failure.error
            raise UpstreamError(error.code, error.message, error.retry_after) from None

    async def aclose(self) -> None:
        """Close the running loop's connections."""
        if transport := self._transports.pop(asyncio.get_running_loop(), None):
            await transport.close()

    def _body(self, prompt: Prompt, variant: Variant, *, stream: bool) -> dict[str, Any]:
        return request_body(prompt, variant, style=self._style, is_openai=self._is_openai, stream=stream)

    def _transport(self) -> StreamTransport:
        loop = asyncio.get_running_loop()
        transport = self._transports.get(loop)
        if transport is None:
            sdk = self._new_client()
            made = {**sdk.default_headers, **sdk.auth_headers}
            headers = {name: value for name, value in made.items() if isinstance(value, str)}
            url = f"{self._base_url.rstrip('/')}{self._path}"
            transport = self._transports[loop] = StreamTransport(url, headers, _tls_context())
        return transport

    @property
    def _path(self) -> str:
        return "/responses" if self._style == "responses" else "/chat/completions"

    def _new_client(self) -> AsyncOpenAI:
        # aiohttp parses answers in C: a third more streams a second than the SDK's default transport (measured).
        http = DefaultAioHttpClient(
            verify=_tls_context(), follow_redirects=False, event_hooks={"response": [refuse_errors]}
        )
        return AsyncOpenAI(
            api_key=self._api_key, base_url=self._base_url, max_retries=0, timeout=None, http_client=http
        )

    @asynccontextmanager
    async def _answering(
        self, client: AsyncOpenAI, body: dict[str, Any]
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Make one request and yield the bytes of its answer. On exit, the connection is returned or closed.

        Uses the client's `post`, because `responses.create` walks through every message again to check its type.
        """
        response: Any = await client.post(
            self._path,
            cast_to=httpx2.Response,
            body=body,
            # Compression is refused, so that a few bytes on the wire cannot become many in memory.
            options={"headers": {"Accept-Encoding": "identity"}},
            stream=True,
            stream_cls=AsyncStream[Any],
        )
        try:
            async with aclosing(response.aiter_bytes()) as chunks:
                yield chunks
        finally:
            await response.aclose()  # an iterator that was never started closes nothing

    async def _chunks(
        self, body: dict[str, Any], deadlines: Deadlines, reader: ReplyReader
    ) -> AsyncGenerator[bytes, None]:
        """Yield the bytes of a streamed answer as they arrive. Raise `TimeoutError` at a deadline."""
        patience = ReadDeadlines(deadlines)
        async with AsyncExitStack() as stack:
            stack.callback(patience.close)
            async with asyncio.timeout_at(patience.until):
                chunks = await stack.enter_async_context(self._transport().answering(body))
                chunk = await anext(chunks, b"")
            while chunk:
                yield chunk
                if reader.has_ended:
                    patience.shorten(SECONDS_FOR_EOF if reader.is_over else SECONDS_FOR_USAGE)
                chunk = await patience.read(chunks)

    async def _complete(self, prompt: Prompt, variant: Variant, seconds: float) -> Completion:
        deadline = asyncio.get_running_loop().time() + seconds
        client = self._new_client()
        try:
            async with asyncio.timeout_at(deadline):
                return _completion(await self._answer_in_shape(client, prompt, variant, deadline), variant)
        finally:
            await client.close()

    async def _answer_in_shape(
        self, client: AsyncOpenAI, prompt: Prompt, variant: Variant, deadline: float
    ) -> responses.UpstreamAnswer:
        """The answer, by the prompt's schema if the upstream supports that, otherwise by instructions only."""
        plain = replace(prompt, schema=None)
        if variant.model in self._unstructured:
            prompt = plain
        try:
            body = self._body(prompt, variant, stream=False)
            return await self._answer_with_retries(client, body, deadline)
        except NoAnswerError as failure:
            if prompt.schema is None or not _may_mean_schema(failure):
                raise
        body = self._body(plain, variant, stream=False)
        answer = await self._answer_with_retries(client, body, deadline)
        self._unstructured.add(variant.model)
        logger.info("upstream has no structured output", extra={"model": variant.model})
        return answer

    async def _answer_with_retries(
        self, client: AsyncOpenAI, body: dict[str, Any], deadline: float
    ) -> responses.UpstreamAnswer:
        tries = 0
        while True:
            tries += 1
            try:
                return await self._answer(client, body)
            except Exception as exc:  # noqa: BLE001 - classified by `no_answer`: retried or raised, never swallowed
                failure = no_answer(exc)
            remaining = deadline - asyncio.get_running_loop().time()
            jitter = random.random()  # noqa: S311 - spreads load, guards nothing
            pause = pause_before_retry(
                tries, remaining=remaining, retry_after=failure.retry_after, jitter=jitter
            )
            if pause is None or not failure.is_worth_retrying:
                raise failure
            logger.info(
                "upstream is asked again",
                extra={
                    "code": failure.error.code,
                    "upstream_code": failure.error.upstream_code or None,
                    "status": failure.status or None,
                    "tries": tries,
                    "pause": pause,
                },
            )
            await asyncio.sleep(pause)

    async def _answer(self, client: AsyncOpenAI, body: dict[str, Any]) -> responses.UpstreamAnswer:
        async with self._answering(client, body) as chunks:
            answer = responses.load_object(await read_bounded(chunks, MAX_ANSWER_BYTES, failures.TOO_LONG))
        return responses.read_responses(answer) if self._style == "responses" else responses.read_chat(answer)


@functools.cache
def _tls_context() -> ssl.SSLContext:
    """One context for all clients: reading the certificates (20 ms) takes longer than the rest of creating a client."""
    return httpx2.create_ssl_context()


def _may_mean_schema(failure: NoAnswerError) -> bool:
    """Whether a failure may mean that the server has no structured output. Servers have no common code for that."""
    return failure.status in (400, 422) and failure.error.code != "context_length_exceeded"


def _completion(answer: responses.UpstreamAnswer, variant: Variant) -> Completion:
    """The answer as a `Completion`. Cut-off and refusal are marked; any other unusual end raises `NoAnswerError`."""
    error = answer.ending.error
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


def _log_failure(error: ReplyError, variant: Variant, started: float, failure: NoAnswerError | None) -> None:
    cause = failure.__cause__ if failure else None
    extra = {
        "code": error.code,
        "reason": error.message,
        "variant": variant.name,
        "upstream_code": error.upstream_code or None,
        "status": (failure.status or None) if failure else None,
        "cause": type(cause).__name__ if cause else None,
        "duration_ms": round((time.monotonic() - started) * 1000),
    }
    logger.warning("upstream failed", extra=extra)
