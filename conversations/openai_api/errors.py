"""Errors in OpenAI's format: `{"error": {"message", "type", "param", "code"}}`, plus our own code and details.

Pure. What OpenAI's SDKs do with an error depends on its status, and on `x-should-retry` and `retry-after-ms`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from chatmemory.errors import InvalidRequest

INVALID: Final = "invalid_request_error"

_CODES: Final[Mapping[str, tuple[str, str | None]]] = {
    "not_authenticated": (INVALID, "invalid_api_key"),
    "invalid_credentials": (INVALID, "invalid_api_key"),
    "too_large": (INVALID, "request_too_large"),
    "chat_busy": (INVALID, "conversation_locked"),
    "rate_limited": ("requests", "rate_limit_exceeded"),
    "quota_exceeded": ("insufficient_quota", "insufficient_quota"),
    "context_length_exceeded": (INVALID, "context_length_exceeded"),
}
"""Our code → OpenAI's type and code."""
_FINAL: Final = frozenset({"quota_exceeded"})
"""Codes with status 429 that no retry within the SDK's patience resolves."""


class RequestError(InvalidRequest):
    """A request that cannot be served as it is. `param` is the dotted path of what is wrong with it."""

    def __init__(self, message: str, *, param: str | None, code: str | None = None) -> None:
        super().__init__(message)
        self.param, self.openai_code = param, code

    def body(self) -> dict[str, Any]:
        """Return the body of the response."""
        return _body(self.message, INVALID, self.param, self.openai_code, {"reason": self.code})


def require_storable(value: object, what: str, *, param: str | None, max_bytes: int) -> None:
    """Raise `RequestError` for what no database stores as JSON (a NUL, a lone surrogate, NaN) or what is too long."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        size = len(text.encode())
    except (ValueError, RecursionError):
        raise RequestError(
            f"The {what} hold what JSON text cannot.", param=param, code="invalid_value"
        ) from None
    if size > max_bytes or "\\u0000" in text.replace("\\\\", ""):
        raise RequestError(
            f"The {what} have over {max_bytes:,} bytes as JSON, or hold a NUL.",
            param=param,
            code="invalid_value",
        )


def unsupported(name: str, why: str = "is not supported here") -> RequestError:
    """Return the error for a parameter that would have no effect."""
    return RequestError(f"The parameter '{name}' {why}.", param=name, code="unsupported_parameter")


class ModelNotFound(RequestError):
    status, code = 404, "not_found"

    def __init__(self, model: str) -> None:
        super().__init__(
            f"The model `{model[:128]}` does not exist or you do not have access to it.",
            param="model",
            code="model_not_found",
        )


def openai_body(status: int, ours: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body for an error of the rest of the API; `ours` is its `{"code", "message", "details"?}`."""
    code = str(ours.get("code", "internal"))
    kind, known = _CODES.get(code, (INVALID if status < 500 else "server_error", code))
    param = next(iter(ours.get("details") or {}), None) if status == 400 else None
    beside = {"reason": code, **({"details": ours["details"]} if ours.get("details") else {})}
    return _body(str(ours.get("message", "")), kind, param, known, beside)


def retry_headers(status: int, code: str, retry_after: str | None) -> dict[str, str]:
    """Return headers that tell the SDK whether and when to retry. By default it retries after half a second."""
    if status not in (408, 409, 429) and status < 500:
        return {}
    if code in _FINAL or retry_after is None:
        return {"x-should-retry": "false"}
    return {"x-should-retry": "true", "retry-after-ms": str(int(retry_after) * 1000)}


def _body(
    message: str, kind: str, param: str | None, code: str | None, beside: Mapping[str, Any]
) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": param, "code": code, **beside}}
