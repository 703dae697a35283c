"""OpenAPI links: the ids in an answer, and the operations that take them, for people and tools."""

from __future__ import annotations

from typing import Any

_CHAT = (
    "chats_read",
    "chats_update",
    "chats_delete",
    "messages_list",
    "messages_create",
    "brief_read",
    "revisions_list",
    "context_preview",
    "resummarize",
)
_MESSAGE = (
    "messages_read",
    "messages_context",
    "messages_stream",
    "messages_cancel",
    "messages_regenerate",
    "messages_update",
    "messages_delete",
)
_TURN = {"chat_id": "chat_id", "message_id": "message/id"}
LINKS: dict[str, list[tuple[tuple[str, ...], dict[str, str]]]] = {
    "chats_create": [(_CHAT, {"chat_id": "id"})],
    "message_first": [(_CHAT, {"chat_id": "chat_id"}), (_MESSAGE, _TURN)],
    "message": [(_MESSAGE, _TURN)],
    "messages_create": [(_MESSAGE, _TURN)],
    "messages_regenerate": [(_MESSAGE, _TURN)],
    "messages_list": [(_MESSAGE, {"chat_id": "results/0/chat_id", "message_id": "results/0/id"})],
    "chats_list": [(_CHAT, {"chat_id": "results/0/id"})],
    "revisions_list": [(("revisions_read",), {"version": "results/0/version"})],
}
"""By operation: the operations that its answer links to, and where in its body their parameters are.

A revision's chat is the one whose revisions were listed.
"""


def links_of(name: str) -> dict[str, Any]:
    """The OpenAPI links of an operation."""
    return {
        target: {
            "operationId": target,
            "parameters": {
                **({"chat_id": "$request.path.chat_id"} if "chat_id" not in places else {}),
                **{parameter: f"$response.body#/{place}" for parameter, place in places.items()},
            },
        }
        for targets, places in LINKS.get(name, ())
        for target in targets
    }
