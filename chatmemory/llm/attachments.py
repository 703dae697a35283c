"""Images and files as values: which are read, their marks in text, and how their bytes go into a request. Pure.

What is known of one is stored with its message; the bytes separately, once per hash, and only for some time. In the
text of the message, which memory reads, a mark takes their place. So a prompt is the same, and has the same hash,
whether the bytes are still stored or not.
"""

from __future__ import annotations

import base64
import binascii
import io
import json
import math
import re
import secrets
import struct
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any, Final, Literal, Protocol

import imagesize

IMAGE_TYPES: Final = {"image/png": "PNG", "image/jpeg": "JPEG", "image/gif": "GIF", "image/webp": "WebP"}
"""The image types that OpenAI's models read."""
UNKNOWN_SIZE = 1024, 1024
BASE_TOKENS, TILE_TOKENS, TILE = 85, 170, 512
LONG_SIDE, SHORT_SIDE = 2048, 768
"""OpenAI's token count for an image of high detail: it is scaled down to fit `LONG_SIDE`, then its short side to
`SHORT_SIDE`, and each tile costs `TILE_TOKENS` (the guide "Images and vision"). Other models count differently.
"""
DATA_URL: Final = re.compile(
    r"data:([a-z0-9.+-]{1,127}/[a-z0-9.+-]{1,127})(?:;[^;,]{1,127}){0,4}?;base64,", re.IGNORECASE
)
"""With parameters, such as `charset`, which are left out."""
PIECE_BYTES: Final = 192 * 1024
"""Bytes of an attachment that are handled at once. A multiple of 3, so that the base64 of the pieces can be joined."""
HEAD_BYTES: Final = 256 * 1024
"""Bytes in which the size of an image is looked for: `imagesize` reads a JPEG byte by byte, to its end if need be."""


class Pieces(Protocol):
    """Bytes that are read when they are needed, in pieces of `PIECE_BYTES`; the last one may be shorter."""

    def __iter__(self) -> Iterator[bytes]: ...

    def __aiter__(self) -> AsyncIterator[bytes]: ...


@dataclass(frozen=True, slots=True)
class Attachment:
    """An image or a file of a message."""

    kind: Literal["image", "file"]
    sha256: str = ""
    """The hash of the bytes, in hexadecimal; empty for an image that is only linked."""
    url: str = ""
    """The URL of a linked image. The model's server fetches it, we never do."""
    media_type: str = ""
    name: str = ""
    """The name of a file."""
    detail: str = ""
    """The level of detail at which the model reads an image, as requested by the client."""
    width: int = 0
    height: int = 0
    """Size in pixels; 0 if unknown."""
    size: int = 0
    """Size in bytes."""
    data: bytes | None = field(default=None, compare=False, repr=False)
    """The bytes, if they are in memory."""
    pieces: Pieces | None = field(default=None, compare=False, repr=False)
    """The bytes, if they are to be read from where they are stored."""

    @property
    def mark(self) -> str:
        """The text that represents it in a message."""
        if self.kind == "file":
            return f"[file: {self.name or 'without a name'}, {_size(self.size)}]"
        if self.url:
            return f"[image: {self.url[:200]}]"
        pixels = f"{self.width}×{self.height} " if self.width else ""
        return f"[image: {pixels}{IMAGE_TYPES.get(self.media_type, self.media_type)}, {_size(self.size)}]"

    @property
    def tokens(self) -> int:
        """Estimated tokens of an image, by OpenAI's rule for its 4o models, or of a text file, by its length.

        Other files count 0: their cost is not known until it is billed.
        """
        if self.kind == "file":
            return self.size // 4 if self.media_type.startswith("text/") else 0
        if self.detail == "low":
            return BASE_TOKENS
        sides = (self.width, self.height) if self.width and self.height else UNKNOWN_SIZE
        scale = min(1.0, LONG_SIDE / max(sides))
        scaled = [side * scale for side in sides]
        scale = min(1.0, SHORT_SIDE / min(scaled))
        return BASE_TOKENS + TILE_TOKENS * math.prod(math.ceil(side * scale / TILE) for side in scaled)

    @property
    def link(self) -> str | Attachment:
        """A URL of the image or the file. The attachment itself stands for its data URL, which is written in pieces."""
        if self.url:
            return self.url
        return f"sha256:{self.sha256}" if self.data is None and self.pieces is None else self

    @property
    def chat_part(self) -> dict[str, Any]:
        """The attachment as a part of a Chat Completions message."""
        if self.kind == "file":
            return {"type": "file", "file": {"filename": self.name, "file_data": self.link}}
        detail = {"detail": self.detail} if self.detail else {}
        return {"type": "image_url", "image_url": {"url": self.link, **detail}}

    @property
    def data_url_head(self) -> str:
        """The data URL up to the base64 of the bytes."""
        return f"data:{self.media_type};base64,"

    def with_texts(self, change: Callable[[str], str]) -> Attachment:
        """Return a copy with `change` applied to its name and its link; a space that this inserts is escaped."""
        url = change(self.url)
        url = url if url == self.url else url.replace(" ", "%20")
        return replace(self, name=change(self.name), url=url)

    def to_json(self) -> dict[str, Any]:
        """All known fields except the bytes."""
        names = ("kind", "sha256", "url", "media_type", "name", "detail", "width", "height", "size")
        return {name: value for name in names if (value := getattr(self, name))}


def image_of(data: bytes, detail: str = "") -> Attachment | None:
    """The image in `data`; None if it is not one of `IMAGE_TYPES`. Its bytes say which: clients name wrong ones."""
    media_type = next((one for one in IMAGE_TYPES if re.match(_BEGINNINGS[one], data, re.DOTALL)), None)
    if media_type is None:
        return None
    try:
        sides = imagesize.get(io.BytesIO(data[:HEAD_BYTES]))
    except (ValueError, struct.error):
        sides = (0, 0)
    width, height = (max(0, int(side)) for side in sides)  # -1 if the size cannot be read
    image = Attachment("image", detail=detail, width=width, height=height)
    return replace(image, sha256=sha256(data).hexdigest(), media_type=media_type, size=len(data), data=data)


_BEGINNINGS = {
    "image/png": rb"\x89PNG\r\n\x1a\n",
    "image/jpeg": rb"\xff\xd8\xff",
    "image/gif": rb"GIF8",
    "image/webp": rb"RIFF.{4}WEBP",
}


def file_of(data: bytes, media_type: str, name: str) -> Attachment:
    """The file in `data`."""
    return Attachment("file", sha256(data).hexdigest(), "", media_type, name, size=len(data), data=data)


def read_data_url(url: str) -> tuple[str, bytes] | None:
    """The media type and the bytes of a base64 data URL; None for any other URL."""
    match = DATA_URL.match(url)
    if match is None or url.find("=", match.end(), len(url) - 2) >= 0:
        return None
    # In slices, because each of several copies of the whole would be as large as the request.
    data, step = io.BytesIO(), PIECE_BYTES // 3 * 4
    try:
        for start in range(match.end(), len(url), step):
            data.write(base64.b64decode(url[start : start + step], validate=True))
    except (binascii.Error, ValueError):
        return None
    return match[1].lower(), data.getvalue()


def slices(data: bytes) -> Iterator[bytes]:
    """`data` in pieces of `PIECE_BYTES`."""
    return (data[start : start + PIECE_BYTES] for start in range(0, len(data), PIECE_BYTES))


def json_parts(
    value: Any, *, default: Callable[[Any], Any] | None = None, **options: Any
) -> Iterator[str | Attachment]:
    """The JSON of `value` in parts: text, and between quotes each attachment whose bytes are to be written there.

    Texts come in pieces: in one, a single emoji would have every character of a history take four bytes.
    """
    found: dict[str, Attachment] = {}

    def keep(one: Any) -> Any:
        if not isinstance(one, Attachment):
            return default(one) if default else json.JSONEncoder().default(one)
        mark = secrets.token_hex(16)  # it cannot be known before, so the text does not have it
        found[f'"{mark}"'] = one
        return mark

    texts, size = list[str](), 0
    for text in json.JSONEncoder(ensure_ascii=False, default=keep, **options).iterencode(value):
        attachment = found.get(text)
        texts.append('"' if attachment else text)
        size += len(text)
        if attachment or size > PIECE_BYTES:
            yield "".join(texts)
            texts, size = [], 0
        if attachment:
            yield attachment
            texts = ['"']
    found.clear()  # the encoder's functions refer to each other, and would hold the bytes until garbage is collected
    yield "".join(texts)


def attachments_in(payload: Mapping[str, Any] | None) -> tuple[Attachment, ...]:
    """The attachments of a stored message, from its payload."""
    return tuple(Attachment(**one) for one in (payload or {}).get("attachments", ()))


def payload_of(attachments: Iterable[Attachment]) -> dict[str, Any] | None:
    """The payload that is stored with a message; None without attachments."""
    found = [one.to_json() for one in attachments]
    return {"attachments": found} if found else None


def still_marked(attachments: Iterable[Attachment], text: str) -> tuple[Attachment, ...]:
    """The attachments whose mark is still in `text`: removing a mark from a message removes the attachment."""
    kept: list[Attachment] = []
    for one in attachments:
        _, found, behind = text.partition(one.mark)
        if found:
            kept.append(one)
            text = behind
    return tuple(kept)


def _size(size: int) -> str:
    if size < 1000:
        return f"{size} B"
    return f"{size / 1000:.0f} kB" if size < 999_500 else f"{size / 1e6:.1f} MB"
