"""Why an upstream gave no whole answer, in our codes, which clients rely on, and whether to ask it again. Pure.

Sentences for people contain a status code at most. They never repeat what the upstream wrote, which can quote users or
keys; `upstream_reason` does, for a request that it rejected as invalid. `with_quotable_reason` takes quotations out.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from math import ceil
from typing import Any

from chatmemory.llm.protocol import Prompt, ReplyError, UpstreamError
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

# Servers send their own code, or only a sentence, under any status.
_TOO_LONG = re.compile(
    r"context[ _-]?(?:window|length|size|limit)|上下文|超长|输入.{0,20}超"
    r"|\b(?:prompt|inputs?|messages?|conversation|request)(?: (?:is|are|was|body|length|size|text|tokens?|you \w+))*:?"
    r" (?:far |much )?too (?:long|large|big)"
    r"|\b(?:prompt(?:_tokens)?|inputs?(?! validation)|messages|sequence|conversation|request length|tokens in \w+)\b"
    r".{0,80}(?:\bexceed|(?:long|larg|great)er than|(?:more|less) than (?:the )?(?:max|model)|(?:not|n't) fit)"
    r"|\bexceed\w* (?:\S+ ){0,3}(?:model \w+|inputs?|prompt|tokens?)[ -](?:tokens?|length|size|limit)"
    r"|range of input length|too many (?:input |prompt )?tokens(?! (?:processed|error))|tokens limit reached"
    r"|reduce (?:the length|the size|the prompt|the input|your (?:message|prompt|input))"
    r"|max(?:imum)?[ _](?:supported )?(?:prompt|input|model|seq(?:uence)?)[ _](?:len|token)"
    r"|\binputs?\W{1,2}(?:tokens? \+|must (?:have|be|contain) (?:less|fewer|at most|shorter))",
    re.IGNORECASE,
)
_OTHER_LIMIT = re.compile(r"\b(?:rate limit|quota|wait|per day|daily|month|monthly|credits?|queue)\b", re.IGNORECASE)
"""Matches an error about several requests, such as a rate limit, even if it advises a shorter one."""
_FILE = re.compile(r"\b(?:images?|audio|video|files?)\b", re.IGNORECASE)
_FLAGGED = re.compile(
    r"content (?:exists risk|filter|moderation|management|policy|safety)|inappropriate content|considered high risk"
    r"|\b(?:flagged|violat\w+)\b.{0,60}(?:polic|guideline|moderat|safety)|sensitive (?:content|words)|敏感|违规"
    r"|data inspection|safety system"
    r"|\b(?:input|prompt|content|messages?|request)\b.{0,20}\b(?:flagged|moderated|blocked (?:by|due|for))\b",
    re.IGNORECASE,
)
# Of Bedrock, Anthropic, Gemini and GLM, too.
REFUSAL_REASONS = set("refusal guardrail_intervened content_filtered safety recitation blocklist".split())
REFUSAL_REASONS |= {"prohibited_content", "spii", "content_filter", "sensitive"}
LENGTH_REASONS = set("length max_tokens max_output_tokens max_length model_length".split())
NOT_WORTH_RETRYING = {"insufficient_quota", "billing_hard_limit_reached", "exceeded_current_quota_error"}
RETRYABLE_STATUS = {408, 409, 429}
NO_CREDIT_STATUS = {401, 402}
"""The upstream refuses us, not the request: the key is wrong, or the account has no money left."""
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


_SENTENCE_END = re.compile(r"(?<=[.!?])\s|\n")


class MalformedError(UpstreamError):
    """The upstream sent something that violates its API."""

    def __init__(self) -> None:
        super().__init__(INVALID_RESPONSE, may_retry=True)


def from_report(error: object) -> ReplyError:
    """The meaning of an upstream's `error` object: `{"code","type","message"}`, in any of its dialects."""
    return replace(_known(error) or REPORTED, upstream_code=_code(error))


def from_status(status: int, error: object, *, after: float | None = None) -> UpstreamError:
    """The meaning of an HTTP status before any answer; `error` is the error object of its body, or None.

    `after`: the seconds to wait before the next request, as the upstream asked.
    """
    known = None if status in NO_CREDIT_STATUS else _known(error)
    may_retry = known is None and (status in RETRYABLE_STATUS or status >= 500)
    may_retry = may_retry and NOT_WORTH_RETRYING.isdisjoint(_codes(error))
    found = replace(
        known or ReplyError("upstream_error", _sentence(status)),
        retry_after=ceil(min(max(after, 1.0), MAX_RETRY_AFTER)) if after is not None and may_retry else None,
        upstream_code=_code(error),
        upstream_status=status,
        upstream_reason=_reason(error) if status in INVALID_STATUS else "",
    )
    return UpstreamError(found, may_retry=may_retry)


def is_upstreams_own(error: ReplyError | None) -> bool:
    """Whether the fault is the upstream's, so that another upstream may answer the same request."""
    if error is None:
        return False
    if status := error.upstream_status:
        return status >= 500 or status in RETRYABLE_STATUS | NO_CREDIT_STATUS
    if error == REPORTED:
        return not error.upstream_code.startswith(("invalid", "BadRequest"))
    return error in (TIMED_OUT, UNREACHABLE, BROKE_OFF, INVALID_RESPONSE)


_KINDS = {UNREACHABLE: "unreachable", BROKE_OFF: "broke_off", INVALID_RESPONSE: "invalid_response"}


def kind_of(error: ReplyError) -> str:
    """The kind of a failure, of a few, for metrics: our code, or a more exact kind than `upstream_error`."""
    if error.code != "upstream_error":
        return error.code
    status = error.upstream_status
    if status in (401, 402, 403):
        return "key_rejected"
    if status == 429:
        return "rate_limited"
    return f"status_{status // 100}xx" if status else _KINDS.get(error, "other")


def ended_for(reason: str) -> ReplyError:
    """The meaning of an upstream's own reason for stopping (`incomplete_details.reason`, `finish_reason`)."""
    if reason.lower() in LENGTH_REASONS or _TOO_LONG.search(reason):
        return TOO_LONG
    return REFUSED if reason.lower() in REFUSAL_REASONS else UNUSUAL_END


def _known(error: object) -> ReplyError | None:
    codes = [one.replace("_", " ") for one in _codes(error)]
    message = _message(error)[: 4 * MAX_REASON]
    if any(map(_FLAGGED.search, (*codes, message))):
        return REFUSED
    told = codes if _OTHER_LIMIT.search(message) else [*codes, *_SENTENCE_END.split(message)]
    is_too_long = any(_TOO_LONG.search(one) and not _FILE.search(one) for one in told)
    return CONTEXT_LENGTH if is_too_long else None


def _codes(error: object) -> list[str]:
    values = [error.get("code"), error.get("type")] if isinstance(error, dict) else []
    return [value for value in values if isinstance(value, str)]


def _code(error: object) -> str:
    """The upstream's own code, if that has the form of a code."""
    return next(filter(_CODE.fullmatch, _codes(error)), "")


def error_in(body: object) -> object:
    """The error that a body or an event tells of, where the dialects put it; None if there is none."""
    if isinstance(body, list):  # Gemini
        body = body[0] if body else None
    if not isinstance(body, dict):
        return body if isinstance(body, str) else None
    told = body.get("message") or body.get("detail")  # vLLM and Bedrock; FastAPI
    return body.get("error") or (body if told else None)


def reported_in(event: Mapping[str, Any]) -> object:
    """The error that an event, or a whole answer, reports, in OpenAI's format or any other; None if it reports none."""
    base = event.get("base_resp")
    if isinstance(base, dict) and base.get("status_code"):  # MiniMax
        return {"message": base.get("status_msg")}
    is_named = "error" in (event.get("type"), event.get("object"))
    is_told = event.get("detail") or (event.get("message") and (event.get("code") or event.get("status")))
    return event.get("error") or (event if is_named or is_told else None)


def _message(error: object) -> str:
    if isinstance(error, dict):
        raw = error["metadata"].get("raw") if isinstance(error.get("metadata"), dict) else None  # OpenRouter
        return "\n".join(filter(None, (_message(error.get("message") or error.get("detail")), _message(raw))))
    if isinstance(error, list):  # FastAPI's, one for each field
        told = ((one.get("loc"), one.get("msg")) for one in error if isinstance(one, dict))
        places = ((".".join(map(str, loc)) if isinstance(loc, list) else "", msg) for loc, msg in told)
        return "\n".join(": ".join(filter(None, one)) for one in places if isinstance(one[1], str))
    return error if isinstance(error, str) else ""


def _reason(error: object) -> str:
    """The text of the upstream, in one line, without possible addresses and keys."""
    line = " ".join(clean(_message(error)[: 4 * MAX_REASON]).split())
    return _SECRET.sub("…", line)[:MAX_REASON]


_QUOTED = re.compile(r"""(?<!\w)'[^']*(?:'(?!\w)|$)|"[^"]*(?:"|$)|`[^`]*(?:`|$)|[“«][^”»]*(?:[”»]|$)""")
COMMON_WORDS = 4
"""So many words in a row that are also in the prompt are taken for a quotation."""


def with_quotable_reason(error: ReplyError, prompt: Prompt) -> ReplyError:
    """Return the failure with its `quotable_reason`: what the upstream wrote, unless that quotes the prompt."""
    reason = _QUOTED.sub("…", error.upstream_reason)
    words = reason.split()
    texts = " ".join(" ".join(message.content for message in prompt.messages).split())
    runs = (" ".join(words[at : at + COMMON_WORDS]) for at in range(len(words) - COMMON_WORDS + 1))
    if not reason or any(run in texts for run in runs):
        return error
    return replace(error, quotable_reason=reason)


def _sentence(status: int) -> str:
    if status == 429:
        return "The model provider is rate-limiting requests (429)."
    if status in (401, 403):
        return f"The model provider rejected the API key ({status})."
    if status >= 500:
        return f"The model provider failed ({status})."
    return f"The model provider rejected the request ({status})."


def retry_after_in(headers: Mapping[str, str], body: str, *, now: float) -> float | None:
    """The seconds to wait that an answer names, in its headers or else its body. `now` is in seconds since 1970.

    A header has milliseconds, seconds, or when: a date, or seconds or milliseconds since 1970.
    """
    for name in ("retry-after-ms", "retry-after", "x-ratelimit-reset", "x-ratelimit-reset-tokens-minute"):
        unit = 0.001 if name == "retry-after-ms" else 1.0
        value = headers.get(name, "")
        with suppress(ValueError):
            seconds = float(value) * unit
            if seconds > now / 2:
                seconds = (seconds / 1000 if seconds > now * 100 else seconds) - now
            if seconds >= 0:
                return seconds
        with suppress(ValueError, OverflowError):
            return max(0.0, parsedate_to_datetime(value).timestamp() - now)
    found = _WAIT.search(body)
    spans = re.findall(_SPAN, found[2].lower()) if found else []
    unit = _SECONDS["ms" if found and found[1] else ""]
    return sum(float(number) * (_SECONDS[name] if name else unit) for number, name in spans) if spans else None


_SPAN = r"(\d{1,6}(?:\.\d{1,9})?)\s?(ms|milli|[hms]|(?=\D|$))[a-z]*\s?"
_WAIT = re.compile(
    r"(?:retry[ _-]?(?:delay|after|in)(?:_?seconds|(_?ms))?|again (?:in|after)|wait(?: for)?|available in"
    rf"|estimated_time|resets? (?:in|after))[\"': =]{{1,5}}(?:about )?((?:{_SPAN})+)",
    re.IGNORECASE,
)
_SECONDS = {"h": 3600, "m": 60, "s": 1, "": 1, "ms": 0.001, "milli": 0.001}
"""`"retryDelay": "7s"`, `retry_after_ms: 500`, `try again in 1m7.5s`."""


FAILURES = 3
"""Consecutive failures after which a server is not asked for a while."""
REST_SECONDS = 30.0


@dataclass(slots=True)
class Breaker:
    """The state of one server. Times are monotonic seconds. Threads may share it.

    After `FAILURES` consecutive failures, it allows no call for `REST_SECONDS`, and then a single one at a time.
    """

    failures: int = 0
    rests_until: float = 0.0

    def allows(self, now: float) -> bool:
        """Whether to ask now. After a rest, one caller asks for all others."""
        if now < self.rests_until:
            return False
        if self.failures >= FAILURES:
            self.rests_until = now + REST_SECONDS
        return True

    def succeeded(self) -> None:
        """Record that the server answered."""
        self.failures, self.rests_until = 0, 0.0

    def failed(self, now: float) -> bool:
        """Record a failure or timeout. Return True if the server rests from now on and did not before."""
        self.failures += 1
        if self.failures >= FAILURES:
            self.rests_until = now + REST_SECONDS
        return self.failures == FAILURES
