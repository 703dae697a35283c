"""Every kind of answer, good and bad, as steps: streamed, and whole. Pure; `behaviours` explains the parameters."""

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
)
from tests.support.fakes.speech import End, Speech, error_object

DIRTY = ["ok \0", "\0", "\ud83d", "\ude00", " a\ud800b", "\udc00", "", " end\ud83d"]
CLEAN = "ok \U0001f600 a\ufffdb\ufffd end\ufffd"
PART = "\x1f"
STRANGE = b'event: response.telepathy.delta\nid: 7\nretry: 5\ndata: {"type":"response.telepathy","x":[1]}\n\n'


def stream_steps(how: Behaviour, speech: Speech, text: str) -> Steps:
    """Yield the steps of a streamed answer whose text is `text`."""
    if how.hold_after < 0:
        yield Gate()
    if how.delay:
        yield Wait(how.delay)
    group = next(steps for kinds, steps in GROUPS if how.kind in kinds)
    yield from group(how, speech, text)


def answer_steps(how: Behaviour, speech: Speech, text: str) -> Steps:
    """Yield the steps of an answer that is not streamed. Kinds that have no answer are the same in both."""
    if how.kind in UNANSWERED or how.kind in ("raw", "body"):
        yield from stream_steps(how, speech, text)
        return
    if how.hold_after < 0:
        yield Gate()
    if how.delay:
        yield Wait(how.delay)
    yield Head("application/json")
    body = _whole(how, speech, text)
    match how.kind:
        case "drip":
            for byte in body:
                yield bytes([byte])
                yield Wait(how.every)
        case "stall":
            yield body[: how.after]
            yield Silence()
        case "cut":
            yield body[: how.after]
            if how.how != "eof":
                yield Cut(how.how)
        case _:
            yield body


def wire(style: str, text: str, kind: str = "normal", **numbers: object) -> bytes:
    """Return the bytes of a whole streamed answer, for tests of parsers."""
    speech = Speech(style, "gpt-fake", "resp_1", {"input": 11, "cached": 4, "output": 7})
    return b"".join(flat(stream_steps(behaviour(kind, **numbers), speech, text)))


def _whole(how: Behaviour, speech: Speech, text: str) -> bytes:
    """Return the JSON of an answer, or the bad body that replaces it."""
    end = End()
    match how.kind:
        case "bad_json":
            return b'{"id": "resp_1", "output": ['
        case "bad_utf8":
            return b'{"id": "\xff\xfe"}'
        case "deep_json":
            return b"[" * 100_000
        case "huge":
            text = "x" * how.size
        case "empty":
            text = ""
        case "dirty":
            text = "".join(DIRTY)
        case "failed" | "error_event" | "error_line":
            end = End("failed", how.error)
        case "incomplete":
            end = End("incomplete", how.error or "max_output_tokens")
        case "no_finish":
            end = End("unsaid")
    return json.dumps(speech.whole(text, end, refused=how.kind == "refused")).encode()


def _said(how: Behaviour, speech: Speech, text: str, count: int | None = None) -> Steps:
    """Yield the opening and the first `count` deltas (all if None), with the gate of `hold_after` in between."""
    yield Head()
    yield b"".join(speech.opening())
    deltas = [speech.delta(piece) for piece in pieces_of(text)[:count]]
    if how.hold_after >= 0:
        yield Paced(deltas[: how.hold_after], how.rate)
        yield Gate()
        deltas = deltas[how.hold_after :]
    yield Paced(deltas + (speech.calling() if count is None else []), how.rate)


def _unanswered(how: Behaviour, speech: Speech, text: str) -> Steps:
    """Yield the steps of what is no answer."""
    match how.kind:
        case "silent":  # takes the request and never answers
            yield Silence()
        case "drop":  # closes the connection
            yield Cut(how.how if how.how == "reset" else "close")
        case "status":  # an HTTP error with an error object
            headers = (("Retry-After", how.retry_after),) if how.retry_after else ()
            yield Head("application/json", how.code, headers)
            yield json.dumps({"error": error_object(End("failed", how.error))}).encode()
        case "endless_error":  # an HTTP error whose body does not end
            yield Head("application/json", how.code)
            while True:
                yield b" " * 65536
        case "redirect":
            yield Head("text/plain", 307, (("Location", "/v1/elsewhere"),))
            yield b"elsewhere"
        case "html":  # a proxy's page with status 200
            yield Head("text/html")
            yield b"<!doctype html>\n<html><body>\n<h1>Welcome</h1>\n</body></html>\n"
        case "unstreamed":  # ignores `stream` and answers with one JSON object
            yield Head("application/json")
            yield json.dumps(speech.whole(text, End())).encode()


def _broken_off(how: Behaviour, speech: Speech, text: str) -> Steps:  # noqa: C901  # a flat list
    """Yield the steps of bytes that stop, drip, or never end."""
    match how.kind:
        case "stall":  # stops in the middle and keeps the connection open
            yield from _said(how, speech, text, how.after)
            yield Silence()
        case "drip":  # a correct answer, one byte at a time
            yield Head()
            for byte in b"".join(flat(_answered(how, speech, text))):
                yield bytes([byte])
                yield Wait(how.every)
        case "pings":  # some text, then only comments, forever; with `every=0` a flood of them
            yield from _said(how, speech, text, how.after)
            while True:
                yield b": ping\n\n" * (1 if how.every else 500)
                if how.every:
                    yield Wait(how.every)
        case "endless":  # sends text forever
            yield from _said(how, speech, text, 0)
            while True:
                yield Paced([speech.delta(word + " ") for word in LOREM], how.rate)
        case "huge":  # `size` bytes of text in deltas of 64 KiB, then a correct end
            yield from _said(how, speech, text, 0)
            piece = speech.delta("x" * 65536)
            for _ in range(how.size // 65536):
                yield piece
            yield from speech.closing("", End())
        case "huge_line":  # one event of `size` bytes that never ends
            yield from _said(how, speech, text, how.after)
            yield b"data: "
            for _ in range(how.size // 65536):
                yield b"x" * 65536
        case "body":  # this `text`, in as many writes as `PART` makes of it
            headers = (("Retry-After", how.retry_after),) if how.retry_after else ()
            yield Head(how.content_type, how.code, headers)
            for part in how.text.split(PART):
                yield part.encode()
                yield Wait(0.002)
        case "cut" | "raw":  # the first `after` bytes of a correct answer, or of this `text` in Latin-1
            is_raw = how.kind == "raw"
            body = how.text.encode("latin-1") if is_raw else b"".join(flat(_answered(how, speech, text)))
            body = body if is_raw and how.after < 0 else body[: how.after]
            yield Head()
            if is_raw and how.hold_after >= 0:
                yield body[: how.hold_after]
                yield Gate()
                body = body[how.hold_after :]
            yield body
            if how.how != "eof":
                yield Cut(how.how)


def _ended_badly(how: Behaviour, speech: Speech, text: str) -> Steps:
    """Yield the steps of some deltas, then something bad, and usually an end, which must not count."""
    yield from _said(how, speech, text, how.after)
    spoken = "".join(pieces_of(text)[: how.after])
    match how.kind:
        case "error_event":
            yield speech.error(End("failed", how.error))
            yield from speech.closing(spoken, End())
        case "error_line":  # as gateways write it
            yield speech.error_line(End("failed", how.error))
        case "failed":  # `response.failed`
            yield from speech.closing(spoken, End("failed", how.error))
        case "incomplete":  # ends early and says so: `error` is `max_output_tokens` or `content_filter`
            yield from speech.closing(spoken, End("incomplete", how.error or "max_output_tokens"))
        case "bad_json":
            yield b'data: {"type": "response.output_text.delta", "delta": "x\n\n'
            yield from speech.closing(text, End())
        case "bad_utf8":
            yield speech.delta("@@").replace(b"@@", b"\xff\xfe\xc3")
            yield from speech.closing(text, End())
        case "deep_json":  # an event nested a hundred thousand levels deep
            yield b"data: " + b"[" * 100_000 + b"\n\n"
            yield from speech.closing(text, End())


def _answered(how: Behaviour, speech: Speech, text: str) -> Steps:  # a flat list
    """Yield the steps of answers that are said to their end."""
    closing = speech.closing
    match how.kind:
        case "no_finish":  # all the text and `[DONE]`, but no terminal marker
            yield from _said(how, speech, text)
            yield from closing(text, End("unsaid"))
        case "stall_after_end":  # the connection stays open; in chat style without usage
            yield from _said(how, speech, text)
            yield from closing(text, End())[: 1 if speech.style == "chat" else None]
            yield Silence()
        case "refused":  # in words
            yield from _said(how, speech, "", 0)
            yield from (speech.refusal(piece) for piece in pieces_of(text))
            yield from closing(text, End(), refused=True)
        case "dirty":  # NULs, a surrogate pair over two deltas, lone surrogates: it becomes `CLEAN`
            yield from _said(how, speech, "", 0)
            yield from (speech.delta(piece) for piece in DIRTY)
            yield from closing("", End())
        case "unknown":  # among unknown events, fields and comments
            for step in _said(how, speech, text):
                yield step
                yield STRANGE + b": comment\r\n\r\nnonsense without a colon\n\n"
            yield from closing(text, End())
        case "empty":  # no text, properly ended
            yield from _said(how, speech, "", 0)
            yield from closing("", End())
        case "only_at_the_end":  # no deltas, all of the text in the last event (responses style)
            yield Head()
            yield from closing(text, End())
        case _:
            yield from _said(how, speech, text)
            yield from closing(text, End())


UNANSWERED = ("silent", "drop", "status", "endless_error", "redirect", "html", "unstreamed")
BROKEN_OFF = ("stall", "drip", "pings", "endless", "huge", "huge_line", "cut", "raw", "body")
ENDED_BADLY = ("error_event", "error_line", "failed", "incomplete", "bad_json", "bad_utf8", "deep_json")
GROUPS = (
    (UNANSWERED, _unanswered),
    (BROKEN_OFF, _broken_off),
    (ENDED_BADLY, _ended_badly),
    (KINDS, _answered),
)
