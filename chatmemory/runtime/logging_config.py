"""Structured logs: constant text and fields, as JSON in production or readable in a terminal, with the request id.

Code logs through the standard library (`logger.info("memory folded", extra={...})`); structlog only renders. Messages
of chats and keys are never logged. Other libraries are less careful: so the loggers of HTTP clients, which would
print bodies at DEBUG, are pinned to WARNING, exceptions are logged without their messages (`tracebacks`), and the
same applies to other output on standard error.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any

import structlog

from chatmemory.database.ids import new_id
from chatmemory.runtime.escape import plain, plain_lines

logger = logging.getLogger(__name__)

request_id: ContextVar[str] = ContextVar("request_id", default="")

_SANE = re.compile(r"[\w.\-]{8,64}", re.ASCII)

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


def request_id_for(given: str) -> str:
    """The id that a client gave its request if it is valid, otherwise a new one."""
    return given if _SANE.fullmatch(given) else new_id().hex


@contextmanager
def request_context(value: str) -> Iterator[None]:
    """Log everything in the block with the request id `value`, as the worker does for a task that a request caused."""
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
    """Remove the request that Django adds to log lines on a 5xx: its query string may have a question in it."""
    event.pop("request", None)
    return event


def _strip_library_messages(_logger: object, _method: str, event: dict[str, Any]) -> dict[str, Any]:
    """Reduce log lines of other libraries that would quote their input to the constant part."""
    name, said = str(event.get("logger", "")), str(event["event"])
    if name == "asyncio":
        # The rest is the representation of a task with its exception, or of a callback with its arguments.
        event["event"] = re.split(r"[\n<({]", said, maxsplit=1)[0].strip(" .")
    elif name == "py.warnings":
        category = re.search(r"\b(\w*Warning): ", said)
        event["event"] = f"warning: {category[1] if category else 'Warning'}"
        event["where"] = said.partition(": ")[0][:200]
    elif name.startswith("django.security."):
        event["event"] = f"refused: {name.rpartition('.')[2]}"
    return event


def _escape_terminal(_logger: object, _method: str, event: dict[str, Any]) -> dict[str, Any]:
    """Escape text from clients, such as a path, so that it has no effect on a terminal. JSON escapes it by itself."""
    event.pop("color_message", None)  # uvicorn's own colours
    return {
        key: (plain_lines if key == "exception" else plain)(value) if isinstance(value, str) else value
        for key, value in event.items()
    }


def _safe_traceback(exc_info: Any) -> str:
    # Not at the top: it needs the settings, which import this module.
    from chatmemory.runtime.tracebacks import safe_traceback

    return safe_traceback(exc_info[1]) if exc_info[1] is not None else ""


class StderrHandler(logging.StreamHandler[Any]):
    """Writes to standard error. A line that cannot be logged is replaced by a note without its arguments."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  # the standard library's name
        error = sys.exc_info()[0]
        with suppress(OSError, ValueError):  # the output itself is closed
            line = {"event": "a line could not be logged", "level": "error", "logger": record.name}
            self.stream.write(json.dumps({**line, "error": error and error.__name__}) + self.terminator)


def log_uncaught_exceptions() -> None:
    """Log uncaught exceptions in any thread, where Python would print them with their messages.

    For processes that serve. At a terminal, the user may see the messages.
    """

    def log(kind: type[BaseException], error: BaseException | None, where: str) -> None:
        if error is not None and not issubclass(kind, KeyboardInterrupt):
            logger.critical("uncaught exception", exc_info=error, extra={"where": where})

    sys.excepthook = lambda kind, error, _: log(kind, error, "the main thread")
    threading.excepthook = lambda args: log(
        args.exc_type, args.exc_value, args.thread.name if args.thread else "a thread"
    )
    sys.unraisablehook = lambda args: log(args.exc_type, args.exc_value, "a destructor")
    logging.captureWarnings(True)


def logging_config(style: str, level: str) -> dict[str, Any]:
    """The `LOGGING` setting. `style`: json, console, or auto (console on a terminal, otherwise json)."""
    console = style == "console" or (style == "auto" and sys.stderr.isatty())
    render: list[Any] = (
        [_escape_terminal, structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())]
        if console
        else [structlog.processors.JSONRenderer(default=str)]
    )
    shared = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.ExtraAdder(),
        _leave_out_request,
        _strip_library_messages,
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
                "processors": [
                    structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                    structlog.processors.ExceptionRenderer(_safe_traceback),
                    *render,
                ],
            }
        },
        "handlers": {
            "stderr": {"class": "chatmemory.runtime.logging_config.StderrHandler", "formatter": "structured"}
        },
        "root": {"handlers": ["stderr"], "level": level},
        "loggers": {
            **quiet,
            # Their access logs have query strings, which may contain a question. RequestMiddleware logs only the
            # path.
            "uvicorn": {"handlers": [], "level": "INFO", "propagate": True},
            "uvicorn.error": {"handlers": [], "level": "INFO", "propagate": True},
            "uvicorn.access": {"handlers": [], "level": "CRITICAL", "propagate": False},
            "django.server": {"handlers": [], "level": "CRITICAL", "propagate": False},
            # Django's own handlers would print, or mail, whole tracebacks.
            "django": {"handlers": [], "level": "INFO", "propagate": True},
            "django.request": {"level": "ERROR"},
            "django-q": {"handlers": [], "level": "WARNING", "propagate": True},
        },
    }
