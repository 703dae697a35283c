"""NUL characters, which PostgreSQL cannot store: every text of a request refuses them, and its schema says so."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.security.access.operations import Operation, operations
from tests.security.access.rows import remembered
from tests.support.exhaustive import first_of
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Client

NUL = "a\0b"
Path = tuple[str | int, ...]


def texts(value: Any, path: Path = ()) -> Iterator[Path]:
    """Yield the path of each text in a filled body, including the names in free objects."""
    if isinstance(value, str):
        yield path
    elif isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from texts(inner, (*path, key))


def with_nul(body: Any, path: Path) -> Any:
    changed = copy.deepcopy(body)
    inner = changed
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = NUL
    return changed


@pytest.mark.parametrize(
    "one", first_of([one for one in operations() if one.body is not None], 4), ids=lambda one: one.id
)
def test_no_text_of_a_body_takes_one(one: Operation, alice: Client, upstream: FakeUpstream) -> None:
    filled = one.fill({**remembered(), "username": "alice", "password": "x", "metadata": {"lesson": "one"}})
    found = list(texts(filled.body))
    for path in found:
        answer = alice.http.request(
            filled.method, filled.path, params=dict(filled.query), json=with_nul(filled.body, path)
        )
        if (
            one.id == "completions_create"
        ):  # as OpenAI: no model has such a name, and in a message it is removed
            assert answer.status_code == (404 if path == ("model",) else 400 if "role" in path else 200), path
            continue
        assert answer.status_code == 400, f"{path}: {answer.text}"
        assert answer.json()["error"]["code"] == "invalid_request"
        assert allows_no_nul(one, path), path


def allows_no_nul(one: Operation, path: Path) -> bool:
    """Whether the schema of the text at `path` excludes NUL, by a pattern or by an enumeration."""
    schema = one._resolved(one.body or {})
    for key in path:
        if "properties" not in schema and "items" not in schema:
            return "JSONValue" in str(schema)  # a free object, whose schema covers all texts inside
        schema = one._resolved(schema["items"] if isinstance(key, int) else schema["properties"][key])
    return refuses(schema)


def refuses(schema: Any) -> bool:
    if schema.get("enum") or schema.get("format") or any("enum" in kind for kind in schema.get("oneOf", ())):
        return True
    return not re.search(schema.get("pattern", ""), NUL)


def texts_of(one: Operation) -> dict[str, Any]:
    """Return the text parameters of the query, by name, with their schema."""
    return {
        parameter["name"]: parameter["schema"]
        for parameter in one.parameters
        if parameter["in"] == "query"
        and parameter["schema"].get("type") == "string"
        and "cursor" not in parameter["name"]
    }


@pytest.mark.parametrize(
    "one",
    first_of([one for one in operations() if one.method == "GET" and texts_of(one)], 2),
    ids=lambda one: one.id,
)
def test_no_text_of_a_query_takes_one(one: Operation, alice: Client, upstream: FakeUpstream) -> None:
    filled = one.fill({**remembered(), "token_id": "0" * 16, "sha256": "0" * 64})
    for name, schema in texts_of(one).items():
        answer = alice.http.get(filled.path, params={**filled.query, name: NUL})
        if name == "search":  # a NUL is removed from it, as in the admin's lists
            assert answer.status_code == 200
        else:
            assert answer.status_code == 400, f"{name}: {answer.text}"
            assert refuses(schema), name
