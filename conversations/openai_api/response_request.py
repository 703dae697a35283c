"""The body of `POST /v1/responses` → the same value as that of Chat Completions. Pure.

An item is a message, or a call of a tool, or its output. An item may also be named by its id alone, as the server gave
it; the caller looks it up.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal, cast

from annotated_types import MaxLen, MinLen
from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, ValidationInfo, WrapValidator

from chatmemory.llm.attachments import Attachment
from chatmemory.llm.openai.requests import CLIENTS_TOOLS
from chatmemory.llm.protocol import PromptMessage, ToolCall, reasoning_item
from conversations.openai_api import wire
from conversations.openai_api.errors import RequestError, require_storable, unsupported
from conversations.openai_api.history import Wording

WORDING = Wording(
    api="Responses",
    field="input",
    at="input.[{index}]",
    no_call="No tool call found for function call output with call_id {id}.",
    no_output="No tool output found for function call {ids}.",
)

# Items


class ItemPart(wire.Typed):
    needs: ClassVar = {
        "input_text": ("text",),
        "output_text": ("text",),
        "input_image": ("image_url",),
        "input_file": ("file_data",),
    }

    type: Literal["input_text", "output_text", "text", "refusal", "input_image", "input_file"]
    text: wire.Text | None = None
    refusal: wire.Text | None = None
    file_id: Annotated[None, BeforeValidator(lambda value: value or None)] = None
    file_url: Annotated[None, BeforeValidator(lambda value: value or None)] = None
    detail: Annotated[str, MaxLen(16)] | None = None
    image_url: Annotated[str, AfterValidator(wire.image)] | None = None
    filename: wire.Text | None = None
    file_data: Annotated[str, AfterValidator(wire.file)] | None = None


Parts = Annotated[list[ItemPart], Field(fail_fast=True), WrapValidator(wire.parts)]


class Item(wire.Typed):
    """An item of any type. Other fields are left out, such as `status`, or the summary of thoughts."""

    needs: ClassVar = {
        "message": ("role", "content"),
        "function_call": ("call_id", "name", "arguments"),
        "function_call_output": ("call_id", "output"),
        "custom_tool_call": ("call_id", "name", "input"),
        "custom_tool_call_output": ("call_id", "output"),
        "item_reference": ("id",),
    }

    type: Annotated[
        Literal[
            "message",
            "function_call",
            "function_call_output",
            "custom_tool_call",
            "custom_tool_call_output",
            "item_reference",
            "reasoning",
        ],
        BeforeValidator(lambda value: value or "message"),
    ] = "message"
    id: Annotated[str, MaxLen(128)] | None = None
    role: Literal["system", "developer", "user", "assistant"] | None = None
    content: Parts | None = None
    call_id: wire.CallId | None = None
    name: wire.Id | None = None
    namespace: wire.Id | None = None
    arguments: wire.Text | None = None
    input: wire.Text | None = None
    output: Parts | None = None
    encrypted_content: wire.Text | None = None


def _read(item: Item, info: ValidationInfo[wire.RequestLimits]) -> ItemRead:
    """Return the message; a text for instructions, thoughts as they are kept, None for those that cannot be sent back.

    An item that is named by its id alone stays as it is, to be looked up.
    """
    max_chars = info.context.message_chars
    match item.type:
        case "message":
            assert item.role is not None
            return wire.message_of(item.role, cast("list[str | Attachment]", item.content), max_chars)
        case "item_reference":
            return item
        case "reasoning":
            return reasoning_item(item.model_dump())
        case "function_call_output" | "custom_tool_call_output":
            said = cast("list[str | Attachment]", item.output)
            return wire.message_of("tool", said, max_chars, call_id=item.call_id or "", at="output")
    is_custom = item.type == "custom_tool_call"
    text = (item.input if is_custom else item.arguments) or ""
    extra = json.dumps({"namespace": item.namespace}) if item.namespace else ""
    call = ToolCall(item.call_id or "", item.name or "", text, is_custom, extra)
    return wire.message_of("assistant", (), max_chars, calls=(call,), at="input" if is_custom else "arguments")


ReadItem = Annotated[Item, AfterValidator(_read)]
ItemRead = PromptMessage | str | Item | dict[str, Any] | None
Joined = PromptMessage | str | None


def _joined(items: Sequence[Joined | dict[str, Any]]) -> list[Joined]:
    """Join the calls of one answer, which are items of their own, in the place of the first; thoughts to their call."""
    joined: list[Joined] = []
    last: int | None = None
    reasoning: list[dict[str, Any]] = []
    for item in items:
        reasoning += [item] if isinstance(item, dict) else []
        message = None if isinstance(item, dict) else item
        if isinstance(message, PromptMessage) and message.calls and reasoning:
            message, reasoning = replace(message, calls=(message.calls[0].after(reasoning), *message.calls[1:])), []
        before = None if last is None else joined[last]
        if isinstance(message, PromptMessage) and message.calls and isinstance(before, PromptMessage) and before.calls:
            assert last is not None
            joined[last], message = before.joined(message), None
        elif isinstance(message, PromptMessage):
            last = len(joined)
        joined.append(message)
    return joined


# Parameters


class OutputFormat(wire.Typed):
    needs: ClassVar = {"text": (), "json_object": (), "json_schema": ("name",)}

    type: Literal["text", "json_object", "json_schema"]
    name: str | None = None


class TextOptions(wire.Wire):
    model_config = ConfigDict(extra="forbid")

    format: OutputFormat | None = None
    verbosity: str | None = None


class Reasoning(wire.Wire):
    model_config = ConfigDict(extra="forbid")

    effort: str | None = None
    summary: object = None
    generate_summary: object = None
    context: object = None
    mode: object = None


class Tool(wire.Typed):
    """A tool of the client's, or one that the model's server has itself, such as `web_search`."""

    needs: ClassVar = dict.fromkeys(CLIENTS_TOOLS, ("name",))

    type: Annotated[str, Field(pattern=r"^[a-z0-9_.-]{1,64}$")]
    name: Annotated[str, Field(pattern=wire.TOOL_NAME)] | None = None
    parameters: dict[str, Any] | None = None
    format: dict[str, Any] | None = None


_LOGPROBS = "message.output_text.logprobs"
"""The one value of `include` for something that answers of this server could have, and have not."""
_REASONING = "reasoning.encrypted_content"
_SHOWN = {*wire.PassedOn.model_fields, "store", "conversation", "text", "reasoning", "metadata", "max_output_tokens"}
_SHOWN |= {"previous_response_id", "truncation"}
_SHOWN -= {"user", "safety_identifier"}  # of an end user's name, only a hash is stored


class ResponseBody(wire.Body):
    wording: ClassVar = WORDING
    passed_on: ClassVar = tuple(wire.PassedOn.model_fields)
    without_effect: ClassVar = {
        "background": False,
        "max_tool_calls": None,
        "top_logprobs": 0,
        "prompt": None,
        "context_management": [],
        "moderation": None,
        "prompt_cache_options": None,
    }

    input: Annotated[
        list[ReadItem],
        Field(fail_fast=True),
        MinLen(1),
        MaxLen(wire.MAX_MESSAGES),
        BeforeValidator(lambda value: [{"role": "user", "content": value}] if isinstance(value, str) else value),
    ]
    instructions: wire.Text | None = None
    previous_response_id: str | None = None
    max_output_tokens: wire.Limit | None = None
    tools: Annotated[list[Tool], MaxLen(wire.MAX_TOOLS), Field(fail_fast=True)] = []
    text: TextOptions = TextOptions()
    reasoning: Reasoning = Reasoning()
    truncation: Literal["auto", "disabled"] | None = None
    include: Annotated[list[str], MaxLen(32)] = []
    client_metadata: object = None

    @property
    def references(self) -> set[str]:
        """The ids of the items that are named by their ids alone: they are still to be looked up."""
        return {one.id or "" for one in self._items if isinstance(one, Item)}

    @property
    def _items(self) -> list[ItemRead]:
        return cast("list[ItemRead]", self.input)

    def request(self, found: Mapping[str, PromptMessage], *, has_hosted_tools: bool) -> wire.ChatRequest:
        """Return the request. `found`: the items that were looked up. Raises `RequestError` if one is missing.

        Unless the model's server has hosted tools, they are left out.
        """
        tools = [_tool(tool) for tool in self._given.get("tools", ())]
        hosted = dict.fromkeys(one["type"] for one in tools if one["type"] not in CLIENTS_TOOLS)
        left_out = [] if has_hosted_tools else list(hosted)
        options = self.reasoning.model_dump(exclude={"effort"}, exclude_none=True)
        shown = {name: value for name, value in self._given.items() if name in _SHOWN}
        require_storable(shown, "parameters", param=None, max_bytes=wire.MAX_JSON_BYTES)
        return self._request(
            _joined([_looked_up(at, one, found) for at, one in enumerate(self._items)]),
            parameters=self._for_model(),
            tools=[one for one in tools if one["type"] not in left_out],
            instructions=self.instructions or "",
            max_tokens=self.max_output_tokens,
            previous=self.previous_response_id,
            shown=shown,
            ignored=(*left_out, *(f"reasoning.{name}" for name in options)),
        )

    def _for_model(self) -> dict[str, Any]:
        """Return the parameters for the model, by their names in Chat Completions."""
        nested: dict[str, Any] = {"verbosity": self.text.verbosity, "reasoning_effort": self.reasoning.effort}
        if self.text.format is not None and self.text.format.type != "text":
            kind, given = self.text.format.type, self._given["text"]["format"]
            form = {name: value for name, value in given.items() if name != "type"}
            nested["response_format"] = {"type": kind} | ({kind: form} if kind == "json_schema" else {})
        nested["include"] = [_REASONING] if _REASONING in self.include else None
        nested["tool_choice"] = _choice(self.parameters.get("tool_choice"))
        return {**self.parameters, **{name: value for name, value in nested.items() if value is not None}}


def _looked_up(at: int, item: ItemRead, found: Mapping[str, PromptMessage]) -> Joined | dict[str, Any]:
    if not isinstance(item, Item):
        return item
    assert item.id is not None
    if item.id.startswith("rs_"):
        return None  # thoughts: they are stored with the call that they belong to
    if (message := found.get(item.id)) is None:
        raise RequestError(f"Item with id '{item.id}' not found.", param=f"input.[{at}].id", code="invalid_value")
    return message


def read_response(body: object, limits: wire.RequestLimits) -> ResponseBody:
    """Check the parsed `body`. Raises `RequestError`."""
    checked = ResponseBody.read(body, limits)
    if _LOGPROBS in checked.include:
        raise unsupported("include", f"cannot have '{_LOGPROBS}' here")
    if checked.conversation and checked.previous_response_id is not None:
        why = "The parameter 'previous_response_id' cannot be used in conjunction with 'conversation'."
        raise RequestError(why, param="previous_response_id", code="invalid_value")
    return checked


def _tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    """Return a tool in the format of Chat Completions, which nests its fields; a hosted one as it is."""
    kind = tool["type"]
    if kind not in CLIENTS_TOOLS:
        return dict(tool)
    fields = {name: value for name, value in tool.items() if name != "type" and value is not None}
    if (form := fields.get("format", {})).get("type") == "grammar":
        fields["format"] = {"type": "grammar", "grammar": {name: form[name] for name in form if name != "type"}}
    return {"type": kind, kind: fields}


def _choice(choice: object) -> object:
    match choice:
        case {"type": "allowed_tools", "mode": mode, "tools": [*tools]}:
            allowed = {"mode": mode, "tools": [_choice(one) for one in tools]}
            return {"type": "allowed_tools", "allowed_tools": allowed}
        case {"type": "function" | "custom" as kind, "name": name}:
            return {"type": kind, kind: {"name": name}}
    return choice
