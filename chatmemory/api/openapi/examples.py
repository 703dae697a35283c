"""An example of every body: requests are written by hand, answers are composed from their schema.

Pure. A composed example has all properties of its schema, each with the value listed below for its name, or else one
that its type allows, so it is never out of date.
"""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

_CHAT = "019ab1c2-7d40-7000-8000-00000000c4a7"
_MESSAGE = "019ab1c2-7d40-7000-8000-000000000002"
REQUESTS: dict[str, Any] = {
    "ask": {"messages": [{"role": "user", "content": "Say hello."}], "stream": False},
    "v1_auth_token_create": {"username": "demo", "password": "correct horse battery staple"},
    "completions_create": {
        "model": "arco",
        "messages": [{"role": "user", "content": "Where is my order AB-1234?"}],
    },
    "chats_create": {"title": "My order", "instructions": "Be brief.", "policy": "chunked"},
    "chats_update": {"title": "My order AB-1234"},
    "context_preview": {"message": "Where is my order?", "budget": 2000},
    "messages_create": {"message": "Where is my order AB-1234?"},
    "messages_update": {"content": "Where is my order AB-1243?"},
    "messages_regenerate": {"stream": False},
    "pins_create": {"text": "Always answer in metric units."},
    "resummarize": {"mode": "update"},
    "revisions_restore": {"pause": True},
    "me_delete": {"password": "correct horse battery staple"},
    "message": {"chat_id": _CHAT, "message": "Where is my order AB-1234?"},
    "message_first": {
        "message": "My order AB-1234 has not arrived.",
        "model_variant": "arco",
        "stream": False,
    },
    "search": {"q": "order AB-1234"},
    "summarize": {
        "messages": [
            {"role": "user", "content": "My order AB-1234 has not arrived."},
            {"role": "assistant", "content": "It was sent on 4 May and arrives tomorrow."},
        ]
    },
    "trace": {"text": "AB-1234"},
}
"""Example requests by operation. Each can be sent as it is, except for ids and passwords."""

VALUES: dict[str, Any] = {
    "against": 2,
    "budget": 3000,
    "by": "user",
    "cached_tokens": 1024,
    "chat_id": _CHAT,
    "clipped": False,
    "content": "Your order AB-1234 was sent on 4 May.",
    "cost_usd": 0.000412,
    "degraded": False,
    "duration_ms": 2140,
    "error": None,
    "exact": True,
    "from_seq": 41,
    "gained": ["4 May"],
    "global_summary": "- The user's order AB-1234 was sent on 4 May.",
    "id": _MESSAGE,
    "input_tokens": 1540,
    "instructions": "Be brief.",
    "kept": ["AB-1234"],
    "kind": "fold",
    "last_error": None,
    "lost": ["2 May"],
    "message_count": 62,
    "metadata": {},
    "model": "gpt-5-mini",
    "model_variant": "arco",
    "name": "arco",
    "next": None,
    "paused": None,
    "options": {"budget": 3000},
    "output_tokens": 28,
    "parent": 2,
    "policy": "chunked",
    "previous": None,
    "prompt_hash": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "rebuild": None,
    "drift": None,
    "role": "assistant",
    "said_tokens": 8735,
    "seq": 62,
    "share": 0.9,
    "source_hash": "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae",
    "state": {},
    "status": "complete",
    "superseded_by": None,
    "forgotten_at": None,
    "edited_at": None,
    "soft_faults": [],
    "text": "My order AB-1234 has not arrived.",
    "through_seq": 60,
    "title": "My order",
    "token_count": 12,
    "tokens": 1057,
    "tool": None,
    "unrepresented": 0,
    "username": "demo",
    "version": 3,
    "why": None,
    "ContextOut.clipped": 0,
    "HeldOut.lost": None,
    "DriftOut.share": {"before": 0.7, "after": 0.9},
    "MeOut.username": "demo",
    "ModelOut.max_output_tokens": None,
    "PieceOut.op": "insert",
    "PieceOut.text": "- The user's order AB-1234 was sent on 4 May.",
    "PinOut.kind": "pinned",
    "PinOut.text": "Always answer in metric units.",
    "PromptMessageOut.role": "user",
    "PromptMessageOut.content": "Where is my order AB-1234?",
    "RecallOut.reason": "new_words",
    "RecallOut.sought": "some",
    "RecallOut.why": "It has words that appear only in earlier messages.",
    "ReplyErrorOut.code": "upstream_timeout",
    "ReplyErrorOut.message": "The model's server took too long.",
    "SectionOut.kind": "summary",
    "SectionOut.text": "- The user's order AB-1234 was sent on 4 May.",
    "SectionOut.tokens": 1057,
    "SnippetOut.matches": [[3, 16]],
    "TokenOut.token": "3f9c0b2f6a0d4c1e8b7a",
    "WorkOut.attempt": 0,
    "WorkOut.error": None,
    "WorkOut.since": None,
    "WorkOut.state": "idle",
    "UnfoldedOut.tokens": 512,
}
"""Values by the name of a property, or by `Component.name` where a component needs another value."""
_FORMATS = {
    "uuid": _MESSAGE,
    "date-time": "2026-05-04T09:13:00Z",
    "date": "2026-05-04",
    "uri": "https://chat.example/v1/chats?cursor=cD0y",
}
_TYPES: dict[str, Any] = {"string": "text", "integer": 3, "number": 0.5, "boolean": False, "null": None}

EVENTS = """\
event: message.created
data: {"chat_id":"019ab1c2-7d40-7000-8000-00000000c4a7","user_message_id":"019ab1c2-7d40-7000-8000-000000000001",\
"message_id":"019ab1c2-7d40-7000-8000-000000000002","model_variant":"arco","context":{"tokens":1057,"budget":3000,\
"sections":[{"kind":"summary","tokens":450},{"kind":"window","tokens":607}]}}

event: content.delta
id: 5
data: {"delta":"Your "}

event: content.delta
id: 37
data: {"delta":"order AB-1234 was sent on 4 May."}

event: message.completed
id: 37
data: {"message":{"id":"019ab1c2-7d40-7000-8000-000000000002","status":"complete",\
"content":"Your order AB-1234 was sent on 4 May."}}

"""
"""An example of a stream. The message in its last event is shortened."""


def add_examples(schema: Schema) -> None:
    """Add an example to every JSON body and every stream that has none from its view."""
    components = schema["components"]["schemas"]
    for operation in (one for methods in schema["paths"].values() for one in methods.values()):
        name = operation["operationId"]
        for content in operation.get("requestBody", {}).get("content", {}).values():
            if not content.get("examples") and name in REQUESTS:
                content["example"] = REQUESTS[name]
        for status, answer in operation["responses"].items():
            for kind, content in answer.get("content", {}).items():
                if status.startswith("2") and not content.get("examples"):
                    content["example"] = (
                        EVENTS if kind == "text/event-stream" else example_of(content["schema"], components)
                    )


def example_of(schema: Schema, components: dict[str, Schema], name: str = "", of: str = "") -> Any:
    """Return a value that `schema` allows, for the property `name` of the component `of`."""
    for known in (f"{of}.{name}", name):
        if name and known in VALUES:
            return VALUES[known]
    if "$ref" in schema:
        inner = schema["$ref"].rsplit("/", 1)[1]
        return example_of(components[inner], components, of=inner)
    for several in ("allOf", "oneOf", "anyOf"):
        if several in schema:
            return example_of(schema[several][0], components, of=of)
    if "enum" in schema:
        return schema["enum"][0]
    return _by_type(schema, components, of)


def _by_type(schema: Schema, components: dict[str, Schema], of: str) -> Any:
    kind = schema.get("type", "object")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "array":
        return [example_of(schema["items"], components, of=of)]
    if kind == "object":
        inner = schema.get("properties", {})
        return {name: example_of(value, components, name, of) for name, value in inner.items()}
    return _FORMATS.get(schema.get("format", ""), _TYPES[kind])
