"""What the commands share: the user and the files that were named; a question; a progress bar where somebody looks."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from django.contrib.auth.models import User
from django.core.management.base import CommandError, OutputWrapper
from rich.console import Console
from rich.progress import Progress

from chatmemory.runtime.escape import plain
from conversations.interchange.dialects import FormatName
from conversations.interchange.read import FormatError, ImportedChat, read_chats


def user_named(name: str) -> User:
    """The active user of that name. Raises `CommandError`."""
    user = User.objects.filter(username=name).first()
    if user is None:
        raise CommandError(f"There is no user {name!r}.")
    if not user.is_active:
        raise CommandError(f"The user {name!r} is not active.")
    return user


def chats_in(path: Path, name: FormatName = "auto") -> list[ImportedChat]:
    """All conversations of a file. Raises `CommandError` naming the file and what is wrong with it."""
    try:
        return read_chats(path.read_text(encoding="utf-8"), name)
    except OSError as exc:
        raise CommandError(f"{plain(str(path))}: {exc.strerror or exc}") from exc
    except UnicodeDecodeError as exc:
        raise CommandError(f"{plain(str(path))}: not UTF-8 at byte {exc.start}") from exc
    except FormatError as exc:
        raise CommandError(f"{plain(str(path))}: {exc}") from exc


def confirmed(question: str, stream: OutputWrapper) -> bool:
    """Whether somebody answers `yes`. Where nobody is there to answer, that is no."""
    stream.write(f"{question} This cannot be undone. Type yes to continue: ", ending="")
    stream.flush()
    try:
        return input().strip().lower() == "yes"
    except EOFError:
        return False


@contextmanager
def progress_bar(title: str, total: int, stream: OutputWrapper) -> Iterator[Callable[[int], None]]:
    """A bar of `total` steps on standard error if `stream`, a command's stderr, is a terminal; then gone.

    Yields the function that advances it. What is logged meanwhile appears above it.
    """
    with Progress(console=Console(stderr=True), transient=True, disable=not stream.isatty()) as bar:
        task = bar.add_task(title, total=total)
        with _logs_above(bar):
            yield lambda steps: bar.advance(task, steps)


@contextmanager
def _logs_above(bar: Progress) -> Iterator[None]:
    """Let logs that go to standard error go through the bar's own console, which draws the bar anew below them."""
    handlers = [one for one in logging.getLogger().handlers if isinstance(one, logging.StreamHandler)]
    before = [] if bar.disable else [(one, one.stream) for one in handlers if one.stream is sys.__stderr__]
    for handler, _ in before:
        handler.setStream(sys.stderr)  # which is the bar's while it is shown
    try:
        yield
    finally:
        for handler, stream in before:
            handler.setStream(stream)
