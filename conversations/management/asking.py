"""What the commands share: finding the user that was named; a progress bar where somebody looks on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from django.contrib.auth.models import User
from django.core.management.base import CommandError, OutputWrapper
from rich.console import Console
from rich.progress import Progress


def user_named(name: str) -> User:
    """The active user of that name. Raises `CommandError`."""
    user = User.objects.filter(username=name).first()
    if user is None:
        raise CommandError(f"There is no user {name!r}.")
    if not user.is_active:
        raise CommandError(f"The user {name!r} is not active.")
    return user


@contextmanager
def progress_bar(title: str, total: int, stream: OutputWrapper) -> Iterator[Callable[[int], None]]:
    """A bar of `total` steps on standard error if `stream`, a command's stderr, is a terminal; then gone.

    Yields the function that advances it. Print nothing on the same terminal while it is there.
    """
    with Progress(console=Console(stderr=True), transient=True, disable=not stream.isatty()) as bar:
        task = bar.add_task(title, total=total)
        yield lambda steps: bar.advance(task, steps)
