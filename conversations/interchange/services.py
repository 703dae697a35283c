"""A conversation as ChatGPT or Claude exports it → a chat in OpenAI's format. Pure.

Neither format is documented, so only what is needed is read, and the rest is left out and counted by kind. Of a
conversation with branches, the messages from the first to the one that was shown last count. Not taken: what the
service hides, the model's reasoning, calls of tools and their outputs, except for documents that were written by such
a call (canvases, artifacts). Where an image or a file was, a mark says so.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, Final

from pydantic import TypeAdapter

from chatmemory.text.cleaning import clean
from chatmemory.text.turn_line import plain_title
from conversations.interchange.values import FormatError, Time

_TIME: TypeAdapter[datetime] = TypeAdapter(Time)
_MARK = re.compile("\ue200(\\w+)((?:\ue202[^\ue200-\ue202]*)*)\ue201")
"""Marks in ChatGPT's text that its page replaces: a source, images, a name with a card, a link."""
_IMAGE = re.compile(r"image(?:/.*)?|.*\.(?:png|jpe?g|gif|webp|heic)", re.IGNORECASE | re.DOTALL)
_DOCUMENT = ("content", "file_text", "new_str", "replacement", "comment")
"""Fields of calls that write a document, or change it, with text of it or on it."""
Json = Mapping[str, Any]

# What is left out of imports of any format

KINDS: Final = {
    "thoughts": ("Thoughts of the model.", "think thought reason"),
    "tool_messages": (
        "Calls of tools and their outputs.",
        "tool function call execution output tether brows webpage search code computer error",
    ),
    "images": ("Images; a mark `[image]` stays for each.", "image"),
    "recordings": ("Recordings; words that the export has as text stay.", "audio video voice speech"),
    "system_messages": (
        "System messages, custom instructions and others that were not shown.",
        "system context instruction developer",
    ),
    "files": ("Files; a mark with the name stays for each.", "file document"),
    "branch_messages": ("Messages of branches other than the one shown last.", ""),
    "empty_messages": ("Messages without content.", ""),
    "others": ("Other messages, and parts of messages, that have no meaning here.", ""),
}
"""Kinds of what is left out: the meaning, and words that the name of a type of this kind has. The first kind counts."""
MARKS: Final = {"images": "[image]", "files": "[file]", "recordings": "[recording]"}
"""Marks that stay in a message in place of something whose name is not known."""


def kind_of(name: object) -> str:
    """Return the kind of a type of messages or parts, by its name: `tool_result`, `audio_asset_pointer`."""
    name = str(name).lower()
    found = (kind for kind, (_, words) in KINDS.items() if any(one in name for one in words.split()))
    return next(found, "others")


def in_words(left_out: Mapping[str, int]) -> str:
    """Return the counts as text, such as `2 thoughts, 1 images left out`."""
    found = [f"{left_out[kind]:,} {kind.replace('_', ' ')}" for kind in KINDS if left_out.get(kind)]
    return f"{', '.join(found) or 'nothing'} left out"


# Conversations


def source_id(value: Any) -> str:
    """Return the id by which a chat is known in every export. Raises `FormatError` for other formats."""
    match value:
        case {"mapping": {**nodes}} if not _is_deepseek(nodes):
            names = (value.get("conversation_id"), value.get("id"), *nodes)  # the oldest exports have no id
            if found := next((one for one in names if isinstance(one, str) and one), ""):
                return f"chatgpt:{clean(found)[:200]}"
        case {"chat_messages": [*_], "uuid": str(found)} if found:
            return f"claude:{clean(found)[:200]}"
    raise FormatError("it is not a conversation of ChatGPT or Claude")


def _is_deepseek(nodes: Mapping[Any, Any]) -> bool:
    """Whether a tree is one of DeepSeek, whose messages have fragments and no author."""
    return any("fragments" in _object(_object(one).get("message")) for one in nodes.values())


def openai_chat(value: Json, max_messages: int | None = None) -> tuple[dict[str, object], Counter[str]]:
    """Return a conversation that has a `source_id` in OpenAI's format, and what is left out of it, by kind.

    Raises `FormatError` for more than `max_messages`.
    """
    name = source_id(value)
    is_chatgpt = name.startswith("chatgpt:")
    title = value.get("title" if is_chatgpt else "name")
    messages = list(_of_chatgpt(value) if is_chatgpt else _of_claude(value))
    said = [one for one in messages if one["role"] and one["content"]]
    if max_messages is not None and len(said) > max_messages:
        raise FormatError(f"it has {len(said):,} messages; at most {max_messages:,} are taken here")
    chat: dict[str, object] = {
        "id": name,
        "title": title if isinstance(title, str) else None,
        "created_at": _time(value.get("create_time" if is_chatgpt else "created_at")),
        "messages": said,
    }
    return chat, Counter(
        kind for one in messages for kind in one["left_out"] or ([] if one["content"] else ["empty_messages"])
    )


def _left_out(*kinds: str) -> Json:
    """Return a message that is left out."""
    return _message(None, (), kinds, None)


def _message(
    role: object, texts: Sequence[object], left_out: Sequence[str], time: object, model: object = None
) -> Json:
    """Return a message in OpenAI's format, with a mark for each image. Without a role, only what is left out counts."""
    found = [one for one in texts if isinstance(one, str) and one.strip()]
    found += [MARKS["images"]] * left_out.count("images")
    if not found and "recordings" in left_out:
        found = [MARKS["recordings"]]
    return {
        "role": role,
        "content": "\n\n".join(found),
        "created_at": _time(time),
        "model": model[:128] if isinstance(model, str) else None,
        "left_out": left_out,
    }


def _files(files: Sequence[Json]) -> tuple[str, list[str]]:
    """Return marks with the names of a message's files, and the kind of each file and image."""
    marks: list[str] = []
    kinds: list[str] = []
    for one in files:
        name = plain_title(str(one.get("file_name") or one.get("name") or "without a name"))
        is_image = _IMAGE.fullmatch(str(one.get("file_kind") or one.get("mime_type") or name))
        kinds.append("images" if is_image else "files")
        marks += [] if is_image else [f"[file: {name}]"]
    return " ".join(marks), kinds


def _document(call: object) -> str:
    """Return the text that a call writes: a whole document with its title, or what it puts into one."""
    if isinstance(call, str):
        with suppress(ValueError, RecursionError):
            call = json.loads(call)
    call = _object(call)
    parts = [call, *_objects(call.get("updates")), *_objects(call.get("comments"))]
    texts = [part[name] for part in parts for name in _DOCUMENT if isinstance(part.get(name), str)]
    title = call.get("title") or call.get("name")
    return "\n\n".join(one for one in [title, *texts] if isinstance(one, str)) if any(texts) else ""


def _without_mark(mark: re.Match[str]) -> str:
    """Return the words in a mark: a name or a link; of others there is nothing to read."""
    words = mark[2].split("\ue202")[1:]
    if mark[1] == "entity":
        with suppress(ValueError, RecursionError):
            words = _list(json.loads("".join(words)))[1:2]
    return " ".join(map(str, words)) if mark[1] in ("entity", "url") else ""


def _time(value: object) -> datetime | None:
    """Return a time of an export, None if it is missing or makes no sense."""
    try:
        return _TIME.validate_python(value)
    except (ValueError, OverflowError):
        return None


def _path(times: dict[str, Any], parents: Mapping[str, str], last: Any) -> list[str]:
    """Return the names from the first to `last`, or else to the newest leaf, each the parent of the next one.

    A circle ends where it closes.
    """
    if not isinstance(last, str) or last not in times:
        inner = set(parents.values())
        leaves = [name for name in reversed(times) if name not in inner] or list(reversed(times))
        last = max(leaves, key=lambda name: str(_time(times[name]) or ""), default=None)
    path: dict[str, None] = {}
    while last in times and last not in path:
        path[last] = None
        last = parents.get(last)
    return list(reversed(path))


def _object(value: object) -> Json:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _objects(value: object) -> list[Json]:
    """Return the objects of a list; none if it is no list."""
    return [one for one in _list(value) if isinstance(one, dict)]


def _of_chatgpt(value: Json) -> Iterator[Json]:
    """A tree of messages, whose nodes name their parent, their children or both, and which of them was shown last."""
    nodes = {name: _object(node) for name, node in value["mapping"].items()}
    messages = {name: _object(node.get("message")) for name, node in nodes.items()}
    named = [(child, name) for name, node in nodes.items() for child in _list(node.get("children"))]
    named += [(name, node.get("parent")) for name, node in nodes.items()]
    parents = {
        child: name for child, name in named if isinstance(child, str) and isinstance(name, str) and name in nodes
    }
    times = {name: message.get("create_time") for name, message in messages.items()}
    path = _path(times, parents, value.get("current_node"))
    for name in path:
        if message := messages.pop(name):
            yield _message_of_chatgpt(message)
    yield from (_left_out("branch_messages") for message in messages.values() if message)


def _message_of_chatgpt(message: Json) -> Json:
    content, metadata = _object(message.get("content")), _object(message.get("metadata"))
    parts, kind = content.get("parts"), content.get("content_type")
    parts = parts if isinstance(parts, list) else [content.get("text")]
    said = [one.get("text") if isinstance(one, dict) else one for one in parts]
    texts = [_MARK.sub(_without_mark, one) for one in said if isinstance(one, str)]
    left_out = [kind_of(one.get("content_type")) for one in _objects(parts) if not isinstance(one.get("text"), str)]
    written_by = message.get("create_time"), metadata.get("model_slug")
    role, recipient = _object(message.get("author")).get("role"), message.get("recipient", "all")
    if role == "system" or metadata.get("is_visually_hidden_from_conversation"):
        return _left_out("system_messages")
    is_call = role == "assistant" and recipient not in ("all", None)
    is_document = is_call and str(recipient).startswith("canmore.")
    if is_document and (written := list(filter(None, map(_document, texts)))):
        return _message(role, written, (), *written_by)
    if role == "tool" or is_call:
        return _left_out(*left_out or ["tool_messages"])  # such as an image that a tool has drawn
    if role not in ("user", "assistant") or kind not in ("text", "multimodal_text", "code"):
        return _left_out(kind_of(kind))
    marks, files = _files(_objects(metadata.get("attachments")))
    is_pointed_to = "images" in left_out  # newer exports name an image in both places
    left_out += [one for one in files if one == "files" or not is_pointed_to]
    return _message(role, [*texts, marks], left_out, *written_by)


def _of_claude(value: Json) -> Iterator[Json]:
    """A list of messages, which name their parents in newer exports. Long pasted texts are apart."""
    messages = _objects(value["chat_messages"])
    named = {one["uuid"]: one for one in messages if isinstance(one.get("uuid"), str)}
    links = [(name, one.get("parent_message_uuid")) for name, one in named.items()]
    parents = {name: parent for name, parent in links if isinstance(parent, str)}
    if not named.keys().isdisjoint(parents.values()):
        times = {name: one.get("created_at") for name, one in named.items()}
        path = _path(times, parents, value.get("current_leaf_message_uuid"))
        yield from (_left_out("branch_messages") for _ in messages[len(path) :])
        messages = [named[name] for name in path]
    yield from map(_message_of_claude, messages)


def _message_of_claude(message: Json) -> Json:
    role = {"human": "user", "assistant": "assistant"}.get(str(message.get("sender")))
    if role is None:
        return _left_out("others")
    texts: list[object] = []
    left_out: list[str] = []
    for block in _objects(message.get("content")):
        kind, text = kind_of(block.get("type")), block.get("text") or block.get("transcript")
        if kind == "tool_messages":
            call = _object(block.get("input"))
            is_shown = block.get("name") == "artifacts" or "/outputs/" in str(call.get("path"))
            text = _document(call) if is_shown else ""
        if isinstance(text, str) and (text or kind == "others"):
            texts.append(text)
        else:
            left_out.append(kind)
    attachments = _objects(message.get("attachments"))
    pasted = [one["extracted_content"] for one in attachments if one.get("extracted_content")]
    known = {str(name) for one in attachments if (name := one.get("file_name"))}
    others = [one for one in attachments if not one.get("extracted_content")]
    others += [one for one in _objects(message.get("files")) if str(one.get("file_name")) not in known]
    marks, files = _files(others)
    texts = [*(texts or [message.get("text")]), *pasted, marks]
    return _message(role, texts, [*left_out, *files], message.get("created_at"))
