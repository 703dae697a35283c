"""The chats of the sets as the product stores them: imported and folded once, in a SQLite file that is kept.

The summarizer that folds them keeps nothing, so that only the window, the lines and recall count.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any

from benchmarks.evidence.questions import Question, Sample
from chatmemory.llm.protocol import ChatModel, Completion, Deadlines, Delta, Prompt, Reply, Variant

if TYPE_CHECKING:
    from django.contrib.auth.models import User

    from conversations.interchange.rows import PreparedChat
    from conversations.interchange.values import ImportedChat
    from conversations.models import Chat

OWNER = "evidence"
NOTHING = "Nothing."
FOLD_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class _Forgetful:
    """A model whose summaries are empty, in whichever form is requested."""

    behind: ChatModel

    def complete(self, prompt: Prompt, variant: Variant, *, timeout: float) -> Completion:
        text = NOTHING if prompt.schema is None else json.dumps(_empty(prompt.schema.schema))
        return Completion(text, variant.model)

    def stream(self, prompt: Prompt, variant: Variant, deadlines: Deadlines) -> AsyncIterator[Delta | Reply]:
        return self.behind.stream(prompt, variant, deadlines)


def stored(sample: Sample) -> Chat:
    """Return the chat of `sample`; import and fold it first if it is not stored yet."""
    from conversations.models import Chat

    title = sample.key
    row = Chat.objects.filter(title=title).first()
    if row is None:
        row = imported(sample, f"{title}/unfolded")
        fold(row)
        Chat.objects.filter(pk=row.pk).update(title=title)
    return Chat.objects.get(pk=row.pk)


def stored_for(sample: Sample) -> Iterator[tuple[Question, Chat]]:
    """Yield each question of `sample` with the chat as it was when it was asked.

    The chat of questions in mid-chat grows from one to the next; it is not kept.
    """
    if all(one.at is None for one in sample.questions):
        chat = stored(sample)
        yield from ((one, chat) for one in sample.questions)
    else:
        yield from _growing(sample)


def _growing(sample: Sample) -> Iterator[tuple[Question, Chat]]:
    from conversations.chat_lifecycle import delete_chat
    from conversations.interchange.rows import prepare_chat

    prepared = prepare_chat(_owner(), to_import(sample, f"{sample.key}/growing"))
    chat, through = prepared.row, 0
    try:
        for question in sample.questions:
            end = len(sample.messages) if question.at is None else question.at
            if end > through:
                grow(prepared, through, end)
                through = end
            yield question, chat
    finally:
        delete_chat(chat)


def grow(prepared: PreparedChat, start: int, end: int) -> None:
    """Store the messages up to number `end`, after the first `start`, and fold. The chat may be new."""
    from django.db import transaction

    from conversations.models import Message
    from memory.changes import messages_changed
    from memory.pins.pins import pin_stated

    new, chat = prepared.messages[start:end], prepared.row
    with transaction.atomic():
        chat.last_seq = end
        chat.save()
        Message.objects.bulk_create(new)
        messages_changed(chat.key, from_seq=start + 1)
        said = {one.pk for one in new}
        pin_stated(chat.key, [one for one in prepared.stated if one[0].pk in said])
    _embed(chat)
    fold(chat)


def fold(row: Chat) -> None:
    """Fold all that is due. Raise `RuntimeError` if that fails."""
    from chatmemory.llm import registry
    from memory.folding.fold import fold as fold_chat

    with registry.wrap_models(_Forgetful):
        report = fold_chat(row.key, until=time.monotonic() + FOLD_SECONDS)
        while report.outcome == "more":
            report = fold_chat(row.key, until=time.monotonic() + FOLD_SECONDS)
    if report.outcome not in ("done", "idle"):
        raise RuntimeError(f"{row.title} was not folded: {report.outcome} {report.error}")


def imported(sample: Sample, title: str) -> Chat:
    """Store the messages of `sample` as a new chat, not folded yet."""
    from conversations.interchange.rows import import_chat

    row = import_chat(_owner(), to_import(sample, title))
    _embed(row)
    return row


def _owner() -> User:
    from django.contrib.auth.models import User

    return User.objects.get_or_create(username=OWNER)[0]


def to_import(sample: Sample, title: str) -> ImportedChat:
    """Return the messages of `sample` as a chat that can be imported."""
    from conversations.interchange.values import ImportedChat, ImportedMessage

    messages = tuple(ImportedMessage(one.role, one.text, created_at=one.at) for one in sample.messages)
    return ImportedChat(messages=messages, title=title)


def _embed(row: Chat) -> None:
    from memory.recall import embeddings

    if embeddings.embeds():
        embeddings.catch_up(row.key, until=inf)


def _empty(schema: Mapping[str, Any]) -> Any:
    """Return the shortest value that satisfies a JSON Schema."""
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "object":
        return {name: _empty(inner) for name, inner in schema.get("properties", {}).items()}
    return {"array": [], "string": NOTHING, "boolean": False, "number": 0, "integer": 0}.get(str(kind))
