"""Messages as the page of a chat shows them: the head of a long one, how much is missing, what became of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from conversations.models import STREAMING, ActiveReply, Role
from memory.models import ContextRecord

HEAD_CHARS = 480
"""What of a long message shows at first."""
MOST_CHARS = 6000
"""What of it is on the page at all; the rest is on its own."""


@dataclass(frozen=True, slots=True)
class Bubble:
    """One message of a page. `rest` goes on where `head` ends; `missing` characters more are not on the page."""

    id: UUID
    seq: int
    role: str
    status: str
    superseded_by: int | None
    """Seq of the newer answer, 0 where that is on another page; None: it stands."""
    tokens: int
    characters: int
    head: str
    rest: str
    missing: int
    model_variant: str
    model: str
    created_at: Any
    error_code: str
    has_record: bool


def bubbles_of(rows: Sequence[dict[str, Any]]) -> list[Bubble]:
    """The messages of a page, from their columns and `characters`, and `text`: as much of it as may be shown."""
    seqs = {row["id"]: row["seq"] for row in rows}
    replies = [row["id"] for row in rows if row["role"] == Role.ASSISTANT]
    recorded = set(ContextRecord.objects.filter(pk__in=replies).values_list("pk", flat=True))
    return [_bubble(row, seqs, has_record=row["id"] in recorded) for row in rows]


def _bubble(row: dict[str, Any], seqs: dict[UUID, int], *, has_record: bool) -> Bubble:
    newer, error = row["superseded_by_id"], row["error"]
    head, rest = head_and_rest(row["text"])
    return Bubble(
        id=row["id"],
        seq=row["seq"],
        role=row["role"],
        status=row["status"],
        superseded_by=None if newer is None else seqs.get(newer, 0),
        tokens=row["token_count"],
        characters=row["characters"],
        head=head,
        rest=rest,
        missing=row["characters"] - len(row["text"]) if row["text"] else 0,
        model_variant=row["model_variant"],
        model=row["model"],
        created_at=row["created_at"],
        error_code=str(error.get("code", "")) if isinstance(error, dict) else "",
        has_record=has_record,
    )


def head_and_rest(text: str) -> tuple[str, str]:
    """`text` cut after a word where it is long, so that both parts together are it."""
    if len(text) <= HEAD_CHARS * 3 // 2:
        return text, ""
    cut = max(text.rfind(" ", HEAD_CHARS // 2, HEAD_CHARS), text.rfind("\n", HEAD_CHARS // 2, HEAD_CHARS)) + 1
    cut = cut or HEAD_CHARS
    return text[:cut], text[cut:]


def being_written(active: ActiveReply, *, texts: bool) -> Bubble:
    """The reply in the making, as far as it was saved."""
    head, rest = head_and_rest(active.text[:MOST_CHARS] if texts else "")
    return Bubble(
        id=active.message_id,
        seq=0,
        role=Role.ASSISTANT,
        status=STREAMING,
        superseded_by=None,
        tokens=0,
        characters=len(active.text),
        head=head,
        rest=rest,
        missing=max(0, len(active.text) - MOST_CHARS) if texts else 0,
        model_variant=active.model_variant,
        model=active.model,
        created_at=active.started_at,
        error_code="",
        has_record=False,
    )
