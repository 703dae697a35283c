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
from conversations.interchange.rows import prepare_chat
from conversations.interchange.services import source_id
from conversations.interchange.values import FormatError, ImportedChat

MAX_FAILURES = 100
"""How many of the conversations that could not be imported are told one by one."""


@dataclass(slots=True)
class Brought:
    """What became of the conversations of an export so far."""

    chats: int = 0
    messages: int = 0
    images_skipped: int = 0
    already_there: int = 0
    empty: int = 0
    """Conversations in which nobody said anything. They are left out."""
    failed: int = 0
    failures: list[str] = field(default_factory=list)
    """The first of those that could not be imported: where they are, and why."""


def bring(owner: User, export: Export, brought: Brought, *, is_dry_run: bool = False) -> Iterator[None]:
    """Store the chats of an export that the owner does not have, or only count them; yield after each conversation.

    Raises `User.DoesNotExist` if the owner has been deleted.
    """
    for where, value in export:
        try:
            _bring(owner, value, brought, is_dry_run)
        except UNSTORABLE as exc:  # whose text may be what people said
            is_told = isinstance(exc, FormatError)
            why = str(exc) if is_told else f"the database cannot store it ({type(exc).__name__})"
            brought.failed += 1
            if len(brought.failures) < MAX_FAILURES:
                brought.failures.append(f"{where}: {why}")
        yield


def _bring(owner: User, value: Any, brought: Brought, is_dry_run: bool) -> None:
    if isinstance(value, FormatError):
        raise value
    if has_chat(owner, source_id(value)):
        brought.already_there += 1
        return
    chat, images = read_service(value)
    if not chat.messages:
        brought.empty += 1
    elif is_dry_run or store_once(owner, chat):
        brought.chats += 1
        brought.messages += len(chat.messages)
        brought.images_skipped += images
    else:
        brought.already_there += 1


def store_once(owner: User, chat: ImportedChat) -> bool:
    """Store a chat unless the owner has one of the same `source_id` by now. Raises `User.DoesNotExist`."""
    prepared = prepare_chat(owner, chat)
    with transaction.atomic():
        # Two imports of one user take turns. Calls only refer to this row, and do not wait.
        User.objects.select_for_update(no_key=True).get(pk=owner.pk, is_active=True)
        is_new = not has_chat(owner, str(chat.metadata["source_id"]))
        if is_new:
            prepared.store()
    return is_new


def has_chat(owner: User, source: str) -> bool:
    """Whether the owner has a chat that came from there."""
    return is_member_known(owner, ("source_id", source))
