"""Erase a user and all their data: disabled at once, then deleted chat by chat, then the account itself.

The first step is one short transaction: it disables the user and stores a row that says what is to be done. Then each
chat is deleted in its own transaction, with a pause in between if the database has only one writer. So a thousand
chats can be deleted, and any process that finds the row continues where another stopped. What stays is named in
docs/reliability.md: which staff member viewed what, by ids.
"""

import logging
import math
import time

from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.contrib.contenttypes.models import ContentType
from django.db import DatabaseError, transaction
from django.db.models import Q, Sum

from conversations import chat_lifecycle
from conversations.accounts import api_tokens
from conversations.accounts.models import Allowance, App, EndUser, PassingCall, Window
from conversations.models import Chat
from conversations.retention.models import Erased, Erasure

logger = logging.getLogger(__name__)

AT_ONCE_SECONDS = 5.0
"""Seconds that a request spends on an erasure. That is enough for nearly every user's chats; the sweep does the
rest."""
PAGE = 100
"""Number of chats listed at once."""


def chat_and_message_counts(user: User) -> tuple[int, int]:
    """Return the number of chats and messages of a user; if it is an app's account, of its end users, too."""
    chats = Chat.objects.filter(Q(owner=user) | Q(app=user.pk))
    return chats.count(), chats.aggregate(messages=Sum("last_seq"))["messages"] or 0


def request_erasure(user_id: int) -> None:
    """Request a user's erasure. From now on their sessions and tokens are refused."""
    with transaction.atomic():
        user = User.objects.select_for_update().filter(pk=user_id).first()
        if user is not None:
            User.objects.filter(pk=user_id).update(is_active=False)
            Erasure.objects.get_or_create(user_id=user_id)
            Erased.log(Erased.Kind.USER, Erased.user_id(user))  # already now: the erasure cannot fail any more
            api_tokens.revoke(user_id)
    api_tokens.end_sessions(user_id)
    logger.info("erasure requested", extra={"user": user_id})


def erase_at_once(user_id: int) -> bool:
    """Request a user's erasure, and begin with it: the sweep does what takes longer. Return True if nothing is left."""
    request_erasure(user_id)
    return erase(user_id, time.monotonic() + AT_ONCE_SECONDS)


def erase(user_id: int, until: float = math.inf) -> bool:
    """Erase a user whose erasure was requested, and the end users of an app before it. Return True if nothing is left.

    Stop at about the moment `until` of `time.monotonic`.
    """
    end_users, chats = EndUser.objects.filter(app=user_id), Chat.objects.filter(owner=user_id)
    while (end_user := end_users.first()) is not None:
        if time.monotonic() > until or not erase(end_user.pk, until):
            return False
    while keys := list(chats.order_by("pk").values_list("pk", "owner_id")[:PAGE]):
        chat_lifecycle.delete_chats(chats, keys, until)
        if time.monotonic() > until:
            return False
    return _erase_account(user_id) or erase(user_id, until)


def erase_after_commit(user_id: int) -> None:
    """Erase a user, and log what fails: the sweep does it. Django's `robust=True` would log the error's text."""
    try:
        erase(user_id, time.monotonic() + AT_ONCE_SECONDS)
    except Exception:
        logger.exception("erasing a user failed")


def erase_waiting(seconds: float) -> int:
    """Continue requested erasures for about `seconds`; return how many users are gone. Called by the sweep."""
    until, gone = time.monotonic() + seconds, 0
    for user_id in list(Erasure.objects.order_by("requested_at").values_list("pk", flat=True)[:1000]):
        if time.monotonic() >= until:
            break
        try:
            gone += erase(user_id, until)
        except DatabaseError as exc:  # one failed erasure must not stop the others
            logger.error("user not erased", extra={"user": user_id, "error": type(exc).__name__})
    return gone


def _erase_account(user_id: int) -> bool:
    """Delete the user, who has no chats. Return False if a request in progress has created one, or an end user."""
    with transaction.atomic():
        # Lock in the order in which calls begin and end, to avoid a deadlock.
        list(PassingCall.objects.select_for_update().filter(user=user_id).order_by("pk"))
        Allowance.objects.select_for_update().filter(pk=user_id).first()
        user = User.objects.select_for_update().filter(pk=user_id).first()
        App.objects.select_for_update().filter(pk=user_id).first()  # now it gets no more end users
        if user is None:
            return True
        if Chat.objects.filter(owner=user).exists() or EndUser.objects.filter(app=user.pk).exists():
            return False
        Window.objects.filter(owner_id=user.pk).delete()
        # The admin's log entries about the user keep no name.
        types = ContentType.objects.get_for_models(User, EndUser).values()
        about = LogEntry.objects.filter(content_type__in=types, object_id=str(user.pk))
        about.update(object_repr=f"user {user.pk}", change_message="")
        Erased.log(Erased.Kind.USER, Erased.user_id(user))  # an app's end users were not requested
        user.delete()
    logger.info("user erased", extra={"user": user_id})
    return True
