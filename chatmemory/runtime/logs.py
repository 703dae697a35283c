"""Structured logs: constant text and fields, as JSON or readable in a terminal, with the ids of request and trace.

Code logs through the standard library (`logger.info("memory folded", extra={...})`); this only renders. Messages
of chats and keys are never logged. Other libraries are less careful: so the loggers of HTTP clients, which would
print bodies at DEBUG, are pinned to WARNING, exceptions are logged without their messages, and the same
applies to other output on standard error: a database quotes the row that it refuses, a parser the text that it cannot
read, an upstream the prompt.
"""

import errno
import json
import logging
import re
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

from django.core.exceptions import ImproperlyConfigured

from chatmemory.database.ids import new_id
from chatmemory.errors import ChatMemoryError
from chatmemory.runtime import tracing
from chatmemory.runtime.escape import plain, plain_lines, without_end_user

logger = logging.getLogger(__name__)

request_id: ContextVar[str] = ContextVar("request_id", default="")
request_began: ContextVar[float | None] = ContextVar("request_began", default=None)
"""When the request came, in monotonic time."""

_SANE = re.compile(r"[\w.\-]{8,64}", re.ASCII)

PINNED = (
    "openai",
    "httpx2",
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
    token, began = request_id.set(value), request_began.set(time.monotonic())
    try:
        yield
    finally:
        request_id.reset(token)
        request_began.reset(began)


def _constant_part(line: dict[str, Any]) -> dict[str, Any]:
    """The loggable part of another library's line, which would quote its input."""
    name, event = line["logger"], line["event"]
    if name == "asyncio":
        # The rest is the representation of a task with its exception, or of a callback with its arguments.
        return {"event": re.split(r"[\n<({]", event, maxsplit=1)[0].strip(" .")}
    if name == "py.warnings":
        category = re.search(r"\b(\w*Warning): ", event)
        return {
            "event": f"warning: {category[1] if category else 'Warning'}",
            "where": event.partition(": ")[0][:200],
        }
    if name == "django.security.csrf":  # its reason, without the client's header that follows in some
        return {"event": "refused: csrf", "reason": re.split(r" - |\)", event.partition("(")[2], maxsplit=1)[0]}
    return {"event": f"refused: {name.rpartition('.')[2]}"} if name.startswith("django.security.") else {}


_NO_EXTRAS = logging.makeLogRecord({}).__dict__.keys() | {
    "message",
    "taskName",
    "color_message",  # uvicorn's own colours
    "request",  # Django adds it to a 5xx: its query string may have a question in it
}


class JsonFormatter(logging.Formatter):
    """Renders a record as a line of JSON, which escapes text from clients by itself."""

    def format(self, record: logging.LogRecord) -> str:
        return json.dumps(self.fields(record), default=str)

    def fields(self, record: logging.LogRecord) -> dict[str, Any]:
        """The constant text, and all that is known with it."""
        line = {"event": record.getMessage(), "level": record.levelname.lower(), "logger": record.name}
        line |= {name: value for name, value in record.__dict__.items() if name not in _NO_EXTRAS}
        line |= _constant_part(line)
        line |= {name: without_end_user(str(line[name])) for name in ("event", "path") if name in line}
        line["timestamp"] = datetime.fromtimestamp(record.created, UTC).isoformat()
        if value := request_id.get():
            line.setdefault("request_id", value)
        line |= tracing.ids()
        if record.exc_info and record.exc_info[1] is not None:
            line["exception"] = safe_traceback(record.exc_info[1])
        return line


class ConsoleFormatter(JsonFormatter):
    """Renders a record for people; text from clients, such as a path, has no effect on a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        line = self.fields(record)
        begin = f"{line.pop('timestamp')[:19]} {line.pop('level'):8} {plain(line.pop('event'))}"
        exception = line.pop("exception", None)
        rest = (f"{plain(name)}={plain(str(value))}" for name, value in line.items())
        return " ".join([begin, *rest]) + (f"\n{plain_lines(exception)}" if exception else "")


TRUSTED: tuple[type[BaseException], ...] = (
    ChatMemoryError,
    ImproperlyConfigured,
    AttributeError,
    ImportError,
    NameError,
    RecursionError,
)
"""Exceptions whose messages are logged: our own, and exceptions that only name identifiers."""
FACTS = ("sqlstate", "sqlite_errorname", "status_code", "returncode")
"""Attributes of database, HTTP and process errors that contain a number or a name."""
_NAME = re.compile(r"\w{1,40}", re.ASCII)
FRAMES = 12
"""Maximum number of frames per exception. Of libraries, only the innermost are included."""
INNERMOST = 2


def safe_traceback(error: BaseException) -> str:
    """A traceback like Python's, without messages. Ends with the line of `error` itself."""
    return "\n".join(_lines(error, set()))


def headline(error: BaseException) -> str:
    """The type of an error, with its known attributes: `psycopg.errors.UniqueViolation [sqlstate=23505]`."""
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    facts = " ".join(f"{key}={value}" for key, value in _facts(error))
    message = f": {error}" if isinstance(error, TRUSTED) else ""
    return f"{name} [{facts}]{message}" if facts else f"{name}{message}"


def _lines(error: BaseException, seen: set[int]) -> Iterator[str]:
    seen.add(id(error))
    before = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if before is not None and id(before) not in seen:
        yield from _lines(before, seen)
        yield "which led to" if error.__cause__ else "while that was handled"
    yield "Traceback (most recent call last):"
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames[:-INNERMOST] if "site-packages" not in frame.filename]
    for frame in [*ours[INNERMOST - FRAMES :], *frames[-INNERMOST:]]:
        yield f'  File "{frame.filename}", line {frame.lineno}, in {frame.name}'
    yield headline(error)
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from (f"  | {line}" for line in _lines(inner, seen))


def _facts(error: BaseException) -> Iterator[tuple[str, object]]:
    if isinstance(error, OSError) and (known := errno.errorcode.get(error.errno or 0)):
        yield "errno", known
    for name in FACTS:
        value = getattr(error, name, None)
        if isinstance(value, int) or (isinstance(value, str) and _NAME.fullmatch(value)):
            yield name, value
    constraint = getattr(getattr(error, "diag", None), "constraint_name", None)
    if constraint:
        yield "constraint", constraint


class StderrHandler(logging.StreamHandler[Any]):
    """Writes to the standard error of the moment, such as a progress bar's.

    A line that cannot be logged is replaced by a note without its arguments.
    """

    @property
    def stream(self) -> Any:
        return sys.stderr

    @stream.setter
    def stream(self, _: Any) -> None:
        """Python's own handler sets it once."""

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
    quiet = {name: {"level": "WARNING"} for name in PINNED}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "structured": {"()": ConsoleFormatter if console else JsonFormatter},
        },
        "handlers": {"stderr": {"class": "chatmemory.runtime.logs.StderrHandler", "formatter": "structured"}},
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
            # A line for each lost batch of spans, not for each try; and none that quotes a client's header.
            "opentelemetry.exporter": {"level": "ERROR"},
            "opentelemetry.trace": {"level": "ERROR"},
        },
    }
