"""The views for summaries that are not stored, and for the export of everything stored about the caller.

Requests are checked in the database executor and answered on the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial
from tempfile import SpooledTemporaryFile
from typing import IO, Any

from django.conf import settings
from django.http import StreamingHttpResponse
from django.http.response import HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from chatmemory.api.async_view import AsyncView
from chatmemory.api.http import caller
from chatmemory.database import executors
from chatmemory.runtime import threads
from chatmemory.text.tokens import count_tokens
from conversations.accounts import quotas, stateless_calls
from conversations.api.limited_view import LimitedView
from conversations.api.stateless_serializers import spoken
from conversations.replies.generation import is_draining, refuse_when_draining
from conversations.replies.stateless import cancel_on_drain
from memory.api import account_export
from memory.api.serializers import SummarizeIn, SummarizeOut, summarized_json
from memory.stateless_fold import SummaryRequest, TimeLeft, summarize


class SummarizeView(LimitedView):
    """Summarize for clients that manage their own history."""

    is_stateless = True

    @extend_schema(
        request=SummarizeIn,
        responses=SummarizeOut,
        operation_id="summarize",
        summary="Summarize a client-side history (stateless)",
        description="By the policy `interval` unless another is named. A message that begins with its opening words is "
        "taken for the previous summary.",
        tags=["stateless"],
    )
    def post(self, request: Request) -> tuple[SummaryRequest, int]:
        body = SummarizeIn(data=request.data)
        body.is_valid(raise_exception=True)
        refuse_when_draining()
        asked = body.validated_data
        wanted = SummaryRequest(asked["policy"], asked["previous_summary"], spoken(asked["messages"]))
        return wanted, stateless_calls.count(wanted.messages, wanted.previous)

    async def answer(self, opened: Any) -> HttpResponseBase:
        wanted, tokens = opened
        patience = TimeLeft(settings.REPLY_DEADLINES.total)
        call = await stateless_calls.begin(
            caller(self.request).pk, quotas.tokens_for(tokens, settings.SUMMARIZER)
        )
        spent: int | None = None
        try:
            made = await cancel_on_drain(threads.run(partial(summarize, wanted, patience)))
            told = made.usage.input_tokens + made.usage.output_tokens
            spent = told or tokens + count_tokens(made.state.summary)
        finally:
            patience.end()
            await asyncio.shield(stateless_calls.end(call, lambda: spent))
        return Response(summarized_json(made))


CHUNK = 64 * 1024
"""Characters written at once."""
IN_MEMORY = 1024 * 1024
"""Bytes of a chat held in memory while its owner reads them; the rest goes to a file that nobody else can open."""


class ExportView(AsyncView):
    @extend_schema(
        responses={(200, "application/json"): OpenApiResponse(OpenApiTypes.OBJECT, "All of it.")},
        operation_id="me_export",
        summary="Export all your data",
        description="One JSON object, streamed. `manage.py import_chat` reads it.",
        tags=["account"],
    )
    def get(self, request: Request) -> int:
        refuse_when_draining()
        return int(caller(request).pk)

    async def answer(self, opened: Any) -> HttpResponseBase:
        user_id: int = opened
        await executors.write(quotas.take_export, user_id)
        headers = {
            "Cache-Control": "no-store, no-transform",
            "Content-Disposition": 'attachment; filename="chatmemory-export.json"',
        }
        return StreamingHttpResponse(_pieces(user_id), content_type="application/json", headers=headers)


async def _pieces(user_id: int) -> AsyncIterator[str]:
    """Yield the export as it is read: each part is fetched when the one before it has been sent."""
    async for piece in _part(partial(account_export.write_account, user_id)):
        yield piece
    chat_id, before = None, ""
    while (chat_id := await executors.read(account_export.next_chat, user_id, chat_id)) is not None:
        separator = before
        async for piece in _part(partial(account_export.write_chat, chat_id)):  # nothing, if it is gone
            yield separator + piece
            separator, before = "", ","
    if not is_draining():
        yield account_export.CLOSING


async def _part(write: Callable[[IO[str]], None]) -> AsyncIterator[str]:
    """Yield what `write` writes, in pieces; stop when this process shuts down."""
    with SpooledTemporaryFile(IN_MEMORY, "w+", encoding="utf-8") as file:
        await executors.slow(write, file)
        file.seek(0)
        while not is_draining() and (piece := file.read(CHUNK)):
            yield piece
