"""Wait for the first piece of a stream before its status is sent, so that a failure before it has a status of its own.

The wait is bounded: if a model says nothing for `sse.KEEP_ALIVE_SECONDS`, the first piece is a comment.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from chatmemory.errors import ChatMemoryError
from conversations.openai_api.chat_answer import error_end
from conversations.openai_api.errors import ModelFailed, openai_body


async def begun(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Return `pieces`, of which the first has come. Raises what they raise before it; later, they end in an error."""
    first = await anext(pieces)
    return _rest(first, pieces)


async def _rest(first: bytes, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    try:
        async for piece in pieces:
            yield piece
    except ModelFailed as failed:
        yield error_end(failed.body())
    except ChatMemoryError as error:
        yield error_end(openai_body(error.status, {"code": error.code, "message": error.message}))
