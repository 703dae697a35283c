"""Images and files in files of conversations: parts of OpenAI's messages, and our own format with their bytes."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from typing import Any, Literal, cast

from chatmemory.llm.attachments import Attachment, file_of, image_of, read_data_url
from conversations.interchange.values import FormatError

TEXTS = ("sha256", "url", "media_type", "name", "detail", "data")
NUMBERS = ("width", "height", "size")


def attachment_of_part(part: Mapping[str, object]) -> Attachment | None:
    """Return the image or file in a part of an OpenAI message; None for any other part."""
    kind = part.get("type")
    value = part.get(str(kind))
    if not isinstance(value, dict):
        return None
    if kind == "image_url":
        url, detail = value.get("url"), value.get("detail")
        return _image(url, detail if isinstance(detail, str) else "") if isinstance(url, str) else None
    found = read_data_url(str(value.get("file_data") or "")) if kind == "file" else None
    return file_of(found[1], found[0], str(value.get("filename") or "")) if found else None


def _image(url: str, detail: str) -> Attachment | None:
    if url.startswith(("https://", "http://")):
        return Attachment("image", url=url, detail=detail)
    found = read_data_url(url)
    return image_of(found[1], found[0], detail) if found else None


def read_attachments(raw: Mapping[str, object]) -> tuple[Attachment, ...]:
    """Return the attachments of a message in our own format. Raises `FormatError`."""
    found = raw.get("attachments")
    if found is None:
        return ()
    if not isinstance(found, list):
        raise FormatError("attachments is not a list")
    return tuple(_own(one) for one in found)


def attachment_fields(attachment: Attachment) -> dict[str, Any]:
    """Return an image or a file in our own format, with its bytes as base64 if they are known.

    Bytes that are still to be read are represented by the attachment itself: see `write.json_text`.
    """
    if attachment.pieces is not None:
        return {**attachment.to_json(), "data": attachment}
    data = attachment.data
    return {
        **attachment.to_json(),
        **({} if data is None else {"data": base64.b64encode(data).decode("ascii")}),
    }


def _own(value: object) -> Attachment:
    if not isinstance(value, dict) or value.get("kind") not in ("image", "file"):
        raise FormatError("an attachment is neither an image nor a file")
    told = {name: one for name, one in value.items() if name != "kind"}
    wrong = told.keys() - {*TEXTS, *NUMBERS}
    wrong |= {name for name in TEXTS if not isinstance(told.get(name, ""), str)}
    wrong |= {name for name in NUMBERS if type(told.get(name, 0)) is not int or told.get(name, 0) < 0}
    if wrong:
        raise FormatError(f"{min(wrong)[:40]} is not what an attachment has")
    kind = cast('Literal["image", "file"]', value["kind"])
    encoded = told.pop("data", None)
    made = Attachment(kind, **told)
    if encoded is None:
        return made
    try:
        data = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        raise FormatError("the base64 of an attachment is broken") from None
    if sha256(data).hexdigest() != made.sha256 or len(data) != made.size:
        raise FormatError("the bytes of an attachment are not those that it names")
    return replace(made, data=data)
