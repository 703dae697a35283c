"""The body of every 4xx and 5xx answer of the API: `{"error": {"code", "message", "details"?}}`, for any exception."""

from __future__ import annotations

import logging
import re
from contextlib import suppress
from typing import Any
from uuid import UUID

from django.core.exceptions import (
    ObjectDoesNotExist,
    PermissionDenied,
    RequestDataTooBig,
    SuspiciousOperation,
    SynchronousOnlyOperation,
)
from django.db import DatabaseError, IntegrityError, InterfaceError, OperationalError, ProgrammingError
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.urls import Resolver404, resolve
from rest_framework import exceptions as drf
from rest_framework.response import Response
from rest_framework.views import set_rollback

from chatmemory.database import startup
from chatmemory.errors import ChatMemoryError

logger = logging.getLogger(__name__)

_DRF_CODES = {
    400: "invalid_request",
    401: "not_authenticated",
    403: "permission_denied",
    404: "not_found",
    405: "method_not_allowed",
    406: "not_acceptable",
    413: "too_large",
    415: "unsupported_media_type",
    429: "rate_limited",
}
SENTENCES = {
    400: "The request is not valid.",
    401: "Authentication required: send `Authorization: Bearer <token>` with a valid token.",
    403: "You do not have permission to do this.",
    404: "Not found.",
    408: "The request timed out.",
    413: "The request body is too large.",
    414: "The URL is too long. Send the question in the body of a POST instead.",
    431: "The request headers are too large.",
    500: "Something went wrong on our side. It has been logged.",
    503: "The server cannot do this right now. Try again in a moment.",
}


NO_ENDPOINT = "No such endpoint; see /v1/docs."
_ID = re.compile(r"/(chats|messages|pins)/[^/]+")
NOT_KNOWN = "Invalid or expired token."
MOST_CHARS = 300
"""Maximum length of an error message in characters. It may quote what the client sent."""


def error_body(code: str, message: str, details: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the body of an error; every error has this form."""
    error: dict[str, Any] = {"code": code, "message": message}
    if details is not None:
        error["details"] = details
    return {"error": error}


def exception_handler(exc: Exception, context: dict[str, Any]) -> Response | None:
    """DRF's `EXCEPTION_HANDLER`: answer any exception of a view with an error body. None lets Django answer 500."""
    set_rollback()
    if isinstance(exc, ChatMemoryError):
        return _ours(exc)
    if isinstance(exc, ObjectDoesNotExist) or _is_missing_reference(exc):
        exc = _gone(exc, context)
    elif isinstance(exc, Http404):
        exc = drf.NotFound()
    elif isinstance(exc, PermissionDenied):
        exc = drf.PermissionDenied()
    elif isinstance(exc, RequestDataTooBig):
        return Response(error_body("too_large", SENTENCES[413]), status=413)
    elif isinstance(exc, SuspiciousOperation):
        return Response(error_body("invalid_request", SENTENCES[400]), status=400)
    if isinstance(exc, drf.APIException):
        return _drf(exc)
    if cannot_serve(exc):
        return Response(error_body("unavailable", SENTENCES[503]), status=503, headers=LATER)
    return None


def internal_error(exc: Exception) -> Response:
    """Return the answer to an unexpected exception, and log it with its traceback."""
    logger.error("request failed", exc_info=exc)
    return Response(error_body("internal", SENTENCES[500]), status=500)


def _is_missing_reference(exc: Exception) -> bool:
    """Whether a write failed because a row that it refers to is gone. SQLite has one message for all such cases."""
    return isinstance(exc, IntegrityError) and "foreign key constraint" in str(exc).lower()


def _gone(exc: Exception, context: dict[str, Any]) -> drf.APIException:
    """The error for a row that was deleted while the request ran: the chat, or the caller if the path names no chat."""
    logger.warning("what a request stood on is gone", extra={"error": type(exc).__name__})
    is_caller = isinstance(exc, IntegrityError) and not context.get("kwargs")
    return drf.NotAuthenticated() if is_caller else drf.NotFound()


def _ours(exc: ChatMemoryError) -> Response:
    headers = {} if exc.retry_after is None else {"Retry-After": str(exc.retry_after)}
    if exc.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return Response(error_body(exc.code, exc.message, exc.details), status=exc.status, headers=headers)


def _drf(exc: drf.APIException) -> Response:
    status = exc.status_code
    headers: dict[str, str] = {}
    if isinstance(exc, drf.AuthenticationFailed | drf.NotAuthenticated):
        status, headers["WWW-Authenticate"] = 401, "Bearer"
    if (wait := getattr(exc, "wait", None)) is not None:
        headers["Retry-After"] = str(int(wait) + 1)
    code = _DRF_CODES.get(status, "internal")
    if isinstance(exc, drf.ValidationError):
        fields = _fields(exc.detail)
        return Response(error_body(code, _first(fields), fields), status=status, headers=headers)
    if isinstance(exc, drf.AuthenticationFailed):
        return Response(error_body(code, NOT_KNOWN), status=status, headers=headers)
    message = SENTENCES.get(status) if status in (401, 404) else str(exc.detail)
    return Response(error_body(code, message or str(exc.detail)), status=status, headers=headers)


def _first(fields: dict[str, list[str]]) -> str:
    """The first validation error as one sentence, because most clients show only that."""
    for name, messages in fields.items():
        if messages:
            told = messages[0] if name == "non_field_errors" else f"{name}: {messages[0]}"
            return told if len(told) <= MOST_CHARS else f"{told[: MOST_CHARS - 1]}…"
    return SENTENCES[400]


def _fields(detail: Any) -> dict[str, list[str]]:
    """DRF's nested details as field → list of messages, nested fields joined by dots."""
    if isinstance(detail, dict):
        flat: dict[str, list[str]] = {}
        for name, inner in detail.items():
            for path, messages in _fields(inner).items():
                key = _text(name) if path == "non_field_errors" else f"{_text(name)}.{path}"
                flat.setdefault(key, []).extend(messages)
        return flat
    if isinstance(detail, list):
        if any(isinstance(item, dict) for item in detail):
            return _fields({str(i): item for i, item in enumerate(detail) if item})
        return {"non_field_errors": [_text(item) for item in detail]}
    return {"non_field_errors": [_text(detail)]}


def _text(said: Any) -> str:
    """Replace lone surrogates, which cannot be encoded: an error may quote what the client sent."""
    return str(said).encode(errors="replace").decode()


LATER = {"Retry-After": "1"}


def cannot_serve(exc: Exception) -> bool:
    """Whether the database is unreachable, full, overloaded or not migrated: clients get 503, and can retry.

    The cause is logged. If all migrations are applied, a `ProgrammingError` is our own bug, and this returns False.
    """
    if not isinstance(exc, OperationalError | InterfaceError | ProgrammingError):
        return False
    reason = _missing_migrations() if _is_schema_error(exc) else None
    if reason is None and isinstance(exc, ProgrammingError):
        return False
    if reason is None:
        logger.error("database unavailable", extra={"error": type(exc).__name__})
    else:
        logger.error("database not migrated", extra={"reason": reason})
    return True


def _is_schema_error(exc: Exception) -> bool:
    """Whether a table, a column or a function is missing. SQLite reports that as an OperationalError."""
    return isinstance(exc, ProgrammingError) or "no such " in str(exc)


def _missing_migrations() -> str | None:
    with suppress(DatabaseError, InterfaceError, SynchronousOnlyOperation):
        return startup.migrations_problem()
    return None


def unavailable_page(exc: Exception) -> HttpResponse | None:
    """Answer 503 as JSON for pages that are not our views, if the database cannot serve them. Otherwise None."""
    if not cannot_serve(exc):
        return None
    return JsonResponse(error_body("unavailable", SENTENCES[503]), status=503, headers=LATER)


def no_such_page(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """The handler for paths that do not exist: those of the API say where its documentation is."""
    is_unknown = f"{request.path}/".startswith("/v1/") and not _has_malformed_id(request.path)
    message = NO_ENDPOINT if is_unknown else SENTENCES[404]
    return JsonResponse(error_body("not_found", message), status=404)


def _has_malformed_id(path: str) -> bool:
    """Whether the path is that of an endpoint but for an id that is none: then an object is missing, no endpoint."""
    with suppress(Resolver404):
        resolve(_ID.sub(rf"/\1/{UUID(int=0)}", path))
        return True
    return False


def page_error(status: int, code: str) -> Any:
    """Return a handler for urls.py that answers errors outside of our views as JSON."""

    def handler(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
        return JsonResponse(error_body(code, SENTENCES[status]), status=status)

    return handler
