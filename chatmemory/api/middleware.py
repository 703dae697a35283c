"""Middleware: request ids and logs, static files, and Django's own, each with the least threads under ASGI.

Under ASGI, Django runs each of its middlewares in a thread, twice per request.
"""

import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import unquote_plus

from asgiref.sync import markcoroutinefunction, sync_to_async
from django.contrib.auth.middleware import AuthenticationMiddleware
from django.contrib.messages.middleware import MessageMiddleware
from django.contrib.sessions.middleware import SessionMiddleware
from django.core.exceptions import BadRequest, ValidationError
from django.db import DataError
from django.http import HttpRequest, HttpResponse, HttpResponsePermanentRedirect
from django.http.response import HttpResponseBase
from django.middleware.clickjacking import XFrameOptionsMiddleware
from django.middleware.common import CommonMiddleware
from django.middleware.csrf import CsrfViewMiddleware
from django.middleware.security import SecurityMiddleware
from django.utils.deprecation import MiddlewareMixin
from whitenoise.middleware import WhiteNoiseMiddleware
from whitenoise.responders import StaticFile

from chatmemory import metrics
from chatmemory.api.error_handler import cannot_serve, error_page
from chatmemory.runtime import process, tracing
from chatmemory.runtime.logs import request_context, request_id, request_id_for

logger = logging.getLogger(__name__)
GetResponse = Callable[[HttpRequest], Awaitable[HttpResponseBase]]

API, SIGN_IN, FACTORS = ("/v1/", "/mcp"), "/accounts/", "/accounts/second-factors/"
AGENTS = "/accounts/agents/"
PROBES = ("/healthz", "/readyz", "/metrics")
METHODS = frozenset({"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"})
CSP_HEADER = "Content-Security-Policy"
PAGE = (
    "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self' data:; object-src 'none'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
"""The policy of pages, which load only our own files, and nothing inline: text from chats could do nothing even if it
were rendered as HTML. /v1/docs draws its arrows from data."""
NO_PAGE = "default-src 'none'; frame-ancestors 'none'"
"""The policy of answers that are no page: they may load nothing, in case a browser renders one."""
SCRIPT = "default-src 'none'; script-src 'self'; frame-ancestors 'none'"
"""The policy of scripts. A web worker has its own policy, that of its script, and imports our other scripts."""
POLICIES = {"text/html": PAGE, "text/javascript": SCRIPT}


def is_api(request: HttpRequest) -> bool:
    return request.path_info.startswith(API)


def carries_token(request: HttpRequest) -> bool:
    """Whether this is an API call with a bearer token. Any other `Authorization` may belong to a proxy."""
    scheme = request.META.get("HTTP_AUTHORIZATION", "").encode("latin-1").split(None, 1)[:1]
    return is_api(request) and [word.lower() for word in scheme] == [b"bearer"]


def count_request(method: str, route: str, status: int, seconds: float) -> None:
    """Count a request. Its route is the pattern that matched, "" if none did."""
    name = method if method in METHODS else "other"
    metrics.REQUESTS.labels(name, route, f"{status // 100}xx").observe(seconds)


class RequestMiddleware:
    """Give each request an id (its own `X-Request-ID`, if valid) and log its outcome, never its query string.

    It is the outermost middleware, so it also sets the headers that every answer has: what a page may load, and for the
    API and pages of sign-in that no cache stores it.
    """

    sync_capable, async_capable = False, True

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response
        markcoroutinefunction(self)

    async def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if request.encoding is not None:
            # Whichever codec the client named: some of Python's decompress, or decode no text.
            request.encoding = "utf-8"
        with request_context(request_id_for(request.META.get("HTTP_X_REQUEST_ID", ""))):
            started = time.perf_counter()
            return self._done(request, await self.get_response(request), started)

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        """Answer 503 for pages that are not our views, such as an admin page without its tables."""
        if isinstance(exception, KeyError) and request.path_info.startswith(FACTORS):
            return error_page(400)  # fido2 reads a part that the answer of a passkey lacks
        if isinstance(exception, ValidationError | ValueError | DataError) and request.path_info.startswith(AGENTS):
            return error_page(400)  # allauth does not check all that an agent sends, such as a NUL
        return error_page(503) if cannot_serve(exception) else None

    def _done(self, request: HttpRequest, response: HttpResponseBase, started: float) -> HttpResponseBase:
        process.count_bytes(_bytes_of(request, response))
        self._set_headers(request, response)
        route = getattr(request.resolver_match, "route", "")
        tracing.request_answered(request.method or "", response.status_code, route)
        seconds = time.perf_counter() - started
        count_request(request.method or "", route, response.status_code, seconds)
        extra = {
            "method": request.method,
            "path": request.path,
            "status": response.status_code,
            "ms": round(seconds * 1000, 1),
        }
        logger.log(logging.DEBUG if request.path in PROBES else logging.INFO, "request", extra=extra)
        return response

    def _set_headers(self, request: HttpRequest, response: HttpResponseBase) -> None:
        response["X-Request-ID"] = request_id.get()
        if request.path_info.startswith((*API, SIGN_IN)):
            response.headers.setdefault("Cache-Control", "no-store")
        kind = response.headers.get("Content-Type", "").partition(";")[0]
        response.headers.setdefault(CSP_HEADER, POLICIES.get(kind, NO_PAGE))


def _bytes_of(request: HttpRequest, response: HttpResponseBase) -> int:
    """Bytes that the request and its response had in memory; streamed bodies are not counted."""
    length = request.META.get("CONTENT_LENGTH", "")
    return (int(length) if length.isdecimal() else 0) + len(getattr(response, "content", b""))


class StaticFilesMiddleware(WhiteNoiseMiddleware):
    """WhiteNoise for ASGI: files are read in a thread and sent whole. Other requests pass unchanged."""

    sync_capable, async_capable = False, True

    def __init__(self, get_response: GetResponse) -> None:
        super().__init__(get_response)  # type: ignore[no-untyped-call]  # WhiteNoise is typed in part
        markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> Any:  # type: ignore[override]  # as in its own middleware
        static_file = self.files.get(request.path_info)
        return sync_to_async(self.whole)(static_file, request) if static_file else self.get_response(request)

    def whole(self, static_file: StaticFile, request: HttpRequest) -> HttpResponseBase:
        """Return the file as one response. Under ASGI, Django reads a synchronous iterator whole anyway, and warns."""
        if tag := request.META.get("HTTP_IF_NONE_MATCH"):  # which a proxy that compresses has made weak
            request.META["HTTP_IF_NONE_MATCH"] = tag.removeprefix("W/")
        streaming = self.serve(static_file, request)  # type: ignore[no-untyped-call]  # as above
        content = b"".join(streaming)
        streaming.close()
        return HttpResponse(content, status=streaming.status_code, headers=dict(streaming.headers))


class OnLoop(MiddlewareMixin):
    """Before a middleware of Django's that only computes: run it on the event loop instead of in a thread."""

    async def __acall__(self, request: HttpRequest) -> HttpResponseBase:
        early = self.process_request(request) if hasattr(self, "process_request") else None
        response = early or await self.get_response(request)  # type: ignore[misc]  # as under ASGI
        found: HttpResponseBase = self.process_response(request, response)  # type: ignore[attr-defined]
        return found


class Security(OnLoop, SecurityMiddleware):
    pass


class Frames(OnLoop, XFrameOptionsMiddleware):
    pass


class ForBrowsers(MiddlewareMixin):
    """Before a middleware that takes threads: probes and API calls with a bearer token need none of it, and pass.

    Probes use an IP address, which is on no list of allowed hosts.
    """

    def __call__(self, request: HttpRequest) -> Any:
        passes = carries_token(request) or request.path_info in PROBES
        return self.get_response(request) if passes else super().__call__(request)


class Session(ForBrowsers, SessionMiddleware):
    pass


class Common(ForBrowsers, CommonMiddleware):
    """Refuse a NUL in the URL of a page, too: PostgreSQL accepts none, and not every filter of the admin checks."""

    def process_request(self, request: HttpRequest) -> HttpResponsePermanentRedirect | None:
        url = f"{request.path_info}?{request.META['QUERY_STRING']}"
        if not is_api(request) and "\0" in unquote_plus(url):
            raise BadRequest("A URL has no NUL.")
        return super().process_request(request)


class Csrf(ForBrowsers, CsrfViewMiddleware):
    async def process_view(  # type: ignore[override]  # needs no thread
        self,
        request: HttpRequest,
        callback: Callable[..., HttpResponseBase],
        args: tuple[object, ...],
        kwargs: dict[str, object],
    ) -> HttpResponseBase | None:
        return None if carries_token(request) else super().process_view(request, callback, args, kwargs)


class Authentication(ForBrowsers, AuthenticationMiddleware):
    pass


class Messages(ForBrowsers, MessageMiddleware):
    pass
