"""The view of one's own account. Getting all of it is a door of memory's, which knows of both."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from chatmemory.http import caller
from conversations import erasing


class MeView(APIView):
    @extend_schema(
        request=None,
        responses={204: None},
        operation_id="me_delete",
        summary="Erase yourself and all that is yours",
        description="Tokens and sessions end at once. What takes more than a few seconds to erase goes on without you.",
        tags=["account"],
    )
    def delete(self, request: Request) -> Response:
        user_id = caller(request).pk
        erasing.request_erasure(user_id)
        erasing.erase(user_id, seconds=erasing.AT_ONCE_SECONDS)
        return Response(status=204)
