"""Which characters a request's texts may have: any but NUL, which PostgreSQL stores in no text.

Pure: the schema in, the schema changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from chatmemory.api.fields import NOT_BLANK

Schema = dict[str, Any]

NO_NUL = r"^[^\u0000]*$"
NO_NUL_NOT_BLANK = r"^[^\u0000]*[^\s\u0000][^\u0000]*$"
JSON = "JSONValue"
"""The component that says so of what is inside of a free object, at any depth."""
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
"""The one parameter from which a NUL is taken out."""


def without_nul(components: dict[str, Schema], paths: dict[str, dict[str, Any]]) -> None:
    """Say so of all components that are requests, and of the texts of query strings."""
    for name in [name for name in components if name.endswith("Request")]:
        for part in _parts(components[name]):
            _narrow(part)
    components[JSON] = JSON_VALUE
    for operation in (one for methods in paths.values() for one in methods.values()):
        for parameter in operation.get("parameters", []):
            if parameter["in"] == "query" and parameter["name"] != CLEANED:
                _narrow(parameter["schema"])


def _parts(schema: Any) -> Iterator[Schema]:
    """A schema and all that is inside of it."""
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
