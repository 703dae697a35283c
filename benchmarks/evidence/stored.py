"""The chats of the sets as the product stores them: imported and folded once, in a SQLite file that is kept.

The summarizer that folds them keeps nothing, so that only the window, the lines and recall count.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any

from benchmarks.evidence.questions import Sample
from chatmemory.llm.protocol import ChatModel, Completion, Deadlines, Delta, Prompt, Reply, Variant

if TYPE_CHECKING:
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


def fold(row: Chat) -> None:
    """Fold all that is due. Raise `RuntimeError` if that fails."""
    from chatmemory.llm import registry
    from memory.folding.fold import fold as fold_chat

    with registry.wrap_models(_Forgetful):
        report = fold_chat(row.pk, until=time.monotonic() + FOLD_SECONDS)
        while report.outcome == "more":
            report = fold_chat(row.pk, until=time.monotonic() + FOLD_SECONDS)
    if report.outcome not in ("done", "nothing", "idle"):
        raise RuntimeError(f"{row.title} was not folded: {report.outcome} {report.error}")


def imported(sample: Sample, title: str) -> Chat:
    """Store the messages of `sample` as a new chat, not folded yet."""
    from django.contrib.auth.models import User

    from chatmemory.llm import registry
    from conversations.interchange.read import ImportedChat, ImportedMessage
    from conversations.interchange.to_rows import import_chat
    from memory.recall.meaning import embedding_job

    owner, _ = User.objects.get_or_create(username=OWNER)
    messages = tuple(ImportedMessage(one.role, one.text, created_at=one.at) for one in sample.messages)
    row = import_chat(owner, ImportedChat(messages=messages, title=title))
    if registry.embeds():
        embedding_job.catch_up(row.pk, until=inf)
    return row


def _empty(schema: Mapping[str, Any]) -> Any:
    """Return the shortest value that satisfies a JSON Schema."""
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "object":
        return {name: _empty(inner) for name, inner in schema.get("properties", {}).items()}
    return {"array": [], "string": NOTHING, "boolean": False, "number": 0, "integer": 0}.get(str(kind))
