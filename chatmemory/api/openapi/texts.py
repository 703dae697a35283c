"""The characters that texts of a request may have: all except NUL, which PostgreSQL cannot store in text.

Pure: changes the schema that it is given.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from chatmemory.api.fields import NOT_BLANK

Schema = dict[str, Any]

NO_NUL = r"^[^\u0000]*$"
NO_NUL_NOT_BLANK = r"^[^\u0000]*[^\s\u0000][^\u0000]*$"
JSON = "JSONValue"
"""The component that excludes NUL inside of free-form objects, at any depth."""
_REF = {"$ref": f"#/components/schemas/{JSON}"}
_OBJECT = {"type": "object", "propertyNames": {"pattern": NO_NUL}, "additionalProperties": _REF}
JSON_VALUE: Schema = {
    "description": "Any JSON whose texts and names have no NUL.",
    "anyOf": [
        {"type": ["null", "boolean", "number"]},
        {"type": "string", "pattern": NO_NUL},
        {"type": "array", "items": _REF},
        _OBJECT,
    ],
}
CLEANED = "search"
"""The only parameter from which a NUL is removed instead of refused."""


def without_nul(components: dict[str, Schema], paths: dict[str, dict[str, Any]]) -> None:
    """Exclude NUL from the texts of all request components and query parameters."""
    for name in [name for name in components if name.endswith("Request")]:
        for part in _parts(components[name]):
            _narrow(part)
    components[JSON] = JSON_VALUE
    for operation in (one for methods in paths.values() for one in methods.values()):
        for parameter in operation.get("parameters", []):
            if parameter["in"] == "query" and parameter["name"] != CLEANED:
                _narrow(parameter["schema"])


def _parts(schema: Any) -> Iterator[Schema]:
    """Yield a schema and all schemas inside of it."""
    if isinstance(schema, dict):
        yield schema
        for inner in schema.values():
            yield from _parts(inner)
    elif isinstance(schema, list):
        for inner in schema:
            yield from _parts(inner)


def _narrow(schema: Schema) -> None:
    if schema.get("type") == "string" and not schema.keys() & {"enum", "format"}:
        is_not_blank = schema.get("pattern") == NOT_BLANK
        if is_not_blank or "pattern" not in schema:
            schema["pattern"] = NO_NUL_NOT_BLANK if is_not_blank else NO_NUL
    elif schema.get("additionalProperties") == {}:
        schema |= _OBJECT
