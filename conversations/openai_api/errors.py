"""Errors in OpenAI's format: `{"error": {"message", "type", "param", "code"}}`, plus our own code and details.

Pure. What OpenAI's SDKs do with an error depends on its status, and on `x-should-retry` and `retry-after-ms`.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from pydantic import ValidationError
from pydantic_core import PydanticCustomError

from chatmemory.errors import ChatMemoryError, did_you_mean
from chatmemory.llm.protocol import ReplyError
from chatmemory.text.cleaning import clean

INVALID: Final = "invalid_request_error"

_CODES: Final[Mapping[str, tuple[str, str | None]]] = {
    "not_authenticated": (INVALID, "invalid_api_key"),
    "too_large": (INVALID, "request_too_large"),
    "chat_busy": (INVALID, "conversation_locked"),
    "rate_limited": ("requests", "rate_limit_exceeded"),
    "quota_exceeded": ("insufficient_quota", "insufficient_quota"),
    "refused": (INVALID, "content_filter"),
}
"""Our code → OpenAI's type and code."""
_STATUS: Final[Mapping[str, int]] = {
    "context_length_exceeded": 400,
    "refused": 400,
    "upstream_timeout": 504,
}
_UPSTREAM_STATUS: Final[Mapping[int, int]] = {400: 400, 413: 400, 422: 400, 404: 404, 429: 429}
"""The upstream's status → ours. All others are 502: a 401 would tell the client that its own token is wrong."""
_NO_QUOTA: Final = frozenset({"insufficient_quota", "billing_hard_limit_reached"})
MAX_RETRY_SECONDS: Final = 60
"""The longest pause that OpenAI's SDKs keep. If it is longer, they retry at once, as if there were none."""


class OpenAIError(ChatMemoryError):
    """An error for which OpenAI's API has another code than ours, or that concerns one parameter."""

    openai_code: str | None = None
    """OpenAI's code, "" for none. None: the one that stands for our own code."""
    param: str | None = None
    """The dotted path of the wrong parameter."""


class RequestError(OpenAIError):
    """A request that cannot be served as it is."""

    status, code = 400, "invalid_request"

    def __init__(self, message: str, *, param: str | None, code: str = "") -> None:
        super().__init__(clean(message))  # it may quote what the client sent
        self.param, self.openai_code = clean(param) if param else param, code


_KINDS: Final[Mapping[str, str]] = {
    "missing": "missing_required_parameter",
    "too_short": "empty_array",
    "too_long": "array_above_max_length",
    "string_too_short": "invalid_value",
    "string_too_long": "string_above_max_length",
}
"""Pydantic's type of an error → OpenAI's code. Wrong types and numbers out of range are recognized by their names."""


_EXTRA: Final = ' A variant of MODEL_VARIANTS with `"extra": true` passes it to its model.'


def invalid_field(why: str, code: str = "invalid_value", *, at: str = "") -> PydanticCustomError:
    """Return the error of the field that is being validated, or of the one `at` a path below it."""
    return PydanticCustomError("refused", "{why}", {"why": why, "code": code, "at": at})


def validation_error(error: ValidationError, known: Iterable[str]) -> RequestError:
    """Return the first error that pydantic found, as OpenAI would report it; before others one of an unknown name."""
    all_found = error.errors(include_url=False, include_input=False)
    first = all_found[-1] if all_found[-1]["type"] == "extra_forbidden" else all_found[0]
    kind, found = first["type"], first.get("ctx", {})
    loc = (f"[{one}]" if isinstance(one, int) else one[:256] for one in first["loc"])
    at = ".".join(filter(None, (*loc, found.get("at"))))
    if kind == "none_required":  # only a `file_id` must be
        return unsupported(at, "is not supported here: a file is sent with the message, as 'file_data'")
    if kind == "extra_forbidden" and len(first["loc"]) > 1:
        return unsupported(at)
    if kind == "extra_forbidden":
        hint = _EXTRA if all_found[0]["type"] == kind else ""  # with another error, it is rather misspelt
        return RequestError(
            f"Unrecognized request argument supplied: {at}.{did_you_mean(at, known)}{hint}",
            param=at,
            code="unknown_parameter",
        )
    code = found.get("code") or _KINDS.get(kind, "invalid_value")
    for name, suffix in (("ge", "below_min_value"), ("le", "above_max_value")):
        if name in found:
            code = f"{'integer' if isinstance(found[name], int) else 'decimal'}_{suffix}"
    if code == "missing_required_parameter":
        return RequestError(f"Missing required parameter: '{at}'.", param=at, code=code)
    if kind.endswith("_type"):
        code = "invalid_type"
    why = "it should be an object" if kind == "model_type" else first["msg"].replace("Input", "it")
    invalid = "Invalid type for" if code == "invalid_type" else "Invalid"
    return RequestError(f"{invalid} '{at}': {why}.", param=at, code=code)


def require_storable(value: object, what: str, *, param: str | None, max_bytes: int) -> None:
    """Raise `RequestError` for a value that is too long, or no JSON for a database (a NUL, a lone surrogate, NaN)."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        is_storable = len(text.encode()) <= max_bytes and "\\u0000" not in text.replace("\\\\", "")
    except (ValueError, RecursionError):
        is_storable = False
    if not is_storable:
        why = f"exceed {max_bytes:,} bytes as JSON, or contain a NUL, a lone surrogate or a number that JSON lacks"
        raise RequestError(f"The {what} {why}.", param=param, code="invalid_value")


def unsupported(name: str, why: str = "is not supported here") -> RequestError:
    """Return the error for a parameter that would have no effect."""
    return RequestError(f"The parameter '{name}' {why}.", param=name, code="unsupported_parameter")


class ModelFailed(OpenAIError):
    """The model gave no answer, and nothing of the response has been sent yet."""

    def __init__(self, failure: ReplyError, details: dict[str, Any] | None = None) -> None:
        super().__init__(failure.with_reason(failure.upstream_reason), details=details, retry_after=failure.retry_after)
        default = _UPSTREAM_STATUS.get(failure.upstream_status, 502)
        self.status, self.code = _STATUS.get(failure.code, default), failure.code
        has_no_quota = failure.upstream_code in _NO_QUOTA
        if self.status == 429:
            self.openai_code = "quota_exceeded" if has_no_quota else "rate_limited"
        elif self.status < 500 and failure.code == "upstream_error":
            self.openai_code = failure.upstream_code
        upstream = failure.upstream_status
        may_pass = upstream in (0, 408, 409, 429) or upstream >= 500
        self.is_left_to_sdk = may_pass and not has_no_quota and failure.code not in _STATUS
        """Whether the SDK may judge for itself if it tries again, unless the upstream said when."""


class ModelNotFound(RequestError):
    status, code = 404, "not_found"

    def __init__(self, model: str, names: Iterable[str]) -> None:
        listed = ", ".join(f"`{name}`" for name in names)
        super().__init__(
            f"The model `{model[:128]}` does not exist here. Models: {listed}.",
            param="model",
            code="model_not_found",
        )


def openai_body(status: int, ours: Mapping[str, Any], error: Exception | None = None) -> dict[str, Any]:
    """Return the body for an error, which in our own format is `{"code", "message", "details"?}`."""
    reason, details = ours["code"], ours.get("details") or {}
    code, param = reason, next(iter(details), None) if status == 400 else None
    if isinstance(error, OpenAIError):
        code, param = reason if error.openai_code is None else error.openai_code, error.param
    kind, openai_code = _CODES.get(code, (INVALID if status < 500 else "server_error", code or None))
    body = {"message": ours["message"], "type": kind, "param": param, "code": openai_code, "reason": reason}
    return {"error": body | ({"details": details} if details else {})}


def body_of(error: ChatMemoryError) -> dict[str, Any]:
    """Return the body for an error of ours that is no response of its own."""
    ours = {"code": error.code, "message": error.message, "details": error.details}
    return openai_body(error.status, ours, error)


def retry_headers(status: int, error: Exception, code: str, retry_after: str | None) -> dict[str, str]:
    """Return headers that tell the SDK whether and when to retry. By default it retries after half a second."""
    is_left = isinstance(error, ModelFailed) and error.is_left_to_sdk and retry_after is None
    if is_left or (status not in (408, 409, 429) and status < 500):
        return {}
    if code == "quota_exceeded" or retry_after is None or int(retry_after) > MAX_RETRY_SECONDS:
        return {"x-should-retry": "false"}
    return {"x-should-retry": "true", "retry-after-ms": str(int(retry_after) * 1000)}
