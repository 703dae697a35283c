"""The messages that recall looks at: who said many of them and how long they are, then, of those that are worth it, in
one select their stored terms, and the text of all but long ones.

Most of what is looked at is short, and most of what is shown is short: so their texts come along, and only those of
long messages that are shown after all take a second select. What is good of them is decided in `memory.ranking`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.db import connection

from conversations.models import SPOKEN, Message, Role
from memory.excerpts import Said
from memory.pg_functions import Function
from memory.ranking import Indexed, Size

SHORT_CHARS = 1500
"""Up to which a text comes along unasked. PostgreSQL keeps longer ones (from 2 kB) outside of the row."""

_MESSAGES = Message._meta.db_table
_STATUSES = ", ".join(f"'{status}'" for status in SPOKEN)
_LIVE = f"status IN ({_STATUSES}) AND superseded_by_id IS NULL AND token_count > 0"
_SHORT = f"CASE WHEN length(content) <= {SHORT_CHARS} THEN content END"
_ID_AND_DAY, _AMONG = {
    "postgresql": ("id::text, (created_at AT TIME ZONE 'UTC')::date::text", "= ANY(%s)"),
    "sqlite": ("id, substr(created_at, 1, 10)", "IN (SELECT value FROM json_each(%s))"),
}[connection.vendor]
_FROM = f"{_ID_AND_DAY} FROM {_MESSAGES} WHERE chat_id = %s AND seq {_AMONG}"
_LOOK = f"SELECT seq, role, token_count, terms, {_SHORT}, {_FROM} AND {_LIVE} ORDER BY seq"
_WHOLE = f"SELECT seq, role, token_count, NULL, content, {_FROM} ORDER BY seq"
"""SQL of our own, with one parameter however many seqs: as querysets they took two thirds longer."""
_SIZES = f"SELECT seq, role, token_count FROM {_MESSAGES} WHERE chat_id = %s AND seq {_AMONG} AND {_LIVE}"
LOOK = Function(
    "memory_recall_look",
    "uuid, integer[]",
    "TABLE (place integer, speaker varchar, tokens integer, has text, says text, key text, day text)",
    _LOOK.replace("%s", "$1", 1).replace("%s", "$2"),
)
SIZES = Function(
    "memory_recall_sizes",
    "uuid, integer[]",
    "TABLE (place integer, speaker varchar, tokens integer)",
    _SIZES.replace("%s", "$1", 1).replace("%s", "$2"),
)
if connection.vendor == "postgresql":
    _LOOK = f"SELECT * FROM {LOOK.name}(%s, %s)"
    _SIZES = f"SELECT * FROM {SIZES.name}(%s, %s)"

_Row = tuple[int, str, int, str | None, str | None, str, str]
"""Its seq, role, tokens, terms, text (None: a long one), id and day (UTC)."""


@dataclass(frozen=True, slots=True)
class Looked:
    """Messages as they were read, by seq."""

    chat_id: UUID
    rows: Mapping[int, _Row] = field(default_factory=dict)

    def indexed(self) -> dict[int, Indexed]:
        """All of them as the index holds them, in order."""
        user = Role.USER.value
        return {
            seq: Indexed(seq, role == user, tokens, tuple(terms.split("\n")) if terms else ("",))
            for seq, role, tokens, terms, *_ in self.rows.values()
        }

    def said(self, seqs: Collection[int]) -> dict[int, Said]:
        """What these of them say. Asks for the long ones."""
        short = {seq: _said(row) for seq in seqs if (row := self.rows[seq])[4] is not None}
        return short | quoted(self.chat_id, [seq for seq in seqs if seq not in short])

    def __or__(self, more: Looked) -> Looked:
        """These and more of the same chat."""
        return Looked(self.chat_id, {**self.rows, **more.rows})


def sizes(chat_id: UUID, seqs: Iterable[int]) -> dict[int, Size]:
    """Who said the live ones of these messages, and how long they are, by seq."""
    user = Role.USER.value
    return {seq: Size(role == user, tokens) for seq, role, tokens in _select(_SIZES, chat_id, seqs)}


def look(chat_id: UUID, seqs: Iterable[int]) -> Looked:
    """The live ones of these messages. Others are passed over, as if they were not there."""
    return Looked(chat_id, {row[0]: row for row in _select(_LOOK, chat_id, seqs)})


def quoted(chat_id: UUID, seqs: Iterable[int]) -> dict[int, Said]:
    """What these messages say, by seq. A superseded one as well: a prompt of then is shown as it was."""
    return {row[0]: _said(row) for row in _select(_WHOLE, chat_id, seqs)}


def _said(row: _Row) -> Said:
    seq, role, tokens, _, text, key, day = row
    return Said(UUID(key), seq, role == Role.USER, day, text or "", tokens)


def _select(statement: str, chat_id: UUID, seqs: Iterable[int]) -> list[Any]:
    wanted = sorted(set(seqs))
    if not wanted:
        return []
    listed = ",".join(map(str, wanted))
    params = (
        [str(chat_id), f"{{{listed}}}"] if connection.vendor == "postgresql" else [chat_id.hex, f"[{listed}]"]
    )
    with connection.cursor() as cursor:
        cursor.execute(statement, params)
        found: list[Any] = cursor.fetchall()
    return found
