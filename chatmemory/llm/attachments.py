"""Images and files that a user sends with a message: what is known of them without their bytes. Pure.

Their bytes are kept apart, once, by hash, and only for some time; a mark in the message's text stands for them in
whatever memory reads. So a prompt is the same, and has the same hash, whether they are at hand or not.
"""

from __future__ import annotations

import base64
import binascii
import io
import math
import re
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final, Literal

import imagesize

IMAGE_TYPES: Final = {"image/png": "PNG", "image/jpeg": "JPEG", "image/gif": "GIF", "image/webp": "WebP"}
"""What OpenAI's models read."""
UNKNOWN_IMAGE_TOKENS: Final = 765
"""Of an image whose size is not known: those of 1024 × 1024 pixels."""
BASE_TOKENS, TILE_TOKENS, TILE = 85, 170, 512
LONG_SIDE, SHORT_SIDE = 2048, 768
"""How OpenAI counts an image of high detail: it is fitted into `LONG_SIDE`, its short side to `SHORT_SIDE`, and each
tile costs (the guide "Images and vision"). Other models count otherwise."""
DATA_URL: Final = re.compile(r"data:([a-z0-9.+-]+/[a-z0-9.+-]+);base64,", re.IGNORECASE)
URL_CHARS: Final = 200
"""Of a link in a mark."""


@dataclass(frozen=True, slots=True)
class Attachment:
    """An image or a file."""

    kind: Literal["image", "file"]
    sha256: str = ""
    """Of its bytes, in hexadecimal; "" for an image that is only linked."""
    url: str = ""
    """Where a linked image is. The model's server fetches it, we never do."""
    media_type: str = ""
    name: str = ""
    """Of a file."""
    detail: str = ""
    """How closely the model is to look at an image, as the client asked."""
    width: int = 0
    height: int = 0
    """In pixels; 0: not known."""
    size: int = 0
    """In bytes."""
    data: bytes | None = field(default=None, compare=False, repr=False)
    """Its bytes, where they are at hand."""

    @property
    def mark(self) -> str:
        """What stands for it in a text."""
        if self.kind == "file":
            return f"[file: {self.name or 'without a name'}, {_size(self.size)}]"
        if self.url:
            return f"[image: {self.url[:URL_CHARS]}]"
        pixels = f"{self.width}×{self.height} " if self.width else ""
        return f"[image: {pixels}{IMAGE_TYPES.get(self.media_type, self.media_type)}, {_size(self.size)}]"

    @property
    def tokens(self) -> int:
        """About what it costs a model. What a file costs is not known before it was billed; text costs its length."""
        if self.kind == "file":
            return self.size // 4 if self.media_type.startswith("text/") else 0
        if self.detail == "low":
            return BASE_TOKENS
        if not (self.width and self.height):
            return UNKNOWN_IMAGE_TOKENS
        return image_tokens(self.width, self.height)

    @property
    def link(self) -> str:
        """The image or the file as a URL: with its bytes where they are at hand, else by their hash."""
        if self.url:
            return self.url
        if self.data is None:
            return f"sha256:{self.sha256}"
        return f"data:{self.media_type};base64,{base64.b64encode(self.data).decode('ascii')}"

    def to_json(self) -> dict[str, Any]:
        """All but the bytes, without what is not known."""
        known = {name: getattr(self, name) for name in _STORED}
        return {"kind": self.kind, **{name: value for name, value in known.items() if value}}


_STORED = ("sha256", "url", "media_type", "name", "detail", "width", "height", "size")


def image_tokens(width: int, height: int) -> int:
    """What an image of so many pixels costs in high detail, by OpenAI's rule for its 4o models."""
    shrunk = min(1.0, LONG_SIDE / max(width, height))
    width_, height_ = width * shrunk, height * shrunk
    shrunk = min(1.0, SHORT_SIDE / min(width_, height_))
    tiles = math.ceil(width_ * shrunk / TILE) * math.ceil(height_ * shrunk / TILE)
    return BASE_TOKENS + TILE_TOKENS * tiles


def image_of(data: bytes, media_type: str, detail: str = "") -> Attachment | None:
    """The image that `data` is; None if it is not one of `IMAGE_TYPES`, or not the one that it is said to be."""
    if media_type not in IMAGE_TYPES or not _begins_as(media_type, data):
        return None
    try:
        width, height = imagesize.get(io.BytesIO(data))
    except (ValueError, struct.error):
        width = height = 0
    width, height = (max(0, int(side)) for side in (width, height))  # -1 where it cannot tell
    return Attachment(
        "image", sha256(data).hexdigest(), "", media_type, "", detail, width, height, len(data), data
    )


def file_of(data: bytes, media_type: str, name: str) -> Attachment:
    """The file that `data` is."""
    return Attachment("file", sha256(data).hexdigest(), "", media_type, name, size=len(data), data=data)


def read_data_url(url: str) -> tuple[str, bytes] | None:
    """The media type and the bytes of a data URL with base64; None if it is none."""
    match = DATA_URL.match(url)
    if match is None:
        return None
    try:
        return match[1].lower(), base64.b64decode(url[match.end() :], validate=True)
    except (binascii.Error, ValueError):
        return None


def attachments_in(payload: Mapping[str, Any] | None) -> tuple[Attachment, ...]:
    """Those of a stored message, by its payload."""
    return tuple(Attachment(**one) for one in (payload or {}).get("attachments", ()))


def payload_of(attachments: Iterable[Attachment]) -> dict[str, Any] | None:
    """What is stored with a message of them; None for none."""
    found = [one.to_json() for one in attachments]
    return {"attachments": found} if found else None


def still_marked(attachments: Iterable[Attachment], text: str) -> tuple[Attachment, ...]:
    """Those whose mark stands in `text`: who takes a mark out of a message takes out what it stands for."""
    kept: list[Attachment] = []
    at = 0
    for one in attachments:
        found = text.find(one.mark, at)
        if found >= 0:
            kept.append(one)
            at = found + len(one.mark)
    return tuple(kept)


def _begins_as(media_type: str, data: bytes) -> bool:
    if media_type == "image/webp":
        return data[:4] == b"RIFF" and data[8:12] == b"WEBP"
    return data.startswith(_BEGINNINGS[media_type])


_BEGINNINGS = {"image/png": b"\x89PNG\r\n\x1a\n", "image/jpeg": b"\xff\xd8\xff", "image/gif": b"GIF8"}


def _size(size: int) -> str:
    if size < 1000:
        return f"{size} B"
    return f"{size / 1000:.0f} kB" if size < 999_500 else f"{size / 1e6:.1f} MB"
