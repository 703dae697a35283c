"""Static text that is sent gzipped: compressed on first use in a process, kept in memory until the file changes."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from http import HTTPStatus
from io import BytesIO
from pathlib import Path
from typing import Any

from whitenoise.responders import Response, StaticFile

LEAST_BYTES = 1024
"""A file is compressed if it has more bytes than this. Smaller ones fit into one packet anyway."""
TEXT_TYPES = ("text/", "image/svg+xml", "application/json", "application/javascript", "application/xml")


def is_compressible(static_file: StaticFile) -> bool:
    """Whether a file is text, larger than `LEAST_BYTES`, and not compressed on disk."""
    if len(static_file.alternatives) > 1:
        return False
    headers = dict(static_file.alternatives[0][2])
    return headers["Content-Type"].startswith(TEXT_TYPES) and int(headers["Content-Length"]) > LEAST_BYTES


def takes_gzip(accept_encoding: str) -> bool:
    """Whether the client accepts gzip: it is listed, and not with a weight of zero."""
    for one in accept_encoding.lower().split(","):
        name, _, weight = one.replace(" ", "").partition(";q=")
        if name == "gzip":
            return weight.strip("0.") != "" if weight else True
    return False


@dataclass(frozen=True)
class _Version:
    """A file as it was at the time of its last modification."""

    modified: int
    plain: StaticFile

    @property
    def etag(self) -> str:
        """The ETag of the compressed file. Different bytes need a different tag."""
        return f'{self.plain.etag[:-1]}-gzip"'

    @cached_property
    def compressed(self) -> bytes:
        path = self.plain.alternatives[0][1]
        return gzip.compress(Path(path).read_bytes(), compresslevel=9, mtime=0)

    @cached_property
    def headers(self) -> list[tuple[str, str]]:
        length = str(len(self.compressed))
        plain = self.plain.alternatives[0][2]
        return _with(plain, ETag=self.etag, Content_Encoding="gzip", Content_Length=length)


class StaticText:
    """A static file of WhiteNoise's that also has a compressed form. `read` loads the file again."""

    def __init__(self, path: str, found: StaticFile, read: Callable[[], StaticFile]) -> None:
        self._path, self._read = path, read
        self._version = _Version(Path(path).stat().st_mtime_ns, found)

    def get_response(self, method: str, meta: Mapping[str, Any]) -> Response:
        """Answer a request. Ranges are parts of the plain file, because no client wants parts of the compressed one."""
        modified = Path(self._path).stat().st_mtime_ns
        if modified != self._version.modified:
            self._version = _Version(modified, self._read())
        version = self._version
        is_part = "HTTP_RANGE" in meta
        if method not in ("GET", "HEAD") or is_part or not takes_gzip(meta.get("HTTP_ACCEPT_ENCODING", "")):
            answer = version.plain.get_response(method, _with_valid_range(meta, version.plain))
            status, headers, file = answer.status, answer.headers, answer.file
        elif _is_known(meta, version):
            known = version.plain.not_modified_response
            status, headers, file = known.status, _with(known.headers, ETag=version.etag), None
        else:
            status, headers = HTTPStatus.OK, version.headers
            file = BytesIO(version.compressed) if method == "GET" else None
        return Response(status, _with(headers, Vary="Accept-Encoding"), file)


def _with(headers: Iterable[tuple[str, str]], **values: str) -> list[tuple[str, str]]:
    """The headers, with some values replaced or added."""
    return [*{**dict(headers), **{name.replace("_", "-"): value for name, value in values.items()}}.items()]


def _is_known(meta: Mapping[str, Any], version: _Version) -> bool:
    """Whether the client already has the compressed file."""
    tags = meta.get("HTTP_IF_NONE_MATCH")
    if tags is None:
        return bool(version.plain.is_not_modified(meta))
    return version.etag in {tag.strip().removeprefix("W/") for tag in tags.split(",")}


def _with_valid_range(meta: Mapping[str, Any], plain: StaticFile) -> Mapping[str, Any]:
    """Drop the range if the client has parts of another version: WhiteNoise ignores `If-Range`."""
    wanted = meta.get("HTTP_IF_RANGE")
    if wanted is None or wanted == plain.etag:
        return meta
    return {name: value for name, value in meta.items() if name != "HTTP_RANGE"}
