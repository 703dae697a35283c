"""Good answers of an upstream with an odd value in one field, for every field and every odd value. Pure."""

import copy
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.support.fakes.behaviours import Behaviour
from tests.support.fakes.speech import End, Speech

Path = tuple[str | int, ...]

SAID = "Ada is in Berlin."
PIECES = ("Ada ", "is in ", "Berlin.")
CODE = "model-7b"
USAGE = {"input": 11, "cached": 4, "output": 7}

TOLD = (
    *("model", "id", "created", "created_at", "system_fingerprint", "sequence_number"),
    *("input_tokens", "prompt_tokens", "cached_tokens", "output_tokens", "completion_tokens", "total_tokens"),
)
"""Fields that describe an answer and are not part of it. The reply is complete whatever their values are."""

ODD: dict[str, Any] = {
    "null": None,
    "true": True,
    "negative": -5,
    "huge": 2**64 - 1,  # too large for any column, although every JSON reader accepts it as an integer
    "over a column": 2**31,
    "float": 1.5,
    "not a number": float("nan"),
    "infinite": float("inf"),
    "digits": "12",
    "empty": "",
    "long": "m" * 400,
    "very long": "m" * 100_000,
    "path": "/root/.cache/huggingface/hub/" + "models--someone--something/" * 8 + "model-Q4_K_M.gguf",
    "nul": "a\0b",
    "surrogate": "a\ud800b",
    "escape": "\x1b[2Ja\u202eb\r\nc",
    "list": [],
    "list of numbers": [1, 2],
    "object": {},
    "objects": {"a": {"b": [{"c": None}]}},
}


@dataclass(frozen=True)
class Odd:
    """An answer with an odd value in one place."""

    field: str
    value: str
    body: bytes

    @property
    def behaviour(self) -> Behaviour:
        """The behaviour by which the fake sends it, for any request."""
        return Behaviour("raw", text=self.body.decode("latin-1"), after=-1)


def odd_streams(style: str) -> Iterator[Odd]:
    """Yield streams with an odd value in one place of one event."""
    events = [_data(event) for event in _stream(style)]
    for at, event in enumerate(events):
        for path in places(event):
            for name, value in ODD.items():
                sent = [*events[:at], changed(event, path, value), *events[at + 1 :]]
                yield Odd(_name(path), name, b"".join(map(_event, sent)))


def odd_labels(style: str) -> Iterator[Odd]:
    """Yield streams in which all descriptive fields (`TOLD`) have the same odd value, in every event."""
    events = [_data(event) for event in _stream(style)]
    for name, value in ODD.items():
        yield Odd("all that is told", name, b"".join(_event(_retold(event, value)) for event in events))


def odd_answers(style: str, text: str) -> Iterator[Odd]:
    """Yield unstreamed answers with the text `text` and an odd value in one place."""
    whole = _speech(style).whole(text, End())
    for path in places(whole):
        for name, value in ODD.items():
            yield Odd(_name(path), name, json.dumps(changed(whole, path, value)).encode())


def odd_objects(right: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what is odd, and a summarizer's object as JSON, right except for an odd value in that place."""
    for path in places(right):
        for name, value in ODD.items():
            yield f"{_name(path)}: {name}", json.dumps(changed(right, path, value))


def _speech(style: str) -> Speech:
    return Speech(style, CODE, "resp_1", dict(USAGE))


def _stream(style: str) -> list[bytes]:
    speech = _speech(style)
    return [*speech.opening(), *map(speech.delta, PIECES), *speech.closing(SAID, End())]


def _data(event: bytes) -> Any:
    """Return the parsed JSON of an event, or the bytes themselves if it is not JSON (`[DONE]`)."""
    _, _, data = event.rpartition(b"data: ")
    return json.loads(data) if data.startswith(b"{") else event


def _event(data: Any) -> bytes:
    return data if isinstance(data, bytes) else b"data: " + json.dumps(data).encode() + b"\n\n"


def places(value: Any) -> Iterator[Path]:
    """Yield the path of every place in a JSON value, except the whole."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (key,)
        yield from ((key, *path) for path in places(inner))


def _retold(value: Any, new: Any) -> Any:
    """Return `value` with `new` in every descriptive field (`TOLD`)."""
    if isinstance(value, list):
        return [_retold(inner, new) for inner in value]
    if not isinstance(value, dict):
        return value
    return {key: new if key in TOLD else _retold(inner, new) for key, inner in value.items()}


def changed(value: Any, path: Path, new: Any) -> Any:
    """Return `value` with `new` in that place."""
    whole = copy.deepcopy(value)
    place = whole
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = new
    return whole


def _name(path: Path) -> str:
    return ".".join(map(str, path))
