"""The door for summaries that are stored nowhere: decided in the database executor, answered on the loop."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.conf import settings
from django.http.response import HttpResponseBase
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from chatmemory import apart
from chatmemory.door import AsyncDoor
from conversations.draining import unless_drained
from conversations.generation import refuse_when_draining
from conversations.histories import spoken
from memory.serializers import SummarizeIn, SummarizeOut, summarized_json
from memory.summarizing import Patience, Wanted, summarize


class SummarizeDoor(AsyncDoor):
    """For clients that manage their own history."""

    is_stateless = True

    @extend_schema(
        request=SummarizeIn,
        responses=SummarizeOut,
        operation_id="summarize",
        summary="Summarize a history that the client keeps; nothing is stored",
        description="By the policy `interval` unless another is named. A message that begins with its opening words is "
        "taken for the previous summary.",
        tags=["stateless"],
    )
    def post(self, request: Request) -> Wanted:
        body = SummarizeIn(data=request.data)
        body.is_valid(raise_exception=True)
        refuse_when_draining()
        asked = body.validated_data
        return Wanted(asked["policy"], asked["previous_summary"], spoken(asked["messages"]))

    async def answer(self, opened: Any) -> HttpResponseBase:
        patience = Patience(settings.REPLY_DEADLINES.total)
        try:
            made = await unless_drained(apart.run(partial(summarize, opened, patience)))
        finally:
            patience.end()
        return Response(summarized_json(made))
