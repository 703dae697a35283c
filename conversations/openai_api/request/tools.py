"""Validation of the tools of a Chat Completions request and of its `tool_choice`. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from conversations.openai_api.errors import RequestError, require_storable
from conversations.openai_api.request.parts import required_text, unsupported_type

MAX_TOOLS = 128
TOOLS_MAX_BYTES = 256 * 1024
"""Limit for all tools as JSON: they are stored once per chat, to show what the model saw."""
_OBJECTS = {"function": "parameters", "custom": "format"}
"""The types of tools, each with its field that must be an object."""
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def read_tools(value: object) -> tuple[Mapping[str, Any], ...]:
    """Return the tools unchanged. Raises `RequestError`."""
    if not isinstance(value, list) or len(value) > MAX_TOOLS:
        raise RequestError(
            f"Invalid type for 'tools': expected a list of at most {MAX_TOOLS} tools.",
            param="tools",
            code="invalid_type",
        )
    for index, tool in enumerate(value):
        _check_tool(f"tools.[{index}]", tool)
    names = [_name(tool) for tool in value]
    if len(set(names)) < len(names):
        raise RequestError("Two tools have the same name.", param="tools", code="invalid_value")
    require_storable(value, "tools", param="tools", max_bytes=TOOLS_MAX_BYTES)
    return tuple(value)


def check_choice(choice: object, tools: tuple[Mapping[str, Any], ...]) -> None:
    """Raise `RequestError` for a `tool_choice` that is malformed or names a tool that is not there."""
    if choice is None:
        return
    if not tools:
        if choice in ("none", "auto"):
            return
        raise RequestError(
            "Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are specified.",
            param="tool_choice",
            code=None,
        )
    if isinstance(choice, str):
        if choice not in ("none", "auto", "required"):
            raise RequestError(
                "Invalid value for 'tool_choice': supported are 'none', 'auto', 'required' and an object.",
                param="tool_choice",
                code="invalid_value",
            )
        return
    known = {_name(tool) for tool in tools}
    for name in _chosen(choice):
        if not isinstance(name, str) or name not in known:
            raise RequestError(
                f"Tool choice '{str(name)[:64]}' not found in 'tools' parameter.",
                param="tool_choice",
                code="invalid_value",
            )


def _name(tool: Mapping[str, Any]) -> str:
    return str(tool[tool["type"]]["name"])


def _check_tool(at: str, tool: object) -> None:
    kind = tool.get("type") if isinstance(tool, dict) else None
    if not isinstance(kind, str) or kind not in _OBJECTS:
        raise unsupported_type(at, f"Tools of the type {str(kind)[:64]!r}")
    assert isinstance(tool, dict)
    told = tool.get(kind)
    if not isinstance(told, dict):
        raise RequestError(
            f"Missing required parameter: '{at}.{kind}'.",
            param=f"{at}.{kind}",
            code="missing_required_parameter",
        )
    if not _NAME.fullmatch(required_text(f"{at}.{kind}.name", told.get("name"))):
        raise RequestError(
            f"Invalid '{at}.{kind}.name': 1 to 64 letters, digits, underscores and hyphens are expected.",
            param=f"{at}.{kind}.name",
            code="invalid_value",
        )
    if not isinstance(told.get(_OBJECTS[kind]) or {}, dict):
        raise RequestError(
            f"Invalid type for '{at}.{kind}.{_OBJECTS[kind]}': expected an object.",
            param=f"{at}.{kind}.{_OBJECTS[kind]}",
            code="invalid_type",
        )


def _chosen(choice: object) -> list[Any]:
    """Return the tool names in a choice that is an object."""
    try:
        if isinstance(choice, dict) and choice["type"] in _OBJECTS:
            return [choice[choice["type"]]["name"]]
        if isinstance(choice, dict) and choice["type"] == "allowed_tools":
            allowed = choice["allowed_tools"]
            if allowed["mode"] in ("auto", "required"):
                return [tool[tool["type"]]["name"] for tool in allowed["tools"]]
    except (KeyError, TypeError):
        pass
    raise RequestError(
        "Invalid 'tool_choice': expected a function, a custom tool, or a list of allowed tools.",
        param="tool_choice",
        code="invalid_value",
    )
