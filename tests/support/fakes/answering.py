"""Every kind of answer that is not streamed, as steps. Pure. Kinds without a body share the steps of `streaming`."""

from __future__ import annotations

import json

from tests.support.fakes.behaviours import KINDS, Behaviour, Cut, Gate, Head, Silence, Steps, Wait
from tests.support.fakes.speech import End, Speech
from tests.support.fakes.streaming import DIRTY

BODYLESS = ("silent", "raw", "drop", "status", "endless_error", "redirect", "html")
BAD_BODIES = {
    "bad_json": b'{"id": "resp_1", "output": [',
    "bad_utf8": b'{"id": "\xff\xfe"}',
    "deep_json": b"[" * 100_000,
}


def answer_steps(how: Behaviour, speech: Speech, text: str) -> Steps:
    """Yield the steps of an answer whose text is `text`."""
    if how.hold_after < 0:
        yield Gate()
    if how.delay:
        yield Wait(how.delay)
    if how.kind in BODYLESS:
        yield from KINDS[how.kind](how, speech, text)
    else:
        yield from _with_body(how, body_of(how, speech, text))


def body_of(how: Behaviour, speech: Speech, text: str) -> bytes:
    """Return the JSON of an answer, or the bad body that replaces it."""
    if how.kind in BAD_BODIES:
        return BAD_BODIES[how.kind]
    if how.kind == "huge":
        text = "x" * how.size
    if how.kind == "empty":
        text = ""
    if how.kind == "dirty":
        text = "".join(DIRTY)
    whole = speech.whole(text, _end(how), refused=how.kind == "refused")
    return json.dumps(whole).encode()


def _end(how: Behaviour) -> End:
    if how.kind in ("failed", "error_event", "error_line"):
        return End("failed", how.error)
    if how.kind == "incomplete":
        return End("incomplete", how.error or "max_output_tokens")
    return End("unsaid") if how.kind == "no_finish" else End()


def _with_body(how: Behaviour, body: bytes) -> Steps:
    yield Head("application/json")
    if how.kind == "drip":
        for byte in body:
            yield bytes([byte])
            yield Wait(how.every)
    elif how.kind == "stall":
        yield body[: how.after]
        yield Silence()
    elif how.kind == "cut":
        yield body[: how.after]
        if how.how != "eof":
            yield Cut(how.how)
    else:
        yield body
