"""Structured logs: constant text and facts, JSON in production, readable in a terminal, one request id all the way.

Code logs through the standard library (`logger.info("memory folded", extra={...})`); structlog only renders. What
people said and keys never go in; the loggers of HTTP clients, which would print bodies at DEBUG, are pinned.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import structlog

request_id: ContextVar[str] = ContextVar("request_id", default="")

PINNED = (
    "openai",
    "httpx",
    "httpx2",
    "httpcore",
    "httpcore2",
    "asyncio",
    "urllib3",
    "django.db.backends",
    "psycopg",
)


@contextmanager
def request_context(value: str) -> Iterator[None]:
    """Log everything within under the request id `value`, as the worker does for a task that a request caused."""
    token = request_id.set(value)
    try:
        yield
    finally:
        request_id.reset(token)


def _add_request_id(_logger: object, _method: str, event: dict[str, Any]) -> dict[str, Any]:
    if value := request_id.get():
        event.setdefault("request_id", value)
    return event


def _leave_out_request(_logger: object, _method: str, event: dict[str, Any]) -> dict[str, Any]:
    """Django adds the request to its own lines on a 5xx, and that shows its query string, where a question can be."""
    event.pop("request", None)
    return event


def logging_config(style: str, level: str) -> dict[str, Any]:
    """The `LOGGING` setting. `style`: json, console, or auto (console on a terminal, else json)."""
    console = style == "console" or (style == "auto" and sys.stderr.isatty())
    render: list[Any] = (
        [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())]
        if console
        else [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(default=str)]
    )
    shared = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.ExtraAdder(),
        _leave_out_request,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _add_request_id,
    ]
    quiet = {name: {"level": "WARNING"} for name in PINNED}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "structured": {
                "()": structlog.stdlib.ProcessorFormatter,
                "foreign_pre_chain": shared,
                "processors": [structlog.stdlib.ProcessorFormatter.remove_processors_meta, *render],
            }
        },
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "structured"}},
        "root": {"handlers": ["stderr"], "level": level},
        "loggers": {
            **quiet,
            # Their access logs hold query strings, and a question can be one. RequestMiddleware logs the path alone.
            "uvicorn": {"handlers": [], "level": "INFO", "propagate": True},
            "uvicorn.error": {"handlers": [], "level": "INFO", "propagate": True},
            "uvicorn.access": {"handlers": [], "level": "CRITICAL", "propagate": False},
            "django.server": {"handlers": [], "level": "CRITICAL", "propagate": False},
            "django.request": {"level": "ERROR"},
            "django-q": {"handlers": [], "level": "WARNING", "propagate": True},
        },
    }
