"""The security headers that every answer has for browsers."""

import httpx

PAGE = {
    "default-src": "'self'",
    "script-src": "'self'",
    "style-src": "'self'",
    "img-src": "'self' data:",
    "object-src": "'none'",
    "base-uri": "'none'",
    "form-action": "'self'",
    "frame-ancestors": "'none'",
}
NO_PAGE = {"default-src": "'none'", "frame-ancestors": "'none'"}
SCRIPT = {**NO_PAGE, "script-src": "'self'"}
"""A worker is subject to the policy of its script, and imports other scripts."""


def policy_of(answer: httpx.Response) -> dict[str, str]:
    """Return the directives of an answer's only policy."""
    parts = [part.strip().partition(" ") for part in answer.headers["content-security-policy"].split(";")]
    return {name: sources for name, _, sources in parts}


def check_headers(answer: httpx.Response) -> None:
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["referrer-policy"] == "same-origin"
    assert answer.headers["cross-origin-opener-policy"] == "same-origin"
    kind = answer.headers["content-type"].partition(";")[0]
    assert policy_of(answer) == {"text/html": PAGE, "text/javascript": SCRIPT}.get(kind, NO_PAGE)
