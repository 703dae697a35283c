import json
from sys import getsizeof
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatmemory.api import http
from chatmemory.api.http import MAX_VALUES, parse_json
from chatmemory.text.cleaning import clean

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(VALUES, st.booleans())
def test_json_reads_standard_library_output(value: object, in_ascii: bool) -> None:
    assert parse_json(json.dumps(value, ensure_ascii=in_ascii).encode()) == value


@given(st.text(st.sampled_from('\ud800\udc00"\\ud8n😀')))
def test_a_lone_surrogate_is_left_to_the_fields_or_replaced(text: str) -> None:
    body = json.dumps(text).encode()
    assert parse_json(body) == json.loads(body)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(http, "LARGE_BYTES", 0)
        assert parse_json(body) == clean(json.loads(body))


@given(st.lists(st.text(st.sampled_from('a,[{:"\\'), max_size=8), max_size=12), st.integers(1, 9))
def test_json_counts_values_outside_strings(texts: list[str], size: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(http, "_SLICE", size)
        body = json.dumps(texts, separators=(",", ":")).encode()
        patch.setattr(http, "MAX_VALUES", len(texts) or 1)
        http._bytes_to_read(body)
        patch.setattr(http, "MAX_VALUES", (len(texts) or 1) - 1)
        with pytest.raises(ValueError, match="values"):
            http._bytes_to_read(body)


TEXTS = st.lists(st.text(st.sampled_from('a"\\\nö\u20acu😀/'), max_size=12), max_size=9)


@given(TEXTS, st.booleans(), st.integers(1, 9))
def test_reading_takes_no_more_than_is_said(texts: list[str], in_ascii: bool, size: int) -> None:
    body = json.dumps(texts, ensure_ascii=in_ascii).encode()
    told = http._bytes_to_read(body)
    assert len(body) + sum(map(getsizeof, texts)) <= told <= 6 * len(body) + 80 * (len(texts) or 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(http, "_SLICE", size)
        assert http._bytes_to_read(body) == told


@pytest.mark.parametrize(
    ("item", "is_taken"),
    [("a", True), ("ö", True), ("\u20ac", True), ("a" * 99 + "😀", False), ("a\\n", False), ('a","', False)],
)
def test_json_too_large_in_memory_is_refused(item: str, is_taken: bool, settings: Any) -> None:
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 410_000
    body = b'["' + item.encode() * (400_000 // len(item.encode())) + b'"]'
    if is_taken:
        assert len(parse_json(body)) == 1
    else:
        with pytest.raises(ValueError, match="bytes of memory to read, and at most 820,000 are taken"):
            parse_json(body)


@pytest.mark.parametrize("item", ["[],", "{},", '"x":0,', "1,"])
def test_too_many_values_are_refused(item: str) -> None:
    ends = "{}" if ":" in item else "[]"
    body = ends[0] + item * (MAX_VALUES + 1)
    with pytest.raises(ValueError, match="more than 300,000 values"):
        parse_json((body[:-1] + ends[1]).encode())


@pytest.mark.parametrize("body", [b"", b"[1,]", b"\xff", b"NaN", b"[" * 5000, b'"\\ud800', b"1" * 5000])
def test_json_invalid_raises_value_error(body: bytes) -> None:
    with pytest.raises(ValueError):  # the message is the parser's
        parse_json(body)
