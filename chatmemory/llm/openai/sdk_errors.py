"""Maps the SDK's exceptions and HTTP statuses to one exception of ours. No other module knows them."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, NoReturn

from openai import APIConnectionError, OpenAIError

from chatmemory.llm.openai import failures, responses
from chatmemory.llm.protocol import ReplyError
from chatmemory.llm.retry import retry_after_in

if TYPE_CHECKING:
    import httpx2

MAX_ERROR_BYTES = 64 * 1024


class NoAnswerError(OpenAIError):
    """No answer, and why. A subclass of `OpenAIError`, because the SDK lets those through unchanged."""

    def __init__(
        self, error: ReplyError, *, status: int = 0, retry: bool = False, after: float | None = None
    ) -> None:
        super().__init__(error.message)
        self.error = error
        self.status = status
        self.is_worth_retrying = retry
        self.retry_after = after


async def refuse_errors(response: httpx2.Response) -> None:
    """Raise for an unsuccessful status, before the SDK reads the whole body, which may be large."""
    if not response.is_success:
        await refuse_status(response.status_code, response.headers, response.aiter_bytes())


async def refuse_status(status: int, headers: Mapping[str, str], chunks: AsyncIterator[bytes]) -> NoReturn:
    """Raise for an unsuccessful status, reading at most `MAX_ERROR_BYTES` of its body."""
    try:
        body = await read_bounded(chunks, MAX_ERROR_BYTES, failures.INVALID_RESPONSE)
        error = responses.load_object(body).get("error")
    except (responses.MalformedError, NoAnswerError):
        error = None
    after = retry_after_in(headers, now=time.time())
    raise NoAnswerError(
        failures.from_status(status, error, after=after),
        status=status,
        retry=failures.is_worth_retrying(status, error),
        after=after,
    )


async def read_bounded(chunks: AsyncIterator[bytes], limit: int, too_much: ReplyError) -> bytes:
    body = bytearray()
    async for chunk in chunks:
        body += chunk
        if len(body) > limit:
            raise NoAnswerError(too_much)
    return bytes(body)


def no_answer(exc: Exception) -> NoAnswerError:
    """Return the `NoAnswerError` for any exception of a request.

    Deadlines are ours, and the SDK's are off: what it calls a timeout is a failed connection.
    """
    if isinstance(exc, NoAnswerError):
        return exc
    if isinstance(exc, TimeoutError):
        failure = NoAnswerError(failures.TIMED_OUT)
    elif isinstance(exc, responses.MalformedError):
        failure = NoAnswerError(failures.INVALID_RESPONSE, retry=True)
    elif isinstance(exc, APIConnectionError):
        failure = NoAnswerError(failures.UNREACHABLE, retry=True)
    elif isinstance(exc, OpenAIError | TypeError | UnicodeError):
        failure = NoAnswerError(failures.NOT_SENT)
    else:
        failure = NoAnswerError(failures.BROKE_OFF, retry=True)
    failure.__cause__ = exc
    return failure
