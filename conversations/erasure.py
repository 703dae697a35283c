"""Erasing a user with all that is theirs: out of use at once, then chat by chat, then the account itself.

The first step is one short transaction: the user can do nothing any more, and what is to be done stands in a row of its
own. The rest are transactions of a chat each, with a pause between them where there is only one writer; so it can be a
thousand chats, and whoever finds the row goes on where another stopped. What stays is named in docs/reliability.md: who
of the staff looked at what, by ids.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from django.conf import settings
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.contrib.contenttypes.models import ContentType
from django.db import DatabaseError, transaction
from django.db.models import Sum

from conversations import lifecycle
from conversations.accounts import api_tokens
from conversations.models import Allowance, Chat, Erasure, PassingCall

logger = logging.getLogger(__name__)

AT_ONCE_SECONDS = 5.0
"""How long whoever asks waits for it to be done. Nearly everybody's chats are gone by then; the sweep does the rest."""
PAGE = 100
"""Chats named at once."""


def what_is_theirs(user: User) -> tuple[int, int]:
    """How many chats and messages a user has."""
    chats = Chat.objects.filter(owner=user)
    return chats.count(), chats.aggregate(messages=Sum("last_seq"))["messages"] or 0


def request_erasure(user_id: int) -> None:
    """Have a user erased: from now on there is nothing that they, or anybody in their name, can do."""
    with transaction.atomic():
        if User.objects.select_for_update().filter(pk=user_id).update(is_active=False):
            Erasure.objects.get_or_create(user_id=user_id)
            api_tokens.revoke(user_id)
    api_tokens.end_sessions(user_id)
    logger.info("erasure requested", extra={"user": user_id})


def erase(
    user_id: int, *, seconds: float | None = None, tell: Callable[[int], None] = lambda _: None
) -> bool:
    """Erase a user of whom that was requested, for so many seconds at most. True if nothing is left.

    `tell` is told of each chat that went.
    """
    until = None if seconds is None else time.monotonic() + seconds
    while chats := list(Chat.objects.filter(owner=user_id).order_by("pk")[:PAGE]):
        for chat in chats:
            if until is not None and time.monotonic() > until:
                return False
            _delete(chat)
            tell(1)
    return _erase_account(user_id) or erase(user_id, seconds=seconds, tell=tell)


def erase_waiting(seconds: float) -> int:
    """Go on with the users who wait for it, for about so many seconds; how many are gone. Called by the sweep."""
    until, gone = time.monotonic() + seconds, 0
    for user_id in list(Erasure.objects.order_by("requested_at").values_list("pk", flat=True)[:1000]):
        left = until - time.monotonic()
        if left <= 0:
            break
        try:
            gone += erase(user_id, seconds=left)
        except DatabaseError as exc:  # one that cannot be erased does not keep the others from it
            logger.error("user not erased", extra={"user": user_id, "error": type(exc).__name__})
    return gone


def _delete(chat: Chat) -> None:
    """Delete a chat, and let others write for as long as that took, where only one can."""
    began = time.monotonic()
    lifecycle.delete_chat(chat)
    if settings.IS_SQLITE:
        time.sleep(time.monotonic() - began)


def _erase_account(user_id: int) -> bool:
    """Delete the user, who has no chats. False if they have one all the same: a request was under way."""
    with transaction.atomic():
        # In the order of those who begin and end calls, lest each waits for what the other holds.
        list(PassingCall.objects.select_for_update().filter(user=user_id).order_by("pk"))
        Allowance.objects.select_for_update().filter(pk=user_id).first()
        user = User.objects.select_for_update().filter(pk=user_id).first()
        if user is None:
            return True
        if Chat.objects.filter(owner=user).exists():
            return False
        _unname(user)
        user.delete()
    logger.info("user erased", extra={"user": user_id})
    return True


def _unname(user: User) -> None:
    """Take the name out of what the admin's log says of the user."""
    about = LogEntry.objects.filter(
        content_type=ContentType.objects.get_for_model(User), object_id=str(user.pk)
    )
    about.update(object_repr=f"user {user.pk}", change_message="")
