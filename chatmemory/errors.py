"""Errors that are reported to API clients. `chatmemory.api.error_handler` turns them into responses."""

import difflib
from collections.abc import Iterable
from typing import Any


def did_you_mean(given: str, names: Iterable[str], likeness: float = 0.7) -> str:
    """Return a question, with a space before it, that names the most similar of `names`; "" if none is similar."""
    close = difflib.get_close_matches(given[:100], names, 1, likeness)
    return f" Did you mean {close[0]}?" if close else ""


class ChatMemoryError(Exception):
    """Base class of errors reported to clients. The message is for people, and never quotes a chat."""

    status: int = 500
    code: str = "internal"

    def __init__(self, message: str, *, details: dict[str, Any] | None = None, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.details = details
        self.retry_after = retry_after


class InvalidRequest(ChatMemoryError):
    status, code = 400, "invalid_request"


class InvalidCredentials(ChatMemoryError):
    """A wrong user name or password. It does not say which, nor whether the account exists."""

    status, code = 401, "invalid_credentials"


class NotFound(ChatMemoryError):
    status, code = 404, "not_found"


class ChatBusy(ChatMemoryError):
    status, code = 409, "chat_busy"

    def __init__(self, message: str = "A reply is being written in this chat. Wait, or cancel it.") -> None:
        super().__init__(message, retry_after=1)


class Conflict(ChatMemoryError):
    status, code = 409, "conflict"


class IdempotencyMismatch(ChatMemoryError):
    status, code = 422, "idempotency_mismatch"


class RateLimited(ChatMemoryError):
    """Too many requests for now: retry in a moment."""

    status, code = 429, "rate_limited"


class QuotaExceeded(ChatMemoryError):
    """The user's tokens for today are used up."""

    status, code = 429, "quota_exceeded"


class Unavailable(ChatMemoryError):
    status, code = 503, "unavailable"


class UpstreamFailed(ChatMemoryError):
    """The model's server sent nothing usable."""

    status, code = 502, "upstream_error"


class UpstreamTimedOut(UpstreamFailed):
    status, code = 504, "upstream_timeout"
