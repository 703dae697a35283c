"""A JSON object is found however a model wraps it, in linear time; anything else is refused as the wrong shape."""

import json
import time
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.policies.answers import MAX_CHARS, object_in
from memory.policies.protocol import Refusal
from tests.support.exhaustive import first_of

values: Any = st.recursive(
    st.one_of(st.none(), st.booleans(), st.text()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(), inner, max_size=3)),
    max_leaves=8,
)
objects = st.dictionaries(st.text(), values, max_size=4)


@given(
    objects,
    st.sampled_from([None, 2]),
    st.sampled_from(["", "Sure! Here it is:\n", "```json\n", "A {set}: "]),
)
def test_answers_reads_json_in_any_wrapping(value: dict[str, Any], indent: int | None, before: str) -> None:
    assert object_in(f"{before}{json.dumps(value, indent=indent)}\n```\nAnything else?") == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": [1, 2,], }', {"a": ["1", "2"]}),
        ('{"a": ",}", "b": "\\",]",}', {"a": ",}", "b": '",]'}),
        ('{"a": [{"b": "c"},], "d": {"e": "f"}}', {"a": [{"b": "c"}], "d": {"e": "f"}}),
        ('{"price": 50.00, "n": -1e999}', {"price": "50.00", "n": "-1e999"}),
        ('{"a": NaN, "b": -Infinity}', {"a": None, "b": None}),
        ('{"a": "two\nlines"}', {"a": "two\nlines"}),
        ("{}", {}),
        (f'{{"a": {"9" * 5000}}}', {"a": "9" * 5000}),
    ],
)
def test_answers_repairs_json(text: str, value: dict[str, Any]) -> None:
    assert object_in(text) == value


@pytest.mark.parametrize(
    "text",
    first_of(
        [
            "",
            "No JSON at all.",
            "[1, 2]",
            '"text"',
            # an object inside a broken one is not the answer
            '{"facts": [{"key": "order", "value": "A1"}, {"key": "pri',
            '{"a"' * 100,
            '{"a":' * 70_000,
            '{"a":[' * 60_000,
            '{"' + '\\"{"' * 90_000,
            "{ " * 190_000,
            ", " * 190_000 + "{",
            '{"a": "' + "x" * MAX_CHARS + '"}',
            "x" * 10_000_000,
        ],
        8,
    ),
)
def test_anything_else_is_refused_and_soon(text: str) -> None:
    began = time.process_time()
    with pytest.raises(Refusal) as caught:
        object_in(text)
    assert caught.value.reason == "wrong_shape"
    assert time.process_time() - began < 2


@given(st.text(alphabet='{}[]",:\\ a1\n'))
def test_no_text_does_anything_else(text: str) -> None:
    with suppress(Refusal):
        assert isinstance(object_in(text), dict)
