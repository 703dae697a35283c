"""Count what a deletion removes, before it; and answer it: with 204, or with these counts as a receipt."""

import re
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Q
from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import CharField, ChoiceField, DateTimeField, IntegerField, Serializer

from chatmemory.errors import ChatBusy
from conversations.message_changes import turn_of
from conversations.models import ActiveReply, Chat, Message, Status, lock_chat
from conversations.retention.models import Erased
from memory.changes import rows_of

_PREFERENCE = "`return=representation` asks for a receipt (RFC 7240)."
PREFER = [OpenApiParameter("Prefer", str, OpenApiParameter.HEADER, description=_PREFERENCE)]
_WITH_RECEIPT = re.compile(r'(?:^|,)\s*return\s*=\s*"?representation"?\s*(?:[;,]|$)', re.IGNORECASE)
Deleted = Chat | Message | ActiveReply | User


class DeletionOut(Serializer[Any]):
    """What a deletion takes with it; once it has begun, its receipt."""

    kind = ChoiceField(Erased.Kind.choices, help_text="What is deleted.")
    id = CharField(help_text="Its id in the log of erasures; of a user, their number and when they joined.")
    at = DateTimeField(allow_null=True, help_text="When it was deleted, as in that log; null if it is not.")
    status = ChoiceField(
        ["complete", "running"], allow_null=True, help_text="Whether the deletion is complete; null where `at` is."
    )
    messages = IntegerField(help_text="Messages that are deleted, including those emptied before.")
    attachments = IntegerField(help_text="Images and files of these messages that were stored.")
    pins = IntegerField(help_text="Pins that are deleted, including ended ones.")
    versions = IntegerField(help_text="Versions of the summary that go; with a message, those that lose their text.")
    prompts = IntegerField(help_text="Records of prompts that are deleted.")


DELETED = {204: None, 200: DeletionOut}


def delete(request: Request, what: Deleted, erase: Callable[[], bool | None]) -> Response:
    """Delete `what` by `erase` (False: it only began), and answer. A chat is counted under its lock, a user before."""
    if not _WITH_RECEIPT.search(request.headers.get("Prefer", "")):
        erase()
        return Response(status=204)
    return Response(erase_with_receipt(what, erase))


def erase_with_receipt(what: Deleted, erase: Callable[[], bool | None]) -> dict[str, Any]:
    """Delete `what` by `erase`, as `delete`, and return the receipt."""
    key = None if isinstance(what, User) else what.key if isinstance(what, Chat) else what.chat_key
    with transaction.atomic() if key else nullcontext():
        if key:
            lock_chat(key)
        receipt = _counts(what)
        receipt["status"] = "running" if erase() is False else "complete"
    logged = Erased.objects.filter(kind=receipt["kind"], object_id=receipt["id"])  # none if it was imported as deleted
    return dict(DeletionOut({**receipt, "at": logged.values_list("at", flat=True).first()}).data)


def deletion_counts(what: Deleted) -> dict[str, Any]:
    """Return what the deletion of `what` would take with it. Raises `ChatBusy`."""
    return dict(DeletionOut(_counts(what)).data)


def _counts(what: Deleted) -> dict[str, Any]:
    """Count what goes with `what`; with an app, also what goes with its end users. Raises `ChatBusy`."""
    if isinstance(what, ActiveReply):
        raise ChatBusy
    kind, object_id = Erased.Kind.CHAT, str(what.pk)
    if isinstance(what, Message):
        kind = Erased.Kind.MESSAGE
        what.refresh_from_db(fields=["status"])
        left = Q(**what.chat_key.columns) if what.status != Status.DELETED else Q(pk=None)
        messages = Message.objects.filter(left, pk=what.pk)
        rows = rows_of(Q(message=what), left & Q(forgotten_at=None, seen_seq__gte=turn_of(what)[0].seq))
    else:
        of = Q(chat=what) if isinstance(what, Chat) else Q(chat__owner=what.pk) | Q(chat__app=what.pk)
        if isinstance(what, User):
            kind, object_id = Erased.Kind.USER, Erased.user_id(what)
        messages = Message.objects.filter(of)
        rows = {**rows_of(of, of), "prompts": messages.filter(context_record__isnull=False)}
    rows |= {"messages": messages, "attachments": messages.filter(stored_attachments__isnull=False)}
    counts = {name: one.count() for name, one in rows.items()}
    return {"kind": kind, "id": object_id, "at": None, "status": None, "prompts": 0, **counts}
