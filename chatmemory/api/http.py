"""Parsers of bodies and their limits, renderers, query parameters and pagination of the API."""

import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import IO, Any, Final, TypeVar

from django.conf import settings
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError as DjangoValidationError
from django.db.models import Model, QuerySet
from django.http import HttpResponse
from drf_spectacular.utils import OpenApiExample, OpenApiParameter
from pydantic_core import from_json
from rest_framework import serializers
from rest_framework.exceptions import NotFound, ParseError, ValidationError
from rest_framework.pagination import CursorPagination
from rest_framework.parsers import JSONParser
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.utils.json import strict_constant

from chatmemory.database.rows import byte_size, count_fitting

M = TypeVar("M", bound=Model)


class EventStreamRenderer(BaseRenderer):
    """A renderer that accepts `text/event-stream`. Views write the events; DRF renders only errors with it, as JSON."""

    media_type = "text/event-stream"
    format = "event-stream"
    charset = None

    def render(
        self,
        data: object,
        accepted_media_type: str | None = None,
        renderer_context: Mapping[str, object] | None = None,
    ) -> bytes:
        response = (renderer_context or {}).get("response")
        if isinstance(response, HttpResponse):
            response["Content-Type"] = JSONRenderer.media_type
        return bytes(JSONRenderer().render(data))


def caller(request: Request) -> User:
    """The authenticated user. Only for views that require authentication."""
    assert isinstance(request.user, User)
    return request.user


def validated(serializer: type[serializers.Serializer[Any]], data: object) -> dict[str, Any]:
    """Return the fields of a request's body or query. Raises `ValidationError`."""
    request = serializer(data=data)
    request.is_valid(raise_exception=True)
    return dict(request.validated_data)


LIMIT_MAX = 200
"""The largest page of every list."""
PAGING = [
    OpenApiParameter("cursor", str, description="The cursor in `next` or `previous` of another page."),
    OpenApiParameter(
        "limit",
        {"type": "integer", "minimum": 1, "maximum": LIMIT_MAX},
        description="Maximum number of items on a page. A page of large items has fewer.",
    ),
]
"""The query parameters of list views."""


def example(body: dict[str, Any] | list[Any]) -> list[OpenApiExample]:
    """The example of a request's body in the schema. The docs page fills it in, so it should work as it is."""
    return [OpenApiExample("A request", value=body, request_only=True)]


def refuse_unknown(request: Request, known: Collection[str]) -> None:
    """Raise `ValidationError` for query parameters other than these, so that a typo is not silently ignored."""
    if unknown := [name for name in request.query_params if name not in {*known, "format"}]:
        expected = ", ".join(sorted(known))
        raise ValidationError({name: [f"Unknown parameter. Known: {expected}."] for name in unknown[:10]})


class PageOut(serializers.Serializer[Any]):
    """A page of a list: follow `next` and `previous`."""

    next = serializers.URLField(allow_null=True, help_text="Address of the next page; null on the last.")
    previous = serializers.URLField(allow_null=True, help_text="Address of the page before; null on the first.")


def page_of(name: str, items: type[serializers.BaseSerializer[Any]]) -> type[PageOut]:
    """Return the serializer of a page under the name that it has in the schema."""
    results = items(many=True, help_text="Items on this page.")
    return type(name, (PageOut,), {"results": results})


class CursorPages(CursorPagination):
    """DRF's cursor pagination, which answers an invalid limit, or a cursor of another list, with 400.

    A page has fewer rows than its limit if the rows have many bytes; `next` continues there. `filters` are the query
    parameters of the list besides `cursor` and `limit`.
    """

    _fitting = LIMIT_MAX

    def __init__(self, *ordering: str, page_size: int = 50, filters: Collection[str] = ()) -> None:
        self.ordering = ordering
        self.page_size = page_size
        self.known = {*filters, "cursor", "limit"}

    def respond(
        self, rows: QuerySet[M], request: Request, serializer: type[serializers.BaseSerializer[Any]]
    ) -> Response:
        """The page of `rows` that the request asks for."""
        return self.get_paginated_response(serializer(self.rows_of_page(rows, request), many=True).data)

    def get_page_size(self, request: Request) -> int | None:
        given = request.query_params.get("limit")
        if given is None:
            return min(self.page_size or LIMIT_MAX, self._fitting)
        if not (re.fullmatch("[0-9]{1,3}", given) and 1 <= int(given) <= LIMIT_MAX):
            raise ValidationError({"limit": [f"This must be a whole number from 1 to {LIMIT_MAX}."]})
        return min(int(given), self._fitting)

    def rows_of_page(self, rows: QuerySet[M], request: Request) -> list[M]:
        """Return the rows of the page: select them by order and size only, then load them."""
        refuse_unknown(request, self.known)
        try:
            columns = {name.removeprefix("-") for name in self.ordering} - rows.query.annotations.keys()
            light = rows.annotate(byte_size=byte_size(rows)).only("pk", *columns)
            page: list[Any] = self.paginate_queryset(light, request) or []
            sizes = [row.byte_size for row in page]
            if self.cursor is not None and self.cursor.reverse:
                sizes.reverse()  # a page before this one is cut at its far end
            if (count := count_fitting(sizes)) < len(page):
                self._fitting = count
                page = self.paginate_queryset(light, request) or []
        except (NotFound, ValueError, DjangoValidationError):
            raise ValidationError({"cursor": ["Invalid cursor for this list."]}) from None
        whole = rows.in_bulk([row.pk for row in page])
        return [whole[row.pk] for row in page if row.pk in whole]


# --- JSON bodies whose number of values is bounded, whatever their length. A parser holds the interpreter for the whole
# text, so that no other request is served meanwhile, and each value takes up to twenty times its bytes in memory. The
# counting goes slice by slice, so that other requests are served. ---

MAX_VALUES: Final = 300_000
"""Lists, objects and their members. A history of 50,000 messages has 250,000."""
LARGE_BYTES: Final = 4 * 1024 * 1024
"""Above this size, a body is not parsed by the standard library, which needs the text of the whole besides."""
_SLICE: Final = 64 * 1024
_STRUCTURE: Final = (b"[", b"{", b",", b":")
_MAX_ESCAPES: Final = 200_000
"""In a large text with a lone surrogate, because each is looked at."""
VALUE_BYTES: Final = 80
"""Memory that a value takes besides its text."""
MAX_COPIES: Final = 6
"""How many times its length a body takes in memory at most: itself, its only text copied, and four bytes a letter."""
_LATER, _LATIN, _NARROW = bytes(range(0x80, 0xC0)), bytes(range(0xC4)), bytes(range(0xF0))
"""Bytes of UTF-8: of a character after its first, of characters for which Python needs one byte, or two at most."""
_ESCAPE: Final = re.compile(
    rb"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
)
"""A backslash, a pair of surrogates, a lone one."""


class JSONBody(JSONParser):
    """DRF's JSON parser, which answers a body of too many values, or nested too deeply, with 400."""

    def parse(
        self, stream: IO[bytes], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> Any:
        try:
            return parse_json(stream.read())
        except ValueError as exc:
            headers = parser_context["request"].headers if parser_context else {}
            why = "send the body without `Content-Encoding`, as it is" if "Content-Encoding" in headers else exc
            raise ParseError(f"JSON parse error - {why}") from None


def parse_json(body: bytes) -> Any:
    """Return the value of a JSON text. Raises `ValueError`.

    A lone surrogate stays as it is, for the fields to judge; in a large body, it becomes U+FFFD.
    """
    if len(body) > MAX_VALUES:
        _refuse_costly(body)
    try:
        return from_json(body, allow_inf_nan=False, cache_strings="keys")
    except ValueError:
        if b"\\ud" not in body and b"\\uD" not in body:
            raise
    if len(body) > LARGE_BYTES:
        if body.count(b"\\\\") + body.count(b"\\u") > _MAX_ESCAPES:
            raise ValueError("a large text with lone surrogates and many escapes")
        _refuse_costly(body, besides=len(body))
        return from_json(_without_lone_surrogates(body), allow_inf_nan=False, cache_strings="keys")
    try:
        return json.loads(body, parse_constant=strict_constant)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _refuse_costly(body: bytes, besides: int = 0) -> None:
    """Raise `ValueError` for too many values, or if reading takes more than twice the largest body with what is held
    besides.
    """
    most = 2 * settings.DATA_UPLOAD_MAX_MEMORY_SIZE
    slices = (body[at : at + _SLICE] for at in range(0, len(body), _SLICE))
    marks = sum(piece.count(mark) for piece in slices for mark in _STRUCTURE)
    if marks > MAX_VALUES or besides + MAX_COPIES * len(body) + VALUE_BYTES * marks > most:
        size = besides + _bytes_to_read(body)
        if size > most:
            raise ValueError(f"it takes {size:,} bytes of memory to read, and at most {most:,} are taken")


def _bytes_to_read(body: bytes) -> int:
    """Return how much memory reading takes at most: the body, its texts and its values. Raises for too many values.

    A text takes as much for each character as its widest one needs. One with an escape is copied by the parser first.
    """
    values = texts = taken = copied = 0
    length, chars, width, has_escape = 0, 0, 1, False
    for outside, inside, goes_on in _outside_and_inside_of_texts(body):
        values += sum(outside.count(mark) for mark in _STRUCTURE)
        texts += len(inside) - goes_on
        if max(values, texts) > MAX_VALUES:
            raise ValueError(f"the body has more than {MAX_VALUES:,} values")
        for number, part in enumerate(inside, 1):
            length += len(part)
            if part.isascii() and b"\\" not in part:
                chars += len(part)
            else:
                chars += len(part.translate(None, _LATER)) - part.count(b"\\") - 4 * part.count(b"\\u")
                width, has_escape = max(width, _width(part)), has_escape or b"\\" in part
            if number < len(inside) or not goes_on:
                taken, copied = taken + chars * width, max(copied, length * has_escape)
                length, chars, width, has_escape = 0, 0, 1, False
    return len(body) + taken + copied + VALUE_BYTES * values


def _outside_and_inside_of_texts(body: bytes) -> Iterator[tuple[bytes, list[bytes], bool]]:
    """Yield of each slice what is outside of texts, the parts of texts, and whether the last one goes on.

    Escaped backslashes and quotation marks come as other escapes.
    """
    is_inside, rest = False, b""
    for at in range(0, len(body), _SLICE):
        piece = rest + body[at : at + _SLICE]
        if at + _SLICE < len(body):  # an escape may be cut at the end of a slice
            end = len(piece[:-5] + piece[-5:].partition(b"\\")[0])
            end -= (end - len(piece[:end].rstrip(b"\\"))) % 2
            piece, rest = piece[:end], piece[end:]
        # Without escapes, each quotation mark begins or ends a text.
        parts = piece.replace(b"\\\\", b"\\n").replace(b'\\"', b"\\n").split(b'"')
        outside, inside = (parts[1::2], parts[::2]) if is_inside else (parts[::2], parts[1::2])
        is_inside ^= len(parts) % 2 == 0
        yield b"".join(outside), inside, is_inside


def _width(part: bytes) -> int:
    """How many bytes Python needs for a character of a text that has this part."""
    if part.translate(None, _NARROW) or b"\\ud" in part or b"\\uD" in part:
        return 4
    return 2 if part.translate(None, _LATIN) or part.count(b"\\u") > part.count(b"\\u00") else 1


def _without_lone_surrogates(body: bytes) -> bytearray:
    """Replace them in place: pieces of a body full of escapes would take many times its size."""
    replaced = bytearray(body)
    for match in _ESCAPE.finditer(body):
        if len(match[0]) == 6:
            replaced[match.start() + 2 : match.end()] = b"fffd"
    return replaced
