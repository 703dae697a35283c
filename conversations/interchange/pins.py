"""Pins in our own format, in and out. Messages are named by `seq`, their number in the chat from 1."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from conversations.interchange.fields import count_field, place_field, text_field, time_field
from conversations.interchange.values import FormatError
from memory.pins.section import ImportedPin

KINDS = ("instruction", "preference", "identity", "remember", "pinned")
BY = ("user", "staff", "rule", "summarizer")
MAX_PINS = 100_000
"""Maximum number of pins in the file of one chat; no export has more."""


def pin_fields(pin: ImportedPin, time: Callable[..., str | None]) -> dict[str, object]:
    """Return one pin as JSON values; `time` formats a time."""
    return {
        "text": pin.text,
        "kind": pin.kind,
        "by": pin.by,
        "message": None if pin.message is None else pin.message + 1,
        "seq": pin.seq,
        "start": pin.start,
        "created_at": time(pin.created_at),
        "ended_at": time(pin.ended_at),
        "ended_by": None if pin.ended_by is None else pin.ended_by + 1,
    }


def read_pins(chat: Mapping[str, object], messages: int) -> tuple[ImportedPin, ...] | None:
    """Read the pins of a chat that has this many messages; None if the file has no pins. Raises `FormatError`."""
    value = chat.get("pins")
    if value is None:
        return None
    if not isinstance(value, list) or len(value) > MAX_PINS:
        raise FormatError("pins is not a list of pins")
    return tuple(_pin_at(number, raw, messages) for number, raw in enumerate(value, start=1))


def _pin_at(number: int, raw: object, messages: int) -> ImportedPin:
    if not isinstance(raw, dict):
        raise FormatError(f"pin {number}: it is not an object")
    try:
        return _pin(raw, messages)
    except FormatError as exc:
        raise FormatError(f"pin {number}: {exc}") from None


def _pin(raw: dict[str, object], messages: int) -> ImportedPin:
    if not (text := text_field(raw, "text")).strip():
        raise FormatError("it has no text")
    return ImportedPin(
        text=text,
        kind=_one_of(raw, "kind", KINDS, "pinned"),
        by=_one_of(raw, "by", BY, "user"),
        message=_index(raw, "message", messages),
        seq=count_field(raw, "seq"),
        start=count_field(raw, "start"),
        created_at=time_field(raw, "created_at"),
        ended_at=time_field(raw, "ended_at"),
        ended_by=_index(raw, "ended_by", messages),
    )


def _one_of(raw: dict[str, object], name: str, known: tuple[str, ...], default: str) -> str:
    value = text_field(raw, name) or default
    if value not in known:
        raise FormatError(f"{name} is none of {', '.join(known)}")
    return value


def _index(raw: dict[str, object], name: str, messages: int) -> int | None:
    place = place_field(raw, name)
    if place is not None and place > messages:
        raise FormatError(f"{name} is the number of no message of the chat")
    return None if place is None else place - 1
