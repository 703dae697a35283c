"""What schemathesis is told besides the schema. It loads this file by itself, outside of pytest."""

from __future__ import annotations

from importlib import import_module
from typing import Any

schemathesis: Any = import_module("schemathesis")
"""Not imported by name: it is of the extra `check`, and types are checked without that, too."""


def map_case(_context: Any, case: Any) -> Any:
    """What no schema can say, requests that are to be valid come without.

    No invented cursor is one of ours; and which options there are, and go together, is a matter of the policy.
    """
    if case.meta is not None and case.meta.generation.mode.is_positive:
        if case.query:
            case.query.pop("cursor", None)
        if isinstance(case.body, dict):
            case.body.pop("options", None)
    return case


schemathesis.hook(map_case)
