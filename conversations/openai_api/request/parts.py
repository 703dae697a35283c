"""The content of a message: a text, or a list of parts, some of which may be images and files. Checked here; pure.

An image or a file comes as a data URL, or an image as a link; nothing is fetched here. Each leaves a mark in the
text.
"""

from __future__ import annotations

from typing import Any

from chatmemory.llm.attachments import IMAGE_TYPES, Attachment, file_of, image_of, read_data_url
from chatmemory.text.cleaning import clean
from conversations.openai_api.errors import RequestError

MAX_ATTACHMENTS = 100
"""Maximum number of images and files in one message."""
URL_MAX_CHARS = 8192
NAME_MAX_CHARS = 255
_DETAILS = ("auto", "low", "high")


def read_content(
    at: str, content: object, *, takes_attachments: bool, max_bytes: int
) -> tuple[str, tuple[Attachment, ...]]:
    """Return the text of a message and its attachments, each of at most `max_bytes`. Raises `RequestError`."""
    if isinstance(content, str):
        return clean(content), ()
    if not isinstance(content, list):
        raise RequestError(
            f"Invalid type for '{at}': expected a string or a list of parts.", param=at, code="invalid_type"
        )
    read = [
        _part(f"{at}.[{index}]", part, takes_attachments=takes_attachments, max_bytes=max_bytes)
        for index, part in enumerate(content)
    ]
    attachments = tuple(one for one in read if isinstance(one, Attachment))
    if len(attachments) > MAX_ATTACHMENTS:
        raise RequestError(
            f"Invalid '{at}': at most {MAX_ATTACHMENTS} images and files are taken with one message.",
            param=at,
            code="array_above_max_length",
        )
    return "\n\n".join(one if isinstance(one, str) else one.mark for one in read), attachments


def required_text(name: str, value: object) -> str:
    """Return `value` if it is a string. Raises `RequestError`."""
    if not isinstance(value, str):
        raise RequestError(f"Invalid type for '{name}': expected a string.", param=name, code="invalid_type")
    return value


def unsupported_type(at: str, what: str) -> RequestError:
    """Return the error for a type that is not supported, by its name."""
    return RequestError(f"{what} are not supported here.", param=f"{at}.type", code="unsupported_value")


def _part(at: str, part: object, *, takes_attachments: bool, max_bytes: int) -> str | Attachment:
    if not isinstance(part, dict):
        raise RequestError(f"Invalid type for '{at}': expected an object.", param=at, code="invalid_type")
    kind = part.get("type")
    if kind in ("text", "refusal"):
        return clean(required_text(f"{at}.{kind}", part.get(kind)))
    if kind not in ("image_url", "file"):
        raise unsupported_type(at, f"Parts of the type {str(kind)[:64]!r}")
    if not takes_attachments:
        raise RequestError(
            "Images and files can only be sent in messages of the user.",
            param=f"{at}.type",
            code="invalid_value",
        )
    value = part.get(kind)
    if not isinstance(value, dict):
        raise RequestError(
            f"Missing required parameter: '{at}.{kind}'.",
            param=f"{at}.{kind}",
            code="missing_required_parameter",
        )
    return (_image if kind == "image_url" else _file)(f"{at}.{kind}", value, max_bytes)


def _image(at: str, value: dict[str, Any], max_bytes: int) -> Attachment:
    url = required_text(f"{at}.url", value.get("url"))
    detail = value.get("detail") or ""
    if detail not in ("", *_DETAILS):
        raise RequestError(
            f"Invalid value for '{at}.detail': supported are 'auto', 'low' and 'high'.",
            param=f"{at}.detail",
            code="invalid_value",
        )
    if url[:8].lower().startswith(("https://", "http://")):
        url = clean(url)
        if len(url) > URL_MAX_CHARS or not url.isprintable():
            raise _bad(
                f"{at}.url", f"a link has at most {URL_MAX_CHARS} printable characters", "invalid_value"
            )
        return Attachment("image", url=url, detail=detail)
    media_type, data = _bytes(f"{at}.url", url, max_bytes)
    image = image_of(data, media_type, detail)
    if image is None:
        formats = ", ".join(IMAGE_TYPES.values())
        raise _bad(
            f"{at}.url", f"an image in one of the formats {formats} is expected", "invalid_image_format"
        )
    return image


def _file(at: str, value: dict[str, Any], max_bytes: int) -> Attachment:
    if value.get("file_id"):
        raise RequestError(
            "Files are sent with the message here, as 'file_data'; 'file_id' is not supported.",
            param=f"{at}.file_id",
            code="unsupported_parameter",
        )
    name = clean(required_text(f"{at}.filename", value.get("filename") or "")).strip()[:NAME_MAX_CHARS]
    media_type, data = _bytes(
        f"{at}.file_data", required_text(f"{at}.file_data", value.get("file_data")), max_bytes
    )
    return file_of(data, media_type, "".join(c for c in name if c.isprintable()))


def _bytes(at: str, url: str, max_bytes: int) -> tuple[str, bytes]:
    """Return the media type and the bytes of a data URL."""
    found = read_data_url(url)
    if found is None or not found[1]:
        raise _bad(
            at, "a data URL with base64 is expected, such as 'data:image/png;base64,…'", "invalid_value"
        )
    if len(found[1]) > max_bytes:
        raise _bad(at, f"at most {max_bytes:,} bytes are taken", "string_above_max_length")
    return found


def _bad(at: str, why: str, code: str) -> RequestError:
    return RequestError(f"Invalid '{at}': {why}.", param=at, code=code)
