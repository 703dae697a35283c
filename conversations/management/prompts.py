"""Helpers shared by commands: look up a user, read files, ask for confirmation, show a progress bar on a terminal."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError, OutputWrapper
from rich.console import Console
from rich.progress import Progress

from chatmemory.errors import InvalidRequest
from chatmemory.runtime.escape import plain
from conversations.interchange.read import read_chats
from conversations.interchange.rows import check_chat
from conversations.interchange.values import FormatError, ImportedChat
from conversations.models import Chat


def user_named(name: str, *, may_be_inactive: bool = False) -> User:
    """Return the user of that name. Raises `CommandError`."""
    user = User.objects.filter(username=name).first()
    if user is None:
        raise CommandError(f"There is no user {plain(name)!r}.")
    if not (user.is_active or may_be_inactive):
        raise CommandError(f"The user {plain(name)!r} is not active.")
    return user


def chat_named(text: str) -> Chat:
    """Return the chat with that id. Raises `CommandError`."""
    with suppress(ValueError):
        if chat := Chat.objects.select_related("owner").filter(pk=UUID(text)).first():
            return chat
    raise CommandError(f"There is no chat {plain(text)}.")


def chats_in(path: Path) -> list[ImportedChat]:
    """Read all conversations of a file. Raises `CommandError` naming the file and its fault."""
    try:
        chats = read_chats(path.read_text(encoding="utf-8"))
        for chat in chats:
            check_chat(chat)
        return chats
    except OSError as exc:
        raise CommandError(f"{plain(str(path))}: {exc.strerror or exc}") from exc
    except UnicodeDecodeError as exc:
        raise CommandError(f"{plain(str(path))}: not UTF-8 at byte {exc.start}") from exc
    except (FormatError, InvalidRequest) as exc:
        raise CommandError(f"{plain(str(path))}: {exc}") from exc


def require_yes(question: str, command: BaseCommand, options: Mapping[str, Any]) -> None:
    """Raise `CommandError` unless `--yes` is given or the answer on standard input is `yes`."""
    if options["yes"]:
        return
    command.stdout.write(f"{question} This cannot be undone. Type yes to continue: ", ending="")
    command.stdout.flush()
    with suppress(EOFError):
        if input().strip().lower() == "yes":
            return
    raise CommandError("Nothing was done.")


@contextmanager
def progress_bar(title: str, total: int, stream: OutputWrapper) -> Iterator[Callable[[int], None]]:
    """Show a bar of `total` steps on standard error if `stream`, a command's stderr, is a terminal; then remove it.

    Yields the function that advances it. Log lines appear above the bar.
    """
    with Progress(console=Console(stderr=True), transient=True, disable=not stream.isatty()) as bar:
        task = bar.add_task(title, total=total)
        yield lambda steps: bar.advance(task, steps)
