"""What `manage.py check --deploy` asks of us beyond Django's own questions.

Django looks for its middleware by name, and asks after HTTPS only where it finds it. Ours are subclasses, so the names
are silenced in the settings, and the same is asked here.
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
    """Have both checks run with `check --deploy`."""
    checks.register(middleware_is_there, checks.Tags.security, deploy=True)
    checks.register(https_alone, checks.Tags.security, deploy=True)


def middleware_is_there(app_configs: Any, **kwargs: Any) -> list[checks.CheckMessage]:
    """Every middleware that protects browsers, as itself or as a subclass."""
    return list(_missing())


def _missing() -> Iterator[checks.CheckMessage]:
    listed = [import_string(path) for path in settings.MIDDLEWARE]
    for wanted in REQUIRED:
        if not any(issubclass(one, wanted) for one in listed):
            yield checks.Error(f"MIDDLEWARE has no {wanted.__name__}.", id="chatmemory.E001")


def https_alone(app_configs: Any, **kwargs: Any) -> list[checks.CheckMessage]:
    """One setting switches on the redirect, HSTS and secure cookies."""
    if settings.SECURE_SSL_REDIRECT:
        return []
    told = "Plain HTTP is answered: tokens, cookies and what people say can be read on their way."
    return [checks.Warning(told, hint="Set DJANGO_SECURE_SSL_REDIRECT=true.", id="chatmemory.W001")]
