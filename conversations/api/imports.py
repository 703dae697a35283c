"""The view that imports an export of ChatGPT or Claude: for some seconds; then the client sends it again."""

import math
import time
from contextlib import suppress
from dataclasses import fields
from io import BytesIO
from typing import Any

from django.contrib.auth.models import User
from django.http.response import HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import inline_serializer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import BooleanField, CharField, IntegerField, ListField

from chatmemory.api.async_view import SharedAmount
from chatmemory.api.http import caller, example
from chatmemory.database import executors
from chatmemory.errors import InvalidRequest, RateLimited
from conversations.accounts import quotas
from conversations.api.chats import chats_operation
from conversations.api.replies import LimitedView
from conversations.interchange.exports import Export
from conversations.interchange.importing import MAX_FAILURES, ImportReport, import_export
from conversations.interchange.services import KINDS
from conversations.interchange.values import FormatError
from conversations.replies.generation import is_draining, refuse_when_draining

IMPORT_SECONDS = 10.0
"""After this time, a request that has stored a chat ends, and the client sends the file again."""
MAX_SECONDS = 20.0
"""How long it may take to find a chat that is not there yet."""
SECONDS_PER_HOUR = 300
"""How long a user may keep a process importing within an hour."""
_turn = SharedAmount(1)
"""A process imports for one request at a time: others of its few threads for slow work are for replies."""
_importing: set[int] = set()
"""The users whose imports this process works on, or who wait for their turn: each has one, so no user waits long."""
_ID = {"type": "string", "minLength": 1, "description": "Its id there."}
CONVERSATIONS = [
    {
        "type": "object",
        "required": [name, messages],
        "properties": {name: _ID, messages: {"type": kind, "description": "Its messages."}},
    }
    for name, messages, kind in (("conversation_id", "mapping", "object"), ("uuid", "chat_messages", "array"))
]
EXAMPLE = {"uuid": "0f3c", "chat_messages": [{"sender": "human", "text": "Where is my order AB-1234?"}]}


ImportOut = inline_serializer(
    "ImportOut",
    {
        "done": BooleanField(help_text="If false, send the same file again to import the rest."),
        **{one.name: IntegerField(help_text=one.metadata["meaning"]) for one in fields(ImportReport) if one.metadata},
        **{f"{kind}_skipped": IntegerField(help_text=told) for kind, (told, _) in KINDS.items()},
        "failures": ListField(child=CharField(), help_text=f"The first {MAX_FAILURES} of these: where, and why."),
        "shortened": ListField(
            child=CharField(),
            help_text=f"Messages longer than `MESSAGE_MAX_CHARS`, whose end was cut off: the first {MAX_FAILURES}.",
        ),
    },
)


class ImportView(LimitedView[tuple[User, bytes]]):
    stores_in_respond = True
    copies = 1

    @chats_operation(
        request={
            "application/zip": OpenApiTypes.BINARY,
            "application/json": {"type": "array", "items": {"anyOf": CONVERSATIONS}},
        },
        responses=ImportOut,
        operation_id="chats_import",
        examples=example([EXAMPLE]),
    )
    def post(self, request: Request) -> tuple[User, bytes]:
        """Import an export of ChatGPT or Claude. The body is the zip that you got from there, or the
        `conversations.json` in it. Of branches, the path that was shown last is imported. What was imported before is
        skipped, so a file may be sent again at any time. A request takes some seconds at most; while it answers `done:
        false`, send the same file again.
        """
        refuse_when_draining()
        quotas.require_request_left(caller(request).pk)
        return caller(request), request.body

    async def respond(self, prepared: tuple[User, bytes]) -> HttpResponseBase:
        user, body = prepared
        await executors.write(quotas.count_request, user.pk)
        await executors.write(_spend, user.pk, 0)
        if user.pk in _importing:
            raise RateLimited("An import of yours is running. Wait for its answer.", retry_after=5)
        _importing.add(user.pk)
        try:
            async with _turn.hold(1):
                began = time.monotonic()
                try:
                    return Response(await executors.slow(_import, user, body))
                finally:  # what was refused took its time, too
                    with suppress(RateLimited):
                        await executors.write(_spend, user.pk, math.ceil(time.monotonic() - began))
        finally:
            _importing.discard(user.pk)


def _spend(user_id: int, seconds: int) -> None:
    """Count seconds of importing. Raises `RateLimited` if the hour has none left."""
    quotas.take_now("import_seconds", user_id, SECONDS_PER_HOUR, seconds)


def _import(owner: User, body: bytes) -> dict[str, Any]:
    began, report, done = time.monotonic(), ImportReport(), False
    try:
        for _ in import_export(owner, Export(BytesIO(body)), report, counts_tokens=True):
            seconds = time.monotonic() - began
            if is_draining() or (seconds > IMPORT_SECONDS and report.chats):
                break
            if seconds > MAX_SECONDS:
                raise InvalidRequest("Reading this file takes too long. Ask the operator to import it.")
        else:
            done = True
    except FormatError as exc:
        raise InvalidRequest(f"This cannot be imported: {exc}.") from None
    if report.failures and not (report.chats or report.already_there or report.empty):
        why = f"The first of {report.failed}: {report.failures[0]}."
        raise InvalidRequest(f"Nothing could be imported. {why}")
    told = {one.name: getattr(report, one.name) for one in fields(report)}
    left_out = told.pop("left_out")
    return {"done": done, **told, **{f"{kind}_skipped": left_out[kind] for kind in KINDS}}
