"""Tools that clients offer: which of them are called, and whether calls and outputs are in a valid order. Pure."""

import json
from collections.abc import Iterator
from typing import Any

from tests.support.fakes.connection import Request
from tests.support.fakes.speech import Call


def scripted(text: str) -> tuple[Call, ...]:
    """Return the calls that a behaviour lists as JSON."""
    calls: list[Call] = []
    for call_id, name, arguments, *beside in json.loads(text or "[]"):
        extra = next((one for one in beside if isinstance(one, dict)), {})
        thoughts = extra.pop("thoughts", "")
        is_custom = "custom" in beside
        calls.append(Call(name, arguments, id=call_id, is_custom=is_custom, extra=extra, thoughts=thoughts))
    return tuple(calls)


def requested_calls(request: Request, number: int) -> tuple[Call, ...]:
    """Return a call of the tool that is required, or named in the user's last message; none after a tool's output."""
    offered = [tool for tool in request.body.get("tools") or () if tool["type"] in ("function", "custom")]
    choice = request.body.get("tool_choice", "auto")
    role, said = request.said[-1] if request.said else ("", "")
    if not offered or choice == "none" or role == "tool":
        return ()
    named = _function(choice).get("name") if isinstance(choice, dict) else ""
    for tool in offered:
        function = _function(tool)
        if named == function["name"] or (not named and (choice == "required" or function["name"] in said)):
            arguments = json.dumps(_sample(function.get("parameters") or {}))
            return (Call(function["name"], arguments, is_alone=True, id=f"call_{number}"),)
    return ()


def fault(request: Request) -> str:
    """Return what is wrong with the order of calls and outputs, in OpenAI's words; "" if nothing is."""
    waiting: list[str] = []
    for kind, call_id in _traffic(request):
        if kind == "call":
            waiting.append(call_id)
        elif kind == "output":
            if call_id not in waiting:
                return f"No tool call found for function call output with call_id {call_id}."
            waiting.remove(call_id)
        elif waiting:
            return f"No tool output found for function call {waiting[0]}."
    return f"No tool output found for function call {waiting[0]}." if waiting else ""


def _traffic(request: Request) -> Iterator[tuple[str, str]]:
    given = request.body.get("messages") or request.body.get("input") or []
    for item in given if isinstance(given, list) else []:
        if item.get("role") == "tool":
            yield "output", item["tool_call_id"]
        elif item.get("type") in ("function_call_output", "custom_tool_call_output"):
            yield "output", item["call_id"]
        elif item.get("type") in ("function_call", "custom_tool_call"):
            yield "call", item["call_id"]
        elif item.get("type") != "reasoning":
            yield "text", ""
            for call in item.get("tool_calls") or ():
                yield "call", call["id"]


def _function(tool: dict[str, Any]) -> dict[str, Any]:
    """Return the function or custom tool of a tool, or of a tool choice, in either style."""
    found: dict[str, Any] = tool.get("function") or tool.get("custom") or tool
    return found


def formatted(request: Request) -> Any:
    """Return an object in the format that a request demands, in either style; None for text."""
    asked = request.body.get("response_format") or request.body.get("text", {}).get("format") or {}
    kind = asked.get("type", "text")
    if kind == "json_object":
        return {"name": "Ada", "age": 36}
    return _sample((asked.get("json_schema") or asked)["schema"]) if kind == "json_schema" else None


def _sample(schema: dict[str, Any]) -> Any:
    """Return a value that fits a simple JSON Schema."""
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type", "object")
    if kind == "object":
        return {name: _sample(one) for name, one in schema.get("properties", {}).items()}
    return {"array": [], "integer": 7, "number": 7.5, "boolean": True}.get(kind, "AB-1234")
