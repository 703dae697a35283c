import json

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
def test_it_reads_what_the_standard_library_writes(value: object, in_ascii: bool) -> None:
    assert parse_json(json.dumps(value, ensure_ascii=in_ascii).encode()) == value


@given(st.text(st.sampled_from('\ud800\udc00"\\ud8n😀')))
def test_a_lone_surrogate_is_left_to_the_fields_or_replaced(text: str) -> None:
    body = json.dumps(text).encode()
    assert parse_json(body) == json.loads(body)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(http, "LARGE_BYTES", 0)
        assert parse_json(body) == clean(json.loads(body))


@given(st.lists(st.text(st.sampled_from('a,[{:"\\'), max_size=8), max_size=12), st.integers(1, 9))
def test_only_what_is_outside_of_strings_is_counted(texts: list[str], size: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(http, "_SLICE", size)
        body = json.dumps(texts, separators=(",", ":")).encode()
        for most in range(len(texts) + 2):
            patch.setattr(http, "MAX_VALUES", most)
            assert http._has_too_many(body) is (max(len(texts), 1) > most)


@pytest.mark.parametrize("item", ["[],", "{},", '"x":0,', "1,"])
def test_too_many_values_are_refused(item: str) -> None:
    ends = "{}" if ":" in item else "[]"
    body = ends[0] + item * (MAX_VALUES + 1)
    with pytest.raises(ValueError, match="more than 300,000 values"):
        parse_json((body[:-1] + ends[1]).encode())


def test_prose_of_any_length_is_taken() -> None:
    text = 'one, "two": [three] {\\} ' * 50_000
    assert parse_json(json.dumps([text]).encode()) == [text]


@pytest.mark.parametrize("body", [b"", b"[1,]", b"\xff", b"NaN", b"[" * 5000, b'"\\ud800', b"1" * 5000])
def test_what_is_no_json_is_a_value_error(body: bytes) -> None:
    with pytest.raises(ValueError):  # the message is the parser's
        parse_json(body)
