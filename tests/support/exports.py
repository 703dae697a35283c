"""Exports of ChatGPT and Claude, as these services write them; and their zips."""

import io
import json
import zipfile
from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]
NO_PARENT = "00000000-0000-4000-8000-000000000000"


def node(name: str, parent: str | None, role: str, *parts: Any, kind: str = "text", **message: Any) -> Json:
    """A node of ChatGPT's tree. `message` may have metadata, a recipient and others."""
    said = {
        "author": {"role": role, "name": None, "metadata": {}},
        "create_time": 1700000000.25,
        "content": {"content_type": kind, "parts": list(parts)},
        "metadata": {"model_slug": "gpt-4o"} if role == "assistant" else {},
        "recipient": "all",
        **message,
    }
    return {"id": name, "message": said, "parent": parent, "children": []}


def chatgpt(name: str, *nodes: Json, title: str | None = "Herons", current: Any = None, **fields: Any) -> Json:
    """A conversation of ChatGPT; without nodes, one of a question and an answer."""
    nodes = nodes or (
        node("q", "root", "user", f"What is {name}?"),
        node("a", "q", "assistant", f"{name} it is."),
    )
    tree: Json = {"root": {"id": "root", "message": None, "parent": None, "children": []}}
    tree |= {one["id"]: one for one in nodes}
    return {
        "title": title,
        "create_time": 1700000000,
        "mapping": tree,
        "current_node": current or nodes[-1]["id"],
        "conversation_id": name,
        **fields,
    }


def claude(uuid: str, *messages: Json, **fields: Any) -> Json:
    messages = messages or (
        claude_message("human", f"What is {uuid}?"),
        claude_message("assistant", f"{uuid} it is."),
    )
    head = {"uuid": uuid, "name": "Reeds", "created_at": "2026-01-02T03:04:05.678901Z"}
    return {**head, "account": {"uuid": "x"}, "chat_messages": list(messages), **fields}


def claude_message(sender: str, text: str, **fields: Any) -> Json:
    blocks = [{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": text}]
    return {"sender": sender, "text": text, "content": blocks, "attachments": [], "files": [], **fields}


def zipped(**files: Any) -> bytes:
    """A zip of JSON files beside others; `_` in a name stands for `-`."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("chat.html", "<html>")
        archive.writestr("../../conversations.json.exe", "no")
        for name, value in files.items():
            text = value if isinstance(value, str) else json.dumps(value)
            archive.writestr(f"export/{name.replace('_', '-')}.json", text)
    return made.getvalue()


def large(size: int) -> Iterator[str]:
    """An export of ChatGPT of about `size` bytes, in pieces: conversations of about 60 kB."""
    text = "The heron stands in the reeds, and waits for what the water brings. " * 15
    written, number = 0, 0
    while written < size:
        turns = range(25)
        nodes = [node("n0", "root", "user", text)]
        nodes += [
            node(f"n{at}", f"n{at - 1}", ("user", "assistant")[at % 2], f"{number}.{at} {text}") for at in turns[1:]
        ]
        one = json.dumps(chatgpt(f"c{number}", *nodes))
        yield ("[" if not number else ",\n") + one
        written, number = written + len(one), number + 1
    yield "]"
