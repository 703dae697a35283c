"""Static files as served: gzipped for clients that accept it, cacheable, with ranges taken from the plain file."""

from __future__ import annotations

import gzip
import os
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import pytest
from whitenoise.base import WhiteNoise
from whitenoise.responders import Response

from chatmemory.api.static_text import StaticText, is_compressible, takes_gzip

TEXT = b"let answer = 42; // and so on\n" * 100
GZIP = {"HTTP_ACCEPT_ENCODING": "br, gzip"}


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "a.js"
    path.write_bytes(TEXT)
    return path


@pytest.fixture
def served(script: Path) -> StaticText:
    read = partial(WhiteNoise(None).get_static_file, str(script), "/a.js")
    return StaticText(str(script), read(), read)


def get(served: StaticText, method: str = "GET", /, **meta: str) -> tuple[Response, dict[str, str], bytes]:
    answer = served.get_response(method, meta)
    assert len({name for name, _ in answer.headers}) == len(answer.headers)
    body = b""
    if answer.file is not None:
        with answer.file:
            body = answer.file.read()
    return answer, dict(answer.headers), body


def test_who_takes_gzip_gets_it(served: StaticText) -> None:
    answer, headers, body = get(served, **GZIP)
    assert (answer.status, headers["Content-Encoding"], headers["Vary"]) == (200, "gzip", "Accept-Encoding")
    assert headers["Content-Type"] == 'text/javascript; charset="utf-8"'
    assert int(headers["Content-Length"]) == len(body) < len(TEXT)
    assert gzip.decompress(body) == TEXT


def test_who_does_not_gets_the_file_under_another_tag(served: StaticText) -> None:
    answer, headers, body = get(served)
    assert (answer.status, body, headers["Vary"]) == (200, TEXT, "Accept-Encoding")
    assert "Content-Encoding" not in headers
    assert int(headers["Content-Length"]) == len(TEXT)
    assert headers["ETag"] != get(served, **GZIP)[1]["ETag"]


@pytest.mark.parametrize("accepts", [{}, GZIP])
def test_a_head_has_the_headers_alone(served: StaticText, accepts: dict[str, str]) -> None:
    answer, headers, body = get(served, "HEAD", **accepts)
    assert (answer.status, body) == (200, b"")
    assert headers == get(served, **accepts)[1]


@pytest.mark.parametrize("accepts", [{}, GZIP])
def test_what_a_client_has_is_not_sent_again(served: StaticText, accepts: dict[str, str]) -> None:
    sent = get(served, **accepts)[1]
    for known in (
        {"HTTP_IF_NONE_MATCH": sent["ETag"]},
        {"HTTP_IF_MODIFIED_SINCE": sent["Last-Modified"]},
    ):
        answer, headers, body = get(served, **accepts, **known)
        assert (answer.status, body, headers["ETag"]) == (304, b"", sent["ETag"])
        assert headers["Vary"] == "Accept-Encoding"
        assert "Content-Length" not in headers
    assert get(served, **accepts, HTTP_IF_NONE_MATCH='"other"')[0].status == 200


def test_a_tag_is_of_one_form_alone(served: StaticText) -> None:
    plain, compressed = (get(served, **accepts)[1]["ETag"] for accepts in ({}, GZIP))
    assert get(served, **GZIP, HTTP_IF_NONE_MATCH=plain)[0].status == 200
    assert get(served, HTTP_IF_NONE_MATCH=compressed)[0].status == 200
    assert get(served, **GZIP, HTTP_IF_NONE_MATCH=f'"x", W/{compressed}')[0].status == 304


@pytest.mark.parametrize("accepts", [{}, GZIP])
def test_a_part_is_one_of_the_plain_file(served: StaticText, accepts: dict[str, str]) -> None:
    answer, headers, body = get(served, **accepts, HTTP_RANGE="bytes=4-9")
    assert (answer.status, body, headers["Content-Range"]) == (206, b"answer", f"bytes 4-9/{len(TEXT)}")
    assert (headers["Content-Length"], headers["Vary"]) == ("6", "Accept-Encoding")
    assert "Content-Encoding" not in headers
    assert headers["ETag"] == get(served)[1]["ETag"]
    assert get(served, **accepts, HTTP_RANGE="bytes=9999-")[0].status == 416


def test_who_has_parts_of_the_compressed_file_gets_none_of_the_plain_one(served: StaticText) -> None:
    plain, compressed = (get(served, **accepts)[1]["ETag"] for accepts in ({}, GZIP))
    part = {**GZIP, "HTTP_RANGE": "bytes=4-9"}
    assert get(served, **part, HTTP_IF_RANGE=plain)[0].status == 206
    answer, _, body = get(served, **part, HTTP_IF_RANGE=compressed)
    assert (answer.status, body) == (200, TEXT)


def test_it_is_compressed_once_and_anew_when_it_changed(
    served: StaticText, script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compress = Mock(side_effect=gzip.compress)
    monkeypatch.setattr(gzip, "compress", compress)
    before = [get(served, **GZIP) for _ in range(3)]
    assert compress.call_count == 1
    script.write_bytes(TEXT * 2)
    os.utime(script, ns=(10**18, 10**18))
    _, headers, body = get(served, **GZIP)
    assert (gzip.decompress(body), compress.call_count) == (TEXT * 2, 2)
    assert headers["ETag"] != before[0][1]["ETag"]
    assert get(served)[1]["Content-Length"] == str(len(TEXT) * 2)


def test_nothing_is_written(served: StaticText) -> None:
    assert get(served, "POST", **GZIP)[0].status == 405


@pytest.mark.parametrize(
    ("accepts", "takes"),
    [
        *(("gzip", True), ("GZIP;q=0.5", True), ("br, gzip", True), ("gzip; q=1", True)),
        *(("", False), ("br", False), ("*", False), ("gzip;q=0", False), ("gzip;q=0.000", False)),
        ("xgzip", False),
    ],
)
def test_it_goes_by_what_a_client_accepts(accepts: str, takes: bool) -> None:
    assert takes_gzip(accepts) is takes


@pytest.mark.parametrize(
    ("name", "size", "beside", "worth"),
    [
        *(("a.css", 5000, "", True), ("a.svg", 5000, "", True), ("a.json", 5000, "", True)),
        *(("a.css", 500, "", False), ("a.png", 5000, "", False), ("a.woff2", 5000, "", False)),
        ("a.css", 5000, "a.css.gz", False),  # compressed on disk
    ],
)
def test_text_of_some_size_is_worth_it(
    tmp_path: Path, name: str, size: int, beside: str, worth: bool
) -> None:
    for one in filter(None, (name, beside)):
        (tmp_path / one).write_bytes(b"x" * size)
    assert is_compressible(WhiteNoise(None).get_static_file(str(tmp_path / name), f"/{name}")) is worth
