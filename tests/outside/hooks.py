"""What schemathesis is told besides the schema. It loads this file by itself, outside of pytest."""

from __future__ import annotations

from importlib import import_module
from typing import Any

schemathesis: Any = import_module("schemathesis")
"""Not imported by name: it is of the extra `check`, and types are checked without that, too."""


def map_case(_context: Any, case: Any) -> Any:
    """No invented cursor is one of ours, and the schema cannot say so: requests that are to be valid come without."""
    if case.meta is not None and case.meta.generation.mode.is_positive and case.query:
        case.query.pop("cursor", None)
    return case


schemathesis.hook(map_case)
