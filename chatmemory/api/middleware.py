"""Django's and WhiteNoise's middleware, adapted to be cheap for streams.

Middleware for browsers (session, CSRF, messages, login) does nothing for API calls with a bearer token, which need
none of it. Middleware that only computes runs on the event loop instead of a thread. WhiteNoise, which is
synchronous, returns at once if the path is no static file.
"""

from __future__ import annotations

import logging
import time
from contextlib import AbstractContextManager
from functools import partial
from typing import Any
from urllib.parse import unquote_plus

from asgiref.sync import iscoroutinefunction, markcoroutinefunction, sync_to_async
from csp.constants import HEADER as CSP_HEADER
from csp.middleware import CSPMiddleware
from django.contrib.auth import middleware as auth
from django.contrib.messages import middleware as messages
from django.contrib.sessions import middleware as sessions
from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse, HttpResponsePermanentRedirect
from django.http.response import HttpResponseBase
from django.middleware import clickjacking, common, csrf, security
from whitenoise.middleware import WhiteNoiseMiddleware

from chatmemory.api import error_handler
from chatmemory.api.static_text import StaticText, is_compressible
from chatmemory.runtime import garbage
from chatmemory.runtime.logging_config import request_context, request_id, request_id_for

logger = logging.getLogger(__name__)


API = "/v1/"
PROBES = ("/healthz", "/readyz")


def is_api(request: HttpRequest) -> bool:
    return request.path_info.startswith(API)


def carries_token(request: HttpRequest) -> bool:
    """Whether this is an API call with a bearer token. Any other `Authorization` may belong to a proxy."""
    scheme = request.META.get("HTTP_AUTHORIZATION", "").encode("latin-1").split(None, 1)[:1]
    return is_api(request) and [word.lower() for word in scheme] == [b"bearer"]


class _OnTheLoop:
    """Mixin for Django middleware whose hooks only compute: in async mode, they run without a thread."""

    get_response: Any

    async def __acall__(self, request: HttpRequest) -> HttpResponseBase:
        response: HttpResponseBase | None = None
        if hasattr(self, "process_request"):
            response = self.process_request(request)
        response = response or await self.get_response(request)
        if hasattr(self, "process_response"):
            response = self.process_response(request, response)
        return response


class _ForBrowsers:
    """Mixin that skips the middleware for API calls with a bearer token."""

    def __call__(self, request: HttpRequest) -> Any:
        if carries_token(request):
            return self.get_response(request)  # type: ignore[attr-defined]  # set by MiddlewareMixin
        return super().__call__(request)  # type: ignore[misc]  # MiddlewareMixin's


class SecurityMiddleware(_OnTheLoop, security.SecurityMiddleware):
    pass


class ContentSecurityPolicyMiddleware(_OnTheLoop, CSPMiddleware):
    """Set the policy of the settings on HTML pages. Other responses may load nothing, in case a browser renders one.

    The policy has no nonces: creating them would keep each request, with its body, in a reference cycle.
    """

    NO_PAGE = "default-src 'none'; frame-ancestors 'none'"
    SCRIPT = "default-src 'none'; script-src 'self'; frame-ancestors 'none'"
    """The policy of scripts. A web worker has its own policy, that of its script, and imports our other scripts."""

    def process_request(self, request: HttpRequest) -> None:
        return None

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        kind = response.headers.get("Content-Type", "")
        if kind.startswith("text/html"):
            return super().process_response(request, response)
        response.headers.setdefault(
            CSP_HEADER, self.SCRIPT if kind.startswith("text/javascript") else self.NO_PAGE
        )
        return response


class XFrameOptionsMiddleware(_OnTheLoop, clickjacking.XFrameOptionsMiddleware):
    pass


class CommonMiddleware(_ForBrowsers, _OnTheLoop, common.CommonMiddleware):
    """Check the host of requests, except for probes: they use an IP address, which is on no list of allowed hosts.

    Pages refuse a NUL in their URL: PostgreSQL does not accept one, and not every filter of the admin checks.
    """

    def __call__(self, request: HttpRequest) -> Any:
        return self.get_response(request) if request.path_info in PROBES else super().__call__(request)

    def process_request(self, request: HttpRequest) -> HttpResponsePermanentRedirect | None:
        url = f"{request.path_info}?{request.META['QUERY_STRING']}"
        if not is_api(request) and "\0" in unquote_plus(url):
            raise BadRequest("A URL has no NUL.")
        return super().process_request(request)


class SessionMiddleware(_ForBrowsers, sessions.SessionMiddleware):
    pass


class AuthenticationMiddleware(_ForBrowsers, _OnTheLoop, auth.AuthenticationMiddleware):
    pass


class MessageMiddleware(_ForBrowsers, messages.MessageMiddleware):
    pass


class CsrfViewMiddleware(_ForBrowsers, _OnTheLoop, csrf.CsrfViewMiddleware):
    def __init__(self, get_response: Any) -> None:
        super().__init__(get_response)
        if iscoroutinefunction(get_response):
            self.process_view = self._process_view  # type: ignore[method-assign,assignment]  # Django awaits a coroutine function

    async def _process_view(self, request: HttpRequest, *args: Any) -> HttpResponse | None:
        if carries_token(request):
            return None
        checked: HttpResponse | None = super().process_view(request, *args)
        return checked


class StaticFilesMiddleware(WhiteNoiseMiddleware):
    """WhiteNoise for ASGI: files are read in a thread and sent whole, text gzipped. Other requests pass unchanged."""

    sync_capable = async_capable = True

    def __init__(self, get_response: Any) -> None:
        super().__init__(get_response)  # type: ignore[no-untyped-call]  # WhiteNoise is typed in part
        if iscoroutinefunction(get_response):
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> Any:  # type: ignore[override]  # as in its own middleware
        static_file = self.files.get(request.path_info)
        if static_file is None:
            return self.get_response(request)
        if iscoroutinefunction(self):
            return sync_to_async(self.whole)(static_file, request)
        return self.whole(static_file, request)

    def get_static_file(self, path: str, url: str, stat_cache: Any = None) -> Any:
        """Return a static file; text above a minimum size also gets a compressed form."""
        read = partial(super().get_static_file, path, url)
        found = read(stat_cache)
        return StaticText(path, found, read) if is_compressible(found) else found

    def whole(self, static_file: Any, request: HttpRequest) -> HttpResponse:
        """Return the file as one response. Under ASGI, Django reads a synchronous iterator whole anyway, and warns."""
        streaming = self.serve(static_file, request)  # type: ignore[no-untyped-call]  # as above
        response = HttpResponse(
            b"".join(streaming), status=streaming.status_code, headers=dict(streaming.headers)
        )
        streaming.close()
        return response


def _bytes_of(request: HttpRequest, response: HttpResponseBase) -> int:
    """Bytes that the request and its response had in memory; streamed bodies are not counted."""
    length = request.META.get("CONTENT_LENGTH", "")
    return (int(length) if length.isdecimal() else 0) + len(getattr(response, "content", b""))


class RequestMiddleware:
    """Give each request an id (its own `X-Request-ID`, if valid) and log its outcome, never its query string.

    It is the outermost middleware, so it also marks every answer of the API as not to be stored by caches.
    """

    sync_capable = async_capable = True

    def __init__(self, get_response: Any) -> None:
        self.get_response = get_response
        if iscoroutinefunction(get_response):
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> Any:
        return self._async(request) if iscoroutinefunction(self) else self._sync(request)

    async def _async(self, request: HttpRequest) -> HttpResponseBase:
        with self._context(request):
            started = time.perf_counter()
            return self._done(request, await self.get_response(request), started)

    def _sync(self, request: HttpRequest) -> HttpResponseBase:
        with self._context(request):
            started = time.perf_counter()
            return self._done(request, self.get_response(request), started)

    def _context(self, request: HttpRequest) -> AbstractContextManager[None]:
        if request.encoding is not None:
            request.encoding = (
                "utf-8"  # whichever codec the client named: some of Python's decompress, or decode no text
            )
        return request_context(request_id_for(request.META.get("HTTP_X_REQUEST_ID", "")))

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        """Answer 503 for pages that are not our views, such as an admin page without its tables."""
        return error_handler.unavailable_page(exception)

    def _done(self, request: HttpRequest, response: HttpResponseBase, started: float) -> HttpResponseBase:
        garbage.count_bytes(_bytes_of(request, response))
        response["X-Request-ID"] = request_id.get()
        if is_api(request):
            response.headers.setdefault("Cache-Control", "no-store")
        extra = {
            "method": request.method,
            "path": request.path,
            "status": response.status_code,
            "ms": round((time.perf_counter() - started) * 1000, 1),
        }
        logger.log(logging.DEBUG if request.path in PROBES else logging.INFO, "request", extra=extra)
        return response
