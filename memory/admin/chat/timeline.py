"""Pages of a chat's timeline: about thirty turns at a time, by seq, each with a mark of where memory has it.

All queries are by (chat, seq) and reach only as far as a page, so that a page costs the same however long the chat
is. Texts are loaded only for users who may read them; of a long message the beginning is shown, and how much is
missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import F, QuerySet, Value
from django.db.models.functions import Left, Length

from conversations.models import STREAMING, ActiveReply, Chat, Message, Role
from memory.context.plan.plan import Plan
from memory.explain.lineage import folds_of
from memory.explain.timeline import Mark, Place, TurnPlaces, Versions
from memory.history.turns import StoredMessage, Turn, to_turns
from memory.models import ContextRecord, ConversationBrief

TURNS = 30
"""The most turns on a page."""
ROWS = 90
"""The most messages on a page: a question that was regenerated has many replies."""
BEFORE = 16
"""About how many messages a page shows before the one it is opened at."""

_COLUMNS = (
    *("id", "seq", "role", "status", "superseded_by_id", "token_count", "line"),
    *("model_variant", "model", "created_at", "error", "characters", "text"),
)


class TimelineRequest(NamedTuple):
    """The page to show: turns that end before a message, begin after one, or include one; else the newest."""

    before: int | None = None
    after: int | None = None
    at: int | None = None


@dataclass(frozen=True, slots=True)
class Moment:
    """One turn of a page."""

    turn: Turn
    mark: Mark
    bubbles: tuple[Bubble, ...]


@dataclass(frozen=True, slots=True)
class TimelinePage:
    """Turns in order. `older` and `newer` are the seqs of the adjacent pages; None at that end of the chat."""

    moments: tuple[Moment, ...] = ()
    older: int | None = None
    newer: int | None = None

    @property
    def texts(self) -> str:
        """All message texts that the page shows."""
        shown = [bubble.head + bubble.rest for moment in self.moments for bubble in moment.bubbles]
        return "\n".join(text for text in shown if text)


def timeline(
    chat: Chat,
    brief: ConversationBrief | None,
    plan: Plan,
    versions: Sequence[Versions],
    wanted: TimelineRequest,
    *,
    texts: bool,
) -> TimelinePage:
    """A page of `chat`, whose next prompt shows `plan` and whose memory is based on `versions`.

    Without `texts`, no message text is loaded.
    """
    rows, more_before, more_after = _rows(chat, wanted, texts=texts)
    active = ActiveReply.objects.filter(chat=chat).annotate(seq=F("user_message__seq")).first()
    if not rows:
        return TimelinePage()
    turns = to_turns([_stored(row) for row in rows])
    turns = turns[:TURNS] if _goes_on(wanted) else turns[-TURNS:]
    first, last = turns[0].from_seq, turns[-1].through_seq
    asked = getattr(active, "seq", None)
    folded = brief.folded_through_seq if brief else 0
    standing = TurnPlaces(plan, folded, folds_of(brief, versions, first, last) if brief else (), asked)
    bubbles = bubbles_of([row for row in rows if first <= row["seq"] <= last])
    moments = []
    for turn in turns:
        mark = standing.of(turn)
        said = [bubble for bubble in bubbles if turn.from_seq <= bubble.seq <= turn.through_seq]
        if active is not None and mark.place == Place.WAITING:
            said.append(being_written(active, texts=texts))
        moments.append(Moment(turn, mark, tuple(said)))
    return TimelinePage(
        tuple(moments),
        first if more_before or first > rows[0]["seq"] else None,
        last if more_after or last < rows[-1]["seq"] else None,
    )


# Rows


def _goes_on(wanted: TimelineRequest) -> bool:
    """Whether the page is read forwards, from its oldest turn."""
    return wanted.at is not None or wanted.after is not None


def _rows(chat: Chat, wanted: TimelineRequest, *, texts: bool) -> tuple[list[dict[str, Any]], bool, bool]:
    """The messages of a page, as whole turns if they fit, and whether there are messages before and after them."""
    start = _start(chat, wanted)
    if start is not None:
        rows = list(_messages(chat, texts=texts).filter(seq__gte=start).order_by("seq")[: ROWS + 1])
        if len(rows) <= ROWS:
            return rows, start > 1, False
        is_whole = rows[-1]["role"] == Role.USER
        return rows[:-1] if is_whole else _without_last_turn(rows) or rows[:-1], start > 1, True
    before = wanted.before if wanted.before is not None else chat.last_seq + 1
    found = _messages(chat, texts=texts).filter(seq__lt=before).order_by("-seq")[: ROWS + 1]
    rows = list(found)[::-1]
    more_after = before <= chat.last_seq
    if len(rows) <= ROWS:
        return rows, False, more_after
    first = next((at for at, row in enumerate(rows) if at and row["role"] == Role.USER), 1)
    return rows[first:], True, more_after


def _start(chat: Chat, wanted: TimelineRequest) -> int | None:
    """The first message of a page that is read forwards: for `at`, the question of a turn some way before it."""
    if wanted.after is not None:
        return wanted.after + 1
    if wanted.at is None:
        return None
    questions = Message.objects.filter(chat=chat, role=Role.USER, seq__lte=max(1, wanted.at - BEFORE))
    found = questions.order_by("-seq").values_list("seq", flat=True).first() or 1
    return found if wanted.at - found < ROWS // 2 else wanted.at


def _without_last_turn(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """`rows` without the last turn, which may continue; [] if there is only one."""
    last = next((at for at in range(len(rows) - 1, -1, -1) if rows[at]["role"] == Role.USER), 0)
    return rows[:last]


def _messages(chat: Chat, *, texts: bool) -> QuerySet[Message, dict[str, Any]]:
    text = Left("content", MOST_CHARS) if texts else Value("")
    rows: QuerySet[Message, dict[str, Any]] = (
        Message.objects.filter(chat=chat).annotate(characters=Length("content"), text=text).values(*_COLUMNS)
    )
    return rows


def _stored(row: dict[str, Any]) -> StoredMessage:
    return StoredMessage(
        row["id"],
        row["seq"],
        row["role"],
        row["status"],
        row["superseded_by_id"] is not None,
        row["token_count"],
        line=row["line"],
    )


HEAD_CHARS = 480
"""How many characters of a long message are shown at first."""
MOST_CHARS = 6000
"""How many characters of it the page contains at all; the rest is on the message's own page."""


@dataclass(frozen=True, slots=True)
class Bubble:
    """One message of a page. `rest` continues `head`; `missing` further characters are not on the page."""

    id: UUID
    seq: int
    role: str
    status: str
    superseded_by: int | None
    """Seq of the newer answer, 0 if that is on another page; None if the message was not replaced."""
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

    @property
    def speaker(self) -> str:
        """A label for the author, or for the kind of message."""
        return Role(self.role).label


def bubbles_of(rows: Sequence[dict[str, Any]]) -> list[Bubble]:
    """The messages of a page, given their columns, `characters`, and `text` as far as it may be shown."""
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
    """`text` split after a word if it is long; the two parts joined are the text."""
    if len(text) <= HEAD_CHARS * 3 // 2:
        return text, ""
    cut = max(text.rfind(" ", HEAD_CHARS // 2, HEAD_CHARS), text.rfind("\n", HEAD_CHARS // 2, HEAD_CHARS)) + 1
    cut = cut or HEAD_CHARS
    return text[:cut], text[cut:]


def being_written(active: ActiveReply, *, texts: bool) -> Bubble:
    """The reply that is being generated, as far as it was saved."""
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
