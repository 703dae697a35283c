"""Whether the process is up, and whether what it stands on answers."""

from __future__ import annotations

import logging
from collections.abc import Callable

from django.db import DatabaseError, InterfaceError, connection
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from chatmemory.errors import error_body
from memory import queueing

logger = logging.getLogger(__name__)


class Open(APIView):
    """A view for anyone: no authentication, no permission."""

    authentication_classes = ()
    permission_classes = (AllowAny,)


class HealthView(Open):
    @extend_schema(
        responses={200: OpenApiTypes.OBJECT},
        operation_id="healthz",
        summary="The process is up",
        tags=["health"],
        auth=[],
    )
    def get(self, request: Request) -> Response:
        return Response({"status": "ok"})


class ReadyView(Open):
    @extend_schema(
        responses={200: OpenApiTypes.OBJECT, 503: OpenApiTypes.OBJECT},
        operation_id="readyz",
        summary="Database and queue answer",
        tags=["health"],
        auth=[],
    )
    def get(self, request: Request) -> Response:
        parts = {"database": _answers(_database), "queue": _answers(_queue)}
        if all(parts.values()):
            return Response({"status": "ok", "parts": dict.fromkeys(parts, "ok")})
        failing = [name for name, answers in parts.items() if not answers]
        details = {name: ["does not answer"] for name in failing}
        return Response(error_body("unavailable", f"Not ready: {', '.join(failing)}.", details), status=503)


def _database() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")


def _queue() -> None:
    queueing.waiting_tasks()


def _answers(ask: Callable[[], None]) -> bool:
    try:
        ask()
    except (DatabaseError, InterfaceError, OSError) as exc:
        logger.warning("not ready", extra={"error": type(exc).__name__})
        return False
    return True
