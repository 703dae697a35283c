"""The conversations of an export → chats of a user, each once, however often and by how many processes it is imported.

A chat is stored whole, in a transaction of its own. So an import that was interrupted begins again, and skips
the chats that are there already.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction

from chatmemory.database.executors import UNSTORABLE
from chatmemory.errors import QuotaExceeded
from chatmemory.text.turn_line import CUT_OFF
from conversations.accounts import quotas
from conversations.chat_filters import Member, is_member_known
from conversations.interchange.exports import Export
from conversations.interchange.read import read_service
from conversations.interchange.rows import PreparedChat, prepare_chat
from conversations.interchange.services import source_id
from conversations.interchange.values import FormatError, ImportedChat

MAX_MESSAGES = 5_000
"""Messages of a conversation that a user imports: storing more holds up all other writers of SQLite. The operator's
command takes any number."""
MAX_FAILURES = 100
"""How many of the conversations that could not be imported are reported one by one, and of the shortened messages."""
_CUT = f"\n{CUT_OFF}"


def _count(meaning: str) -> int:
    return field(default=0, metadata={"meaning": meaning})


@dataclass(slots=True)
class ImportReport:
    """The outcome of an import so far."""

    chats: int = _count("Chats that were imported.")
    messages: int = _count("Their messages.")
    already_there: int = _count("Conversations that were imported before.")
    empty: int = _count("Conversations without messages, which are left out.")
    failed: int = _count("Conversations that could not be imported.")
    failures: list[str] = field(default_factory=list)
    shortened: list[str] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    """Counts by kind of what was left out of the imported conversations."""


def import_export(
    owner: User,
    export: Export,
    report: ImportReport,
    *,
    is_dry_run: bool = False,
    counts_tokens: bool = False,
) -> Iterator[None]:
    """Store the chats of an export that the owner does not have, or only count them; yield after each conversation.

    With `counts_tokens`, those of the chats count as used by the owner: they are summarized, which costs money. Then
    conversations that are too long are refused, too, and messages that are too long are shortened.
    Raises `User.DoesNotExist` if the owner has been deleted.
    """
    for where, value in export:
        try:
            _import(owner, value, report, is_dry_run, counts_tokens)
        except (*UNSTORABLE, QuotaExceeded) as exc:
            # The text of other errors may be that of messages.
            is_ours = isinstance(exc, FormatError | QuotaExceeded)
            why = str(exc) if is_ours else f"the database cannot store it ({type(exc).__name__})"
            report.failed += 1
            if len(report.failures) < MAX_FAILURES:
                report.failures.append(f"{where}: {why}")
        yield


def _import(owner: User, value: Any, report: ImportReport, is_dry_run: bool, counts_tokens: bool) -> None:
    if isinstance(value, FormatError):
        raise value
    source = ("source_id", source_id(value))
    if is_member_known(owner, source):
        report.already_there += 1
        return
    chat = read_service(value, MAX_MESSAGES if counts_tokens else None)
    chat, shortened = _within_limits(chat) if counts_tokens else (chat, [])
    if not chat.messages:
        report.empty += 1
    elif is_dry_run or _store_once(owner, source, prepare_chat(owner, chat), counts_tokens):
        report.chats += 1
        report.messages += len(chat.messages)
        report.left_out.update(chat.left_out)
        report.shortened += shortened[: MAX_FAILURES - len(report.shortened)]
    else:
        report.already_there += 1


def _within_limits(chat: ImportedChat) -> tuple[ImportedChat, list[str]]:
    """Cut the messages that are too long for a request; return which these are, too."""
    limit, messages, shortened = settings.MESSAGE_MAX_CHARS, list(chat.messages), list[str]()
    for at, one in enumerate(messages):
        if (length := len(one.content)) > limit:
            messages[at] = replace(one, content=one.content[: max(0, limit - len(_CUT))] + _CUT)
            shortened.append(f"“{chat.title}”, message {at + 1}: {length:,} characters, cut to {limit:,}")
    return replace(chat, messages=messages), shortened


def _store_once(owner: User, source: Member, chat: PreparedChat, counts_tokens: bool) -> bool:
    """Store a chat unless the owner has one from there by now. Raises `User.DoesNotExist` and `QuotaExceeded`."""
    with transaction.atomic():
        if counts_tokens:  # locks before the user, as a deletion does
            quotas.spend(owner.pk, chat.tokens)
        # Two imports of one user take turns. Calls only refer to this row, and do not wait.
        User.objects.select_for_update(no_key=True).get(pk=owner.pk, is_active=True)
        is_new = not is_member_known(owner, source)
        if is_new:
            chat.store()
        else:
            transaction.set_rollback(True)  # what was spent
    return is_new
