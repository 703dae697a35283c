"""Checks of `manage.py check --deploy` for our middleware.

Django looks for its middleware by name, and checks HTTPS only if it finds it. Ours are subclasses, so Django's checks
are silenced in the settings, and repeated here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from csp.middleware import CSPMiddleware
from django.conf import settings
from django.core import checks
from django.middleware.clickjacking import XFrameOptionsMiddleware
from django.middleware.csrf import CsrfViewMiddleware
from django.middleware.security import SecurityMiddleware
from django.utils.module_loading import import_string

REQUIRED = (SecurityMiddleware, CSPMiddleware, CsrfViewMiddleware, XFrameOptionsMiddleware)


def install() -> None:
    """Register both checks for `check --deploy`."""
    checks.register(middleware_is_there, checks.Tags.security, deploy=True)
    checks.register(check_https, checks.Tags.security, deploy=True)


def middleware_is_there(app_configs: Any, **kwargs: Any) -> list[checks.CheckMessage]:
    """Check that every middleware that protects browsers is listed, itself or a subclass."""
    return list(_missing())


def _missing() -> Iterator[checks.CheckMessage]:
    listed = [import_string(path) for path in settings.MIDDLEWARE]
    for wanted in REQUIRED:
        if not any(issubclass(one, wanted) for one in listed):
            yield checks.Error(f"MIDDLEWARE has no {wanted.__name__}.", id="chatmemory.E001")


def check_https(app_configs: Any, **kwargs: Any) -> list[checks.CheckMessage]:
    """Check that HTTPS is enforced. One setting switches on the redirect, HSTS and secure cookies."""
    if settings.SECURE_SSL_REDIRECT:
        return []
    told = "Plain HTTP is answered: tokens, cookies and what people say can be read on their way."
    return [checks.Warning(told, hint="Set DJANGO_SECURE_SSL_REDIRECT=true.", id="chatmemory.W001")]
