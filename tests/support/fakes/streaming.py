"""Every kind of streamed answer, good and bad, as steps. Pure; `behaviours` explains the parameters."""

from __future__ import annotations

import json

from tests.support.fakes.behaviours import (
    KINDS,
    LOREM,
    Behaviour,
    Cut,
    Gate,
    Head,
    Paced,
    Silence,
    Steps,
    Wait,
    behaviour,
    flat,
    pieces_of,
    script,
)
from tests.support.fakes.speech import End, Speech, error_object


def stream_steps(how: Behaviour, speech: Speech, text: str) -> Steps:
    """Yield the steps of a streamed answer whose text is `text`."""
    if how.hold_after < 0:
        yield Gate()
    if how.delay:
        yield Wait(how.delay)
    yield from KINDS[how.kind](how, speech, text)


@script("normal")
def normal(how: Behaviour, speech: Speech, text: str) -> Steps:
    """A complete, correct answer."""
    yield Head()
    yield from said(how, speech, text)
    yield from speech.closing(text, End())


def said(how: Behaviour, speech: Speech, text: str, count: int | None = None) -> Steps:
    """Yield the opening and the first `count` deltas (all if None), with the gate of `hold_after` in between."""
    yield b"".join(speech.opening())
    deltas = [speech.delta(piece) for piece in pieces_of(text)[:count]]
    if how.hold_after >= 0:
        yield Paced(deltas[: how.hold_after], how.rate)
        yield Gate()
        deltas = deltas[how.hold_after :]
    yield Paced(deltas + (speech.calling() if count is None else []), how.rate)


def begun(how: Behaviour, speech: Speech, text: str) -> Steps:
    """Yield the correct beginning of an answer."""
    yield Head()
    yield from said(how, speech, text, how.after)


def spoken(how: Behaviour, text: str) -> str:
    """Return the text of the deltas before the failure."""
    return "".join(pieces_of(text)[: how.after])


@script("silent")
def silent(how: Behaviour, speech: Speech, text: str) -> Steps:
    """Takes the request and never answers."""
    yield Silence()


@script("stall")
def stall(how: Behaviour, speech: Speech, text: str) -> Steps:
    """Stops in the middle and keeps the connection open."""
    yield from begun(how, speech, text)
    yield Silence()


@script("drip")
def drip(how: Behaviour, speech: Speech, text: str) -> Steps:
    """A correct answer, one byte at a time."""
    yield Head()
    for byte in b"".join(flat(normal(how, speech, text))):
        yield bytes([byte])
        yield Wait(how.every)


@script("pings")
def pings(how: Behaviour, speech: Speech, text: str) -> Steps:
    """Some text, then only comments, forever; with `every=0` a flood of them."""
    yield from begun(how, speech, text)
    while not how.every:
        yield b": ping\n\n" * 500
    while True:
        yield b": ping\n\n"
        yield Wait(how.every)


@script("endless")
def endless(how: Behaviour, speech: Speech, text: str) -> Steps:
    """Sends text forever."""
    yield Head()
    yield b"".join(speech.opening())
    while True:
        yield Paced([speech.delta(word + " ") for word in LOREM], how.rate)


@script("huge")
def huge(how: Behaviour, speech: Speech, text: str) -> Steps:
    """`size` bytes of text in deltas of 64 KiB, then a correct end."""
    yield Head()
    yield b"".join(speech.opening())
    piece = speech.delta("x" * 65536)
    for _ in range(how.size // 65536):
        yield piece
    yield from speech.closing("", End())


@script("huge_line")
def huge_line(how: Behaviour, speech: Speech, text: str) -> Steps:
    """One event of `size` bytes that never ends."""
    yield from begun(how, speech, text)
    yield b"data: "
    for _ in range(how.size // 65536):
        yield b"x" * 65536


@script("cut")
def cut(how: Behaviour, speech: Speech, text: str) -> Steps:
    """A correct answer of which only the first `after` bytes arrive."""
    yield Head()
    body = b"".join(flat(normal(how, speech, text)))
    yield body[: how.after]
    if how.how != "eof":
        yield Cut(how.how)


@script("raw")
def raw(how: Behaviour, speech: Speech, text: str) -> Steps:
    """Exactly these bytes, `text` as Latin-1, of which the first `after` arrive; all of them with `after=-1`.

    `hold_after` counts bytes, too.
    """
    yield Head()
    body = how.text.encode("latin-1")
    body = body if how.after < 0 else body[: how.after]
    if how.hold_after >= 0:
        yield body[: how.hold_after]
        yield Gate()
    yield body[max(0, how.hold_after) :]
    if how.how != "eof":
        yield Cut(how.how)


@script("drop")
def drop(how: Behaviour, speech: Speech, text: str) -> Steps:
    """Closes the connection without an answer."""
    yield Cut(how.how if how.how == "reset" else "close")


@script("status")
def status(how: Behaviour, speech: Speech, text: str) -> Steps:
    """An HTTP error with an error object."""
    headers = (("Retry-After", how.retry_after),) if how.retry_after else ()
    yield Head("application/json", how.code, headers)
    yield json.dumps({"error": error_object(End("failed", how.error))}).encode()


@script("endless_error")
def endless_error(how: Behaviour, speech: Speech, text: str) -> Steps:
    """An HTTP error whose body does not end."""
    yield Head("application/json", how.code)
    while True:
        yield b" " * 65536


@script("redirect")
def redirect(how: Behaviour, speech: Speech, text: str) -> Steps:
    """Redirects the client."""
    yield Head("text/plain", 307, (("Location", "/v1/elsewhere"),))
    yield b"elsewhere"


@script("refused")
def refused(how: Behaviour, speech: Speech, text: str) -> Steps:
    """A refusal in words."""
    yield Head()
    yield b"".join(speech.opening())
    yield from (speech.refusal(piece) for piece in pieces_of(text))
    yield from speech.closing(text, End(), refused=True)


@script("error_event")
def error_event(how: Behaviour, speech: Speech, text: str) -> Steps:
    """An error after some deltas, then a correct end, which must not count."""
    yield from begun(how, speech, text)
    yield speech.error(End("failed", how.error))
    yield from speech.closing(spoken(how, text), End())


@script("error_line")
def error_line(how: Behaviour, speech: Speech, text: str) -> Steps:
    """An error line after some deltas, as gateways write it."""
    yield from begun(how, speech, text)
    yield speech.error_line(End("failed", how.error))


@script("failed")
def failed(how: Behaviour, speech: Speech, text: str) -> Steps:
    """`response.failed` after some deltas."""
    yield from begun(how, speech, text)
    yield from speech.closing(spoken(how, text), End("failed", how.error))


@script("incomplete")
def incomplete(how: Behaviour, speech: Speech, text: str) -> Steps:
    """Ends early and says so: `error` is `max_output_tokens` or `content_filter`."""
    yield from begun(how, speech, text)
    yield from speech.closing(spoken(how, text), End("incomplete", how.error or "max_output_tokens"))


@script("no_finish")
def no_finish(how: Behaviour, speech: Speech, text: str) -> Steps:
    """All the text and `[DONE]`, but no terminal marker."""
    yield Head()
    yield from said(how, speech, text)
    yield from speech.closing(text, End("unsaid"))


@script("stall_after_end")
def stall_after_end(how: Behaviour, speech: Speech, text: str) -> Steps:
    """Sends the terminal marker, then keeps the connection open without an end; in chat style also without usage."""
    yield Head()
    yield from said(how, speech, text)
    closing = speech.closing(text, End())
    yield from closing[:1] if speech.style == "chat" else closing
    yield Silence()


@script("bad_json")
def bad_json(how: Behaviour, speech: Speech, text: str) -> Steps:
    """One line that is not JSON, then a correct end."""
    yield from begun(how, speech, text)
    yield b'data: {"type": "response.output_text.delta", "delta": "x\n\n'
    yield from speech.closing(text, End())


@script("bad_utf8")
def bad_utf8(how: Behaviour, speech: Speech, text: str) -> Steps:
    """One delta with bytes that are not UTF-8, then a correct end."""
    yield from begun(how, speech, text)
    yield speech.delta("@@").replace(b"@@", b"\xff\xfe\xc3")
    yield from speech.closing(text, End())


@script("deep_json")
def deep_json(how: Behaviour, speech: Speech, text: str) -> Steps:
    """One event nested a hundred thousand levels deep."""
    yield from begun(how, speech, text)
    yield b"data: " + b"[" * 100_000 + b"\n\n"
    yield from speech.closing(text, End())


@script("dirty")
def dirty(how: Behaviour, speech: Speech, text: str) -> Steps:
    """NULs, a surrogate pair split over two deltas, lone surrogates: the text is `DIRTY`, cleaned it is `CLEAN`."""
    yield Head()
    yield b"".join(speech.opening())
    yield from (speech.delta(piece) for piece in DIRTY)
    yield from speech.closing("", End())


DIRTY = ["ok \0", "\0", "\ud83d", "\ude00", " a\ud800b", "\udc00", "", " end\ud83d"]
CLEAN = "ok \U0001f600 a\ufffdb\ufffd end\ufffd"


@script("unknown")
def unknown(how: Behaviour, speech: Speech, text: str) -> Steps:
    """A correct answer among unknown events, fields and comments."""
    strange = (
        b'event: response.telepathy.delta\nid: 7\nretry: 5\ndata: {"type":"response.telepathy","x":[1]}\n\n'
    )
    yield Head()
    for step in said(how, speech, text):
        yield strange + b": comment\r\n\r\nnonsense without a colon\n\n"
        yield step
    yield strange
    yield from speech.closing(text, End())


@script("html")
def html(how: Behaviour, speech: Speech, text: str) -> Steps:
    """A proxy's page with status 200."""
    yield Head("text/html")
    yield b"<!doctype html>\n<html><body>\n<h1>Welcome</h1>\n</body></html>\n"


@script("unstreamed")
def unstreamed(how: Behaviour, speech: Speech, text: str) -> Steps:
    """Ignores `stream` and answers with one JSON object."""
    yield Head("application/json")
    yield json.dumps(speech.whole(text, End())).encode()


@script("empty")
def empty(how: Behaviour, speech: Speech, text: str) -> Steps:
    """No text, properly ended."""
    yield Head()
    yield from speech.opening()
    yield from speech.closing("", End())


@script("only_at_the_end")
def only_at_the_end(how: Behaviour, speech: Speech, text: str) -> Steps:
    """No deltas, all of the text in the last event (responses style)."""
    yield Head()
    yield from speech.closing(text, End())


def wire(style: str, text: str, kind: str = "normal", **numbers: object) -> bytes:
    """Return the bytes of a whole streamed answer, for tests of parsers."""
    speech = Speech(style, "gpt-fake", "resp_1", {"input": 11, "cached": 4, "output": 7})
    return b"".join(flat(KINDS[kind](behaviour(kind, **numbers), speech, text)))
