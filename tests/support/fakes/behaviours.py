"""How the fake upstream behaves: a kind and its parameters, and the steps by which it answers. Pure.

A `Behaviour` can be written as a model name, `kind?number=value&…`, so that a benchmark or a variant's configuration
can choose it: `normal?deltas=200&rate=200`, `cut?after=900&how=reset`, `status?code=429&retry_after=1`. `KINDS` lists
the kinds.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any
from urllib.parse import parse_qsl

LOREM = "lorem ipsum dolor sit amet consectetur adipiscing elit sed do eiusmod tempor ut".split()


SAYS = (
    "",
    "fenced",  # the right object, in a fence after some words
    "prose",  # words instead of an object
    "wrong_types",
    "half",  # an object that breaks off, although the answer ends normally
    "vast",  # an object with a text of `size` characters
    "no_card",
)
"""What a summarizer says instead of the requested object, and a reply instead of its card."""


@dataclass(frozen=True)
class Behaviour:
    """A kind of behaviour and its parameters; each kind reads those that apply to it."""

    kind: str = "normal"
    text: str = ""
    """The text to send. Empty: `deltas` words of lorem, or an echo of the last user message."""
    deltas: int = 0
    tools: str = ""
    """Tools of the client to call as well: JSON, a list of `[id, name, arguments]`."""
    rate: float = 0.0
    """Deltas per second; 0 sends all in one write, so that they arrive together."""
    delay: float = 0.0
    """Seconds before the first byte of the answer's head."""
    after: int = 3
    """Deltas before the failure; for `cut`, bytes of the body; for `hold_after`, see there."""
    hold_after: int = -1
    """Deltas after which a closed gate holds the reply; -1 holds it before the head."""
    every: float = 0.02
    """Seconds between pings, or between the bytes of a drip."""
    size: int = 100 * 1024 * 1024
    how: str = "eof"
    """How a cut ends: `eof` (a proper end of the body), `close` (in the middle of a chunk), `reset` (RST)."""
    code: int = 500
    error: str = ""
    """The error's code: `context_length_exceeded`, `insufficient_quota`, …; for `incomplete` its reason."""
    retry_after: str = ""
    content_type: str = "text/event-stream"
    """Of `body`, whose status is `code`."""
    says: str = ""
    """How the answer is bad when an object or a card is requested: one of `SAYS`."""
    obeys: int = 0
    """1: respects the request's output limit, stop strings and JSON formats, as far as an echo can."""
    thinks: int = 0
    """Tokens of reasoning before the first word; the request's output limit may end the answer there."""
    tokens: int = 400
    """Approximate length of a summary, in tokens."""
    pattern: str = r"[A-Z]{2}-\d{4,}"
    """The pattern of codes that the summarizer keeps."""


@dataclass(frozen=True)
class Head:
    """Start an answer; the body follows in chunks."""

    content_type: str = "text/event-stream"
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Paced:
    """Send the pieces one by one, `rate` per second."""

    pieces: list[bytes]
    rate: float


@dataclass(frozen=True)
class Wait:
    """Do nothing for `seconds` seconds."""

    seconds: float


@dataclass(frozen=True)
class Silence:
    """Do nothing until the client leaves."""


@dataclass(frozen=True)
class Gate:
    """Wait while the test holds this kind of call."""


@dataclass(frozen=True)
class Cut:
    """End the connection: `close` in the middle of a chunk, `reset` with RST."""

    how: str


Step = bytes | Head | Paced | Wait | Silence | Gate | Cut
Steps = Iterator[Step]
KINDS = frozenset(
    "normal silent drop status endless_error redirect html unstreamed stall drip pings endless huge huge_line cut raw "
    "body error_event error_line failed incomplete bad_json bad_utf8 deep_json no_finish stall_after_end refused dirty "
    "unknown empty only_at_the_end".split()
)
"""What they are stands in `streaming`."""


def behaviour(spec: str | Behaviour, **numbers: object) -> Behaviour:
    """Parse `kind?number=value&…`; `numbers` take precedence. Raise `ValueError` for an unknown kind or answer."""
    if isinstance(spec, Behaviour):
        return spec
    kind, _, query = spec.partition("?")
    if kind not in KINDS:
        raise ValueError(f"no such behaviour: {kind}")
    given = dict(parse_qsl(query, strict_parsing=bool(query)))
    defaults: dict[str, Any] = {field.name: field.default for field in fields(Behaviour)}
    read: dict[str, Any] = {name: type(defaults[name])(value) for name, value in given.items()}
    made = Behaviour(**{"kind": kind, **read, **numbers})
    if made.says not in SAYS:
        raise ValueError(f"no such answer: {made.says}")
    return made


def is_behaviour(name: str) -> bool:
    """True if a model's name chooses a behaviour."""
    return name.partition("?")[0] in KINDS


def pieces_of(text: str) -> list[str]:
    """Split a text into words with their spaces."""
    return re.findall(r"[^ ]* |[^ ]+", text)


def lorem(count: int) -> str:
    """Return `count` words of lorem ipsum."""
    return " ".join(LOREM[i % len(LOREM)] for i in range(count))


def flat(steps: Steps) -> Iterator[bytes]:
    """Yield the bytes of some steps, without their timing."""
    for step in steps:
        if isinstance(step, bytes):
            yield step
        elif isinstance(step, Paced):
            yield from step.pieces
