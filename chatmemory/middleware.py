"""Middleware, made cheap for streams. Django's own classes, but:

those that serve browsers (session, CSRF, messages, login) do nothing where `Authorization` is present, because a
token needs none of them; those that only compute run on the event loop instead of hopping to a thread; and
WhiteNoise, which is synchronous, steps aside at once when the path is no static file.
"""

from __future__ import annotations

import logging
import time
from contextlib import AbstractContextManager
from typing import Any

from asgiref.sync import iscoroutinefunction, markcoroutinefunction, sync_to_async
from csp.constants import HEADER as CSP_HEADER
from csp.middleware import CSPMiddleware
from django.contrib.auth import middleware as auth
from django.contrib.messages import middleware as messages
from django.contrib.sessions import middleware as sessions
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.middleware import clickjacking, common, csrf, security
from whitenoise.middleware import WhiteNoiseMiddleware

from chatmemory.observability import request_context, request_id, request_id_for

logger = logging.getLogger(__name__)


def carries_token(request: HttpRequest) -> bool:
    return "HTTP_AUTHORIZATION" in request.META


class _OnTheLoop:
    """For Django middleware whose hooks only compute: no thread hop in async mode."""

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
    """Steps aside where a token is sent."""

    def __call__(self, request: HttpRequest) -> Any:
        if carries_token(request):
            return self.get_response(request)  # type: ignore[attr-defined]  # set by MiddlewareMixin
        return super().__call__(request)  # type: ignore[misc]  # MiddlewareMixin's


class SecurityMiddleware(_OnTheLoop, security.SecurityMiddleware):
    pass


class ContentSecurityPolicyMiddleware(_OnTheLoop, CSPMiddleware):
    """Pages have the policy of the settings. What is no page loads nothing, should a browser ever take it for one."""

    NO_PAGE = "default-src 'none'; frame-ancestors 'none'"

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        if response.headers.get("Content-Type", "").startswith("text/html"):
            return super().process_response(request, response)
        response.headers.setdefault(CSP_HEADER, self.NO_PAGE)
        return response


class XFrameOptionsMiddleware(_OnTheLoop, clickjacking.XFrameOptionsMiddleware):
    pass


class CommonMiddleware(_ForBrowsers, _OnTheLoop, common.CommonMiddleware):
    pass


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
    """WhiteNoise for ASGI: files are read in a thread and sent whole, everything else passes untouched."""

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

    def whole(self, static_file: Any, request: HttpRequest) -> HttpResponse:
        """The file as one response: under ASGI, Django would read a synchronous iterator whole anyway, and warn."""
        streaming = self.serve(static_file, request)  # type: ignore[no-untyped-call]  # as above
        response = HttpResponse(
            b"".join(streaming), status=streaming.status_code, headers=dict(streaming.headers)
        )
        streaming.close()
        return response


class RequestMiddleware:
    """Gives each request an id (its own `X-Request-ID`, if sane) and logs how it went: never a query string."""

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
                "utf-8"  # whatever the client named: Python has codecs that unpack, or are none
            )
        return request_context(request_id_for(request.META.get("HTTP_X_REQUEST_ID", "")))

    def _done(self, request: HttpRequest, response: HttpResponseBase, started: float) -> HttpResponseBase:
        response["X-Request-ID"] = request_id.get()
        extra = {
            "method": request.method,
            "path": request.path,
            "status": response.status_code,
            "ms": round((time.perf_counter() - started) * 1000, 1),
        }
        logger.log(
            logging.DEBUG if request.path in ("/healthz", "/readyz") else logging.INFO, "request", extra=extra
        )
        return response
