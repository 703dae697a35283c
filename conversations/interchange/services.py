"""A conversation as ChatGPT or Claude exports it → a chat in OpenAI's format. Pure.

Neither format is documented, so only what is needed is read, and what is odd is left out. Of a conversation with
branches, the messages from the first to the one that was shown last count. Not taken: what the service hides, the
model's reasoning, calls of tools and their outputs. Where an image was, a mark says so.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from pydantic import TypeAdapter

from chatmemory.text.cleaning import clean
from conversations.interchange.values import FormatError, Time

_TIME: TypeAdapter[datetime] = TypeAdapter(Time)
_CITATION = re.compile("\ue200(?:cite|filecite|navlist)\ue202[^\ue200\ue201]{0,500}\ue201")
"""A reference to a web page or file that ChatGPT writes into its text, by a number that means nothing elsewhere."""
_IMAGE = re.compile(r"image|.*\.(?:png|jpe?g|gif|webp|heic)", re.IGNORECASE | re.DOTALL)
Json = Mapping[str, Any]


def source_id(value: Any) -> str:
    """Return what a chat is known by, however often it is exported. Raises `FormatError` if it is none of theirs."""
    match value:
        case {"mapping": {**nodes}}:
            names = (value.get("conversation_id"), value.get("id"), *nodes)  # the oldest exports have no id
            if found := next((one for one in names if isinstance(one, str) and one), ""):
                return f"chatgpt:{clean(found)[:200]}"
        case {"chat_messages": [*_], "uuid": str(found)} if found:
            return f"claude:{clean(found)[:200]}"
    raise FormatError("it is not a conversation of ChatGPT or Claude")


def openai_chat(value: Json) -> tuple[dict[str, object], int]:
    """Return a conversation that has a `source_id` in OpenAI's format, and how many images are left out."""
    name = source_id(value)
    is_chatgpt = name.startswith("chatgpt:")
    title = value.get("title" if is_chatgpt else "name")
    messages = list(_of_chatgpt(value) if is_chatgpt else _of_claude(value))
    chat: dict[str, object] = {
        "id": name,
        "title": title if isinstance(title, str) else None,
        "created_at": _time(value.get("create_time" if is_chatgpt else "created_at")),
        "messages": [one for one in messages if one["role"] and one["content"]],
    }
    return chat, sum(one["images"] for one in messages)


def _message(role: object, texts: Sequence[object], images: int, time: object, model: object = None) -> Json:
    """Return a message in OpenAI's format, with its images. Without a role, only these count."""
    found = [*texts, *["[image]"] * images]
    return {
        "role": role,
        "content": "\n\n".join(one for one in found if isinstance(one, str) and one.strip()),
        "created_at": _time(time),
        "model": model[:128] if isinstance(model, str) else None,
        "images": images,
    }


def _time(value: object) -> datetime | None:
    """Return a time of an export, None if it is missing or makes no sense."""
    try:
        return _TIME.validate_python(value)
    except (ValueError, OverflowError):
        return None


def _path(parents: Json, last: object) -> list[str]:
    """Return the names from the first to `last`, each the parent of the next one. A circle ends where it closes."""
    path: dict[str, None] = {}
    while isinstance(last, str) and last in parents and last not in path:
        path[last] = None
        last = parents[last]
    return list(reversed(path))


def _object(value: object) -> Json:
    return value if isinstance(value, dict) else {}


def _objects(value: object) -> list[Json]:
    """Return the objects of a list; none if it is no list."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _of_chatgpt(value: Json) -> Iterator[Json]:
    """A tree of messages, and which of them was shown last."""
    nodes = {name: _object(node) for name, node in value["mapping"].items()}
    parents = {name: node.get("parent") for name, node in nodes.items()}
    path = _path(parents, value.get("current_node")) or _path(parents, next(reversed(nodes), None))
    for name in path:
        message = _object(nodes[name].get("message"))
        content, metadata = _object(message.get("content")), _object(message.get("metadata"))
        if metadata.get("is_visually_hidden_from_conversation"):
            continue
        parts = content.get("parts")
        parts = parts if isinstance(parts, list) else [content.get("text")]
        images = sum(one.get("content_type") == "image_asset_pointer" for one in _objects(parts))
        role, recipient = _object(message.get("author")).get("role"), message.get("recipient", "all")
        if role not in ("user", "assistant") or (role == "assistant" and recipient not in ("all", None)):
            yield _message(None, (), images, None)  # such as one that a tool has drawn
        elif content.get("content_type") in ("text", "multimodal_text", "code"):
            texts = [one.get("text") if isinstance(one, dict) else one for one in parts]
            texts = [_CITATION.sub("", one) for one in texts if isinstance(one, str)]
            yield _message(role, texts, images, message.get("create_time"), metadata.get("model_slug"))


def _of_claude(value: Json) -> Iterator[Json]:
    """A list of messages, which name their parents in newer exports. Long pasted texts are apart."""
    messages = _objects(value["chat_messages"])
    named = {one["uuid"]: one for one in messages if isinstance(one.get("uuid"), str)}
    parents = {name: one.get("parent_message_uuid") for name, one in named.items()}
    if any(isinstance(one, str) and one in parents for one in parents.values()):
        path = _path(parents, value.get("current_leaf_message_uuid")) or _path(parents, [*parents][-1])
        messages = [named[name] for name in path]
    for one in messages:
        role = {"human": "user", "assistant": "assistant"}.get(str(one.get("sender")))
        blocks = _objects(one.get("content"))
        texts = [block.get("text") for block in blocks if block.get("type") == "text"] or [one.get("text")]
        pasted = [file.get("extracted_content") for file in _objects(one.get("attachments"))]
        kinds = [str(file.get("file_kind") or file.get("file_name")) for file in _objects(one.get("files"))]
        kinds += [str(block.get("type")) for block in blocks]
        images = sum(bool(_IMAGE.fullmatch(kind)) for kind in kinds)
        yield _message(role, [*texts, *pasted], images, one.get("created_at"))
