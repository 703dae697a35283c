"""Why an upstream gave no whole answer: our codes, which clients rely on, and sentences for people.

Pure. Sentences contain a status code at most. They never repeat what the upstream wrote, which can quote users or
keys; `upstream_reason` does, for a request that it rejected as invalid.
"""

from __future__ import annotations

import re
from dataclasses import replace
from math import ceil

from chatmemory.llm.protocol import ReplyError
from chatmemory.text.cleaning import clean

TOO_LONG = ReplyError("too_long", "The reply reached its length limit and was cut off.")
REFUSED = ReplyError("refused", "The model refused to answer.")
CONTEXT_LENGTH = ReplyError("context_length_exceeded", "The conversation exceeds the model's context window.")
TIMED_OUT = ReplyError("upstream_timeout", "The model did not answer in time.")
UNREACHABLE = ReplyError("upstream_error", "The model could not be reached.")
BROKE_OFF = ReplyError("upstream_error", "The model's reply was cut off.")
INVALID_RESPONSE = ReplyError("upstream_error", "The model provider sent an invalid response.")
REPORTED = ReplyError("upstream_error", "The model reported an error and stopped.")
EMPTY_REPLY = ReplyError("upstream_error", "The model returned an empty reply.")
UNUSUAL_END = ReplyError("upstream_error", "The model stopped before the reply was complete.")
NOT_SENT = ReplyError("upstream_error", "The request to the model could not be sent.")

# Servers other than OpenAI send their own code, or only a 400, with one of these phrases (vLLM, LiteLLM, llama.cpp).
CONTEXT_CODES = {"context_length_exceeded", "exceed_context_size_error"}
CONTEXT_PHRASES = ("context window", "context length")
REFUSAL_CODES = {"content_filter", "content_policy_violation"}
NOT_WORTH_RETRYING = {"insufficient_quota", "billing_hard_limit_reached"}
RETRYABLE_STATUS = {408, 409, 429}
MAX_RETRY_AFTER = 600.0
"""Maximum seconds. Longer waits that an upstream asks for are cut, because clients would stay away."""
INVALID_STATUS = {400, 404, 413, 422}
"""Statuses with which an upstream rejects what the client sent, rather than who sends it or when."""
MAX_REASON = 500
_SECRET = re.compile(
    r"\w+://\S+|\b(?:\d{1,3}\.){3}\d{1,3}\S*|\b(?:sk|pk|rk|gsk|xai|key)[-_]\S{4,}|Bearer \S+|[\w+/=-]{32,}",
    re.IGNORECASE,
)
_CODE = re.compile(r"[A-Za-z]{1,32}(?:_[A-Za-z0-9]{1,32}){0,7}")
"""Matches `model_not_found`, `BadRequestError`; too strict for a sentence, an address or a key."""


def from_report(error: object) -> ReplyError:
    """The meaning of an upstream's `error` object: `{"code","type","message"}`, in any of its dialects."""
    return _with_code(_known(error) or REPORTED, error)


def from_status(status: int, error: object, *, after: float | None = None) -> ReplyError:
    """The meaning of an HTTP status before any answer; `error` is the error object of its body, or None.

    `after`: the seconds to wait before the next request, as the upstream asked.
    """
    known = _known(error) if status in (400, 413, 422) else None
    found = _with_code(known or ReplyError("upstream_error", _status_sentence(status)), error)
    found = replace(found, upstream_status=status, upstream_reason=_reason(status, error))
    if after is None or not is_worth_retrying(status, error):
        return found
    return replace(found, retry_after=ceil(min(max(after, 1.0), MAX_RETRY_AFTER)))


def is_worth_retrying(status: int, error: object) -> bool:
    """True if the same request may succeed a little later."""
    if not NOT_WORTH_RETRYING.isdisjoint(_codes(error)):
        return False
    return status in RETRYABLE_STATUS or status >= 500


def ended_for(reason: str) -> ReplyError:
    """The meaning of an upstream's own reason for stopping (`incomplete_details.reason`, `finish_reason`)."""
    if reason in ("max_output_tokens", "length", "max_tokens", "model_length"):
        return TOO_LONG
    return REFUSED if reason in REFUSAL_CODES else UNUSUAL_END


def _known(error: object) -> ReplyError | None:
    codes = _codes(error)
    if not CONTEXT_CODES.isdisjoint(codes):
        return CONTEXT_LENGTH
    if not REFUSAL_CODES.isdisjoint(codes):
        return REFUSED
    message = error.get("message") if isinstance(error, dict) else error
    text = message.lower() if isinstance(message, str) else ""
    return CONTEXT_LENGTH if any(phrase in text for phrase in CONTEXT_PHRASES) else None


def _codes(error: object) -> set[str]:
    if not isinstance(error, dict):
        return set()
    return {value for key in ("code", "type") if isinstance(value := error.get(key), str)}


def _with_code(found: ReplyError, error: object) -> ReplyError:
    """`found` with the upstream's own code, if that has the form of a code."""
    values = [error.get(key) for key in ("code", "type")] if isinstance(error, dict) else []
    codes = [code for code in values if isinstance(code, str) and _CODE.fullmatch(code)]
    return replace(found, upstream_code=codes[0]) if codes else found


def _reason(status: int, error: object) -> str:
    """What the upstream wrote about an invalid request, in one line, without what looks like an address or a key."""
    message = error.get("message") if isinstance(error, dict) else error
    if status not in INVALID_STATUS or not isinstance(message, str):
        return ""
    line = " ".join(clean(message[: 4 * MAX_REASON]).split())
    return _SECRET.sub("…", line)[:MAX_REASON]


def _status_sentence(status: int) -> str:
    if status == 429:
        return "The model provider is rate-limiting requests (429)."
    if status in (401, 403):
        return f"The model provider rejected the API key ({status})."
    if status >= 500:
        return f"The model provider failed ({status})."
    return f"The model provider rejected the request ({status})."
