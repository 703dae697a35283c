"""The conversations of an export → chats of a user, each once, however often and by how many processes it is imported.

A chat is stored whole, in a transaction of its own. So whoever is interrupted begins again, and what is there already
is skipped.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction

from chatmemory.database.executors import UNSTORABLE
from conversations.finding import is_member_known
from conversations.interchange.exports import Export
from conversations.interchange.read import read_service
from conversations.interchange.rows import PreparedChat, prepare_chat
from conversations.interchange.services import source_id
from conversations.interchange.values import FormatError

MAX_FAILURES = 100
"""How many of the conversations that could not be imported are reported one by one."""


@dataclass(slots=True)
class ImportReport:
    """What became of the conversations of an export so far. `api.imports` says what the fields mean."""

    chats: int = 0
    messages: int = 0
    images_skipped: int = 0
    already_there: int = 0
    empty: int = 0
    failed: int = 0
    failures: list[str] = field(default_factory=list)


def import_export(
    owner: User, export: Export, report: ImportReport, *, is_dry_run: bool = False
) -> Iterator[None]:
    """Store the chats of an export that the owner does not have, or only count them; yield after each conversation.

    Raises `User.DoesNotExist` if the owner has been deleted.
    """
    for where, value in export:
        try:
            _import(owner, value, report, is_dry_run)
        except UNSTORABLE as exc:
            # The text of other errors may be that of messages.
            is_ours = isinstance(exc, FormatError)
            why = str(exc) if is_ours else f"the database cannot store it ({type(exc).__name__})"
            report.failed += 1
            if len(report.failures) < MAX_FAILURES:
                report.failures.append(f"{where}: {why}")
        yield


def _import(owner: User, value: Any, report: ImportReport, is_dry_run: bool) -> None:
    if isinstance(value, FormatError):
        raise value
    source = source_id(value)
    if _has_chat(owner, source):
        report.already_there += 1
        return
    chat, images = read_service(value)
    if not chat.messages:
        report.empty += 1
    elif is_dry_run or _store_once(owner, source, prepare_chat(owner, chat)):
        report.chats += 1
        report.messages += len(chat.messages)
        report.images_skipped += images
    else:
        report.already_there += 1


def _store_once(owner: User, source: str, chat: PreparedChat) -> bool:
    """Store a chat unless the owner has one from there by now. Raises `User.DoesNotExist`."""
    with transaction.atomic():
        # Two imports of one user take turns. Calls only refer to this row, and do not wait.
        User.objects.select_for_update(no_key=True).get(pk=owner.pk, is_active=True)
        is_new = not _has_chat(owner, source)
        if is_new:
            chat.store()
    return is_new


def _has_chat(owner: User, source: str) -> bool:
    return is_member_known(owner, ("source_id", source))
