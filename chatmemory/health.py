"""Health views: whether the process is up, and whether the services that it needs work."""

from __future__ import annotations

from typing import Any

from asgiref.sync import markcoroutinefunction
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from chatmemory import readiness
from chatmemory.api.error_handler import error_body


class Open(APIView):
    """A view without authentication or permissions."""

    authentication_classes = ()
    permission_classes = (AllowAny,)


class HealthView(Open):
    @extend_schema(
        responses={200: OpenApiTypes.OBJECT},
        operation_id="healthz",
        summary="Liveness: the process is up",
        tags=["health"],
        auth=[],
    )
    def get(self, request: Request) -> Response:
        return Response({"status": "ok"})


class ReadyView(Open):
    """Readiness, checked on the event loop: it needs no thread, even if all wait for an unreachable database."""

    problems: readiness.Problems

    @classmethod
    def as_view(cls, **initkwargs: Any) -> Any:
        return markcoroutinefunction(super().as_view(**initkwargs))

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        return self._dispatch(request, *args, **kwargs)

    async def _dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        self.problems = await readiness.problems()
        response: HttpResponseBase = super().dispatch(request, *args, **kwargs)
        return response

    @extend_schema(
        responses={200: OpenApiTypes.OBJECT, 503: OpenApiTypes.OBJECT},
        operation_id="readyz",
        summary="Readiness: database, migrations, queue and worker",
        tags=["health"],
        auth=[],
    )
    def get(self, request: Request) -> Response:
        if not self.problems:
            return Response({"status": "ok", "parts": dict.fromkeys(sorted(readiness.PARTS), "ok")})
        details = {part: [problem] for part, problem in sorted(self.problems.items())}
        return Response(error_body("unavailable", f"Not ready: {', '.join(details)}.", details), status=503)
