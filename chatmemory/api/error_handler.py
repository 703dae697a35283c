"""The body of every 4xx and 5xx answer of the API: `{"error": {"code", "message", "details"?}}`, for any exception."""

import logging
from contextlib import suppress
from typing import Any

from django.core.exceptions import (
    DisallowedHost,
    ObjectDoesNotExist,
    PermissionDenied,
    RequestDataTooBig,
    SuspiciousOperation,
    SynchronousOnlyOperation,
)
from django.db import DatabaseError, IntegrityError, InterfaceError, OperationalError, ProgrammingError
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.urls import is_valid_path
from rest_framework import exceptions as drf
from rest_framework.response import Response
from rest_framework.views import set_rollback

from chatmemory.database import startup
from chatmemory.errors import ChatMemoryError

logger = logging.getLogger(__name__)

ERRORS = {
    400: ("invalid_request", "The request is not valid."),
    401: (
        "not_authenticated",
        "Authentication required: send `Authorization: Bearer <token>` with a valid token.",
    ),
    403: ("permission_denied", "You do not have permission to do this."),
    404: ("not_found", "Not found."),
    405: ("method_not_allowed", "This method is not allowed here."),
    406: ("not_acceptable", "None of the media types in `Accept` is available."),
    408: ("request_timeout", "The request timed out."),
    413: ("too_large", "The request body is too large."),
    414: ("url_too_long", "The URL is too long. Send the question in the body of a POST instead."),
    415: ("unsupported_media_type", "The body is not JSON. Send `Content-Type: application/json`."),
    431: ("headers_too_large", "The request headers are too large."),
    500: ("internal", "Something went wrong on our side. It has been logged."),
    503: ("unavailable", "The server cannot do this right now. Try again in a moment."),
}
"""Code and message by status, for errors that are not `ChatMemoryError`."""
LATER = {"Retry-After": "1"}
READ_ONLY = "25006"
"""PostgreSQL's state for a write on a standby, or where a provider allows none since the disk is nearly full."""
MAX_CHARS = 300
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
        headers = {} if exc.retry_after is None else {"Retry-After": str(exc.retry_after)}
        return _answer(exc.status, error_body(exc.code, exc.message, exc.details), headers)
    if isinstance(exc, ObjectDoesNotExist) or _is_missing_reference(exc):
        # A row was deleted while the request ran: the chat, or the caller if the path names no chat.
        logger.warning("a row that the request needs is gone", extra={"error": type(exc).__name__})
        is_caller = isinstance(exc, IntegrityError) and not context.get("kwargs")
        return _answer(401 if is_caller else 404)
    if isinstance(exc, drf.APIException):
        return _drf(exc, context)
    for kind, status in ((Http404, 404), (PermissionDenied, 403), (RequestDataTooBig, 413), (SuspiciousOperation, 400)):
        if isinstance(exc, kind):
            return _answer(status)
    return _answer(503, headers=LATER) if cannot_serve(exc) else None


def internal_error(exc: Exception) -> Response:
    """Return the answer to an unexpected exception, and log it with its traceback."""
    logger.error("request failed", exc_info=exc)
    return _answer(500)


def _answer(status: int, body: dict[str, Any] | None = None, headers: dict[str, str] | None = None) -> Response:
    challenge = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
    return Response(body or error_body(*ERRORS[status]), status=status, headers={**(headers or {}), **challenge})


def _is_missing_reference(exc: Exception) -> bool:
    """Whether a write failed because a row that it refers to is gone. SQLite has one message for all such cases."""
    return isinstance(exc, IntegrityError) and "foreign key constraint" in str(exc).lower()


def _drf(exc: drf.APIException, context: dict[str, Any]) -> Response:
    if isinstance(exc, drf.ValidationError):
        fields = _fields(exc.detail)
        return _answer(400, error_body(ERRORS[400][0], _sentences(fields), fields))
    if isinstance(exc, drf.AuthenticationFailed):
        return _answer(401, error_body(ERRORS[401][0], "Invalid or expired token."))
    if isinstance(exc, drf.NotAuthenticated | drf.NotFound | drf.UnsupportedMediaType):
        return _answer(401 if isinstance(exc, drf.NotAuthenticated) else exc.status_code)
    if isinstance(exc, drf.MethodNotAllowed):
        allowed = ", ".join(name for name in context["view"].allowed_methods if name != "OPTIONS")
        return _answer(405, error_body(ERRORS[405][0], f"{exc.detail} Allowed here: {allowed}."))
    return _answer(exc.status_code, error_body(ERRORS[exc.status_code][0], str(exc.detail)))


def _sentences(fields: dict[str, list[str]]) -> str:
    """The first validation error of each field, because most clients show only the message."""
    sentences = [
        messages[0] if name == "non_field_errors" else f"{name}: {messages[0]}"
        for name, messages in fields.items()
        if messages
    ]
    text = " ".join(sentences) or ERRORS[400][1]
    return text if len(text) <= MAX_CHARS else f"{text[: MAX_CHARS - 1]}…"


def _fields(detail: object) -> dict[str, list[str]]:
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


def _text(message: object) -> str:
    """Replace lone surrogates, which cannot be encoded: an error may quote what the client sent."""
    return str(message).encode(errors="replace").decode()


def cannot_serve(exc: Exception) -> bool:
    """Whether the database is unreachable, full, read-only, overloaded or not migrated: clients get 503, and can retry.

    The cause is logged. If all migrations are applied, a `ProgrammingError` is our own bug, and this returns False.
    """
    is_read_only = getattr(exc.__cause__, "sqlstate", None) == READ_ONLY
    if not (is_read_only or isinstance(exc, OperationalError | InterfaceError | ProgrammingError)):
        return False
    reason = None
    # A table, a column or a function is missing. SQLite reports that as an OperationalError.
    if isinstance(exc, ProgrammingError) or "no such " in str(exc):
        with suppress(DatabaseError, InterfaceError, SynchronousOnlyOperation):
            reason = startup.migrations_problem()
    if reason is not None:
        logger.error("database not migrated", extra={"reason": reason})
    elif isinstance(exc, ProgrammingError):
        return False
    else:
        logger.error("database unavailable", extra={"error": type(exc).__name__})
    return True


# Answers outside of our views, as JSON, too


NO_SUCH_NAME = "The server has no such name: DJANGO_ALLOWED_HOSTS lists those that it has."


def error_page(status: int, *_: object, exception: Exception | None = None, **__: object) -> JsonResponse:
    """The answer to a request, which Django passes to the handlers of `chatmemory.urls` with its exception."""
    code, message = ERRORS[status]
    body = error_body(code, NO_SUCH_NAME if isinstance(exception, DisallowedHost) else message)
    return JsonResponse(body, status=status, headers=LATER if status == 503 else None)


_TO_THE_PROVIDER = "send this request to the model provider."
INSTEAD = {
    name: sentence
    for names, sentence in {
        "chat/completions": "Stored completions are the messages of a chat: see `/v1/chats`.",
        "completions": "Use Chat Completions (`client.chat.completions`): the prompt is a message there.",
        "conversations": "A conversation is a chat, which has calls of its own (`/v1/chats`). A response continues one "
        "by `conversation` or `previous_response_id`.",
        "responses/input_tokens": "`usage` has the tokens of each response, and `POST /v1/chats/{id}/context` counts "
        "those of a chat's next prompt.",
        "responses/compact": "Memory summarizes a long conversation by itself: there is nothing to compact.",
        "responses": "The id of a response begins with `resp_`.",
        "assistants threads": "A thread is a chat, which has `instructions` of its own: see `/v1/chats`.",
        "embeddings": "`POST /v1/embeddings` needs an embeddings model, which the operator of this server sets as "
        f"MEMORY_EMBEDDINGS_MODEL. Without one, {_TO_THE_PROVIDER}",
        "containers files uploads vector_stores": "Nothing is uploaded beforehand: send images and files with their "
        "message.",
        "moderations": f"Nothing is moderated here: {_TO_THE_PROVIDER}",
        "audio": f"Speech is neither heard nor made here: {_TO_THE_PROVIDER}",
        "images videos": f"Images and videos are not made here: {_TO_THE_PROVIDER}",
        "batches evals fine_tuning": f"Models are not trained, tested or run in batches here: {_TO_THE_PROVIDER}",
        "realtime": "There are no WebSockets here: a reply is streamed as server-sent events, with `stream: true`.",
    }.items()
    for name in names.split()
}
"""Paths of OpenAI's API that this server lacks, by their beginning below `/v1/`, and what to use instead."""


def no_such_page(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """The handler for paths that do not exist: below the API, it says where the documentation is, or which path was
    meant if `/v1` is missing or there twice, or a slash is at the end."""
    here, meant = f"{request.path}/", "/v1/" + request.path.rpartition("v1/")[2].strip("/")
    instead = next((INSTEAD[name] for name in INSTEAD if here.startswith(f"/v1/{name}/")), "")
    if meant != request.path and is_valid_path(meant):
        instead = f"Did you mean `{meant}`?"
    if not instead and not here.startswith("/v1/"):
        return error_page(404)
    body = error_body("not_found", "No such endpoint, or an invalid id; see /v1/docs.")
    if instead:
        body["error"]["message"] += f" {instead}"
        body["error"] |= {"type": "invalid_request_error", "param": None}  # OpenAI's clients look for these
    return JsonResponse(body, status=404)
