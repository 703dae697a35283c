"""A prompt as staff look at it: its budget as a bar, its sections with the way to their messages, and what is missing.

The same for what was sent and for what would be. Who may look is decided by whoever shows it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from uuid import UUID

from django.utils.html import format_html
from django.utils.safestring import SafeString

from conversations.admin_html import admin_url
from conversations.models import Message
from memory.explaining import Said, name_of
from memory.rendering import Section


@dataclass(frozen=True, slots=True)
class ShownSection:
    """A section with its text, where there is one to show, and links to its messages, a run of seqs each."""

    kind: str
    name: str
    tokens: int
    clipped: bool
    text: str
    messages: list[SafeString]


def at(chat_id: UUID, seq: int, text: str) -> SafeString:
    """A link to the place of a message in its chat's timeline."""
    url = admin_url("conversations_chat", "change", chat_id, at=seq)
    return format_html('<a href="{}#m{}">{}</a>', url, seq, text)


def shown_sections(chat_id: UUID, sections: Iterable[Section]) -> list[ShownSection]:
    """`sections` with the seqs of their messages as they are now."""
    sections = list(sections)
    wanted = {message_id for section in sections for message_id in section.message_ids}
    # By their keys alone: with the chat, SQLite would rather read all of it.
    seqs = dict(Message.objects.filter(pk__in=wanted).values_list("pk", "seq"))
    return [
        ShownSection(
            section.kind,
            name_of(section.kind),
            section.tokens,
            section.clipped,
            section.text,
            [
                at(chat_id, first, str(first) if first == last else f"{first}–{last}")
                for first, last in runs([seqs[one] for one in section.message_ids if one in seqs])
            ],
        )
        for section in sections
    ]


def runs(seqs: Iterable[int]) -> list[tuple[int, int]]:
    """The seqs in order, those that follow each other as their first and last."""
    ordered = sorted(set(seqs))
    if not ordered:
        return []
    breaks = [(a, b) for a, b in pairwise(ordered) if b > a + 1]
    return list(
        zip([ordered[0], *(b for _, b in breaks)], [*(a for a, _ in breaks), ordered[-1]], strict=True)
    )


def sentences(chat_id: UUID, told: Sequence[Said]) -> list[tuple[str, SafeString | str]]:
    """Sentences, each with a link to the message to look at for it."""
    return [(one.text, at(chat_id, one.seq, "look") if one.seq else "") for one in told]
