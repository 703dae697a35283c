"""Tracebacks without messages: the type of an exception and where it was raised, which are safe to log.

A database quotes the row that it refuses, a parser the text that it cannot read, an upstream the prompt. So messages
are left out, except those that cannot contain chat messages or keys: our own, and those that only name identifiers.
"""

from __future__ import annotations

import errno
import re
import traceback
from collections.abc import Iterator

from django.core.exceptions import ImproperlyConfigured

from chatmemory.errors import ChatMemoryError

TRUSTED: tuple[type[BaseException], ...] = (
    ChatMemoryError,
    ImproperlyConfigured,
    AttributeError,
    ImportError,
    NameError,
    RecursionError,
)
"""Exceptions whose messages are included."""
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
