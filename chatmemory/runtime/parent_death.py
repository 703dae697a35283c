"""Processes that end with their parent, however that ends. The kernel sees to it, on Linux; elsewhere nothing is tied.

A parent that gets SIGKILL cannot take its children along. So a child asks the kernel to be killed when its parent dies;
that holds for one parent and one child, thus for a whole family only if each of them asks. As a script this module ties
itself to the parent it was started by, and becomes the command that follows: that needs nothing of the command.

The kernel means the thread that started the child: start what is tied from a thread that lives as long as it.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Sequence

# From <linux/prctl.h>.
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36

_forking = 0
"""The process that is forking right now, as its child will find it."""


def command(words: Sequence[str]) -> list[str]:
    """The command `words`, to be started by this process and to end with it."""
    return [sys.executable, "-I", "-S", __file__, str(os.getpid()), *words]


def tie_forks() -> None:
    """Tie every process that is forked from this one, and from those, to the one it was forked from."""
    os.register_at_fork(before=_remember, after_in_child=lambda: tie(_forking))


def adopt() -> None:
    """Become the parent of grandchildren whose own parent died, so that their end can be waited for."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def tie(parent: int) -> None:
    """End with `parent`, which is this process's parent, or was."""
    if sys.platform != "linux":
        return
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before the kernel was asked
        os.kill(os.getpid(), signal.SIGKILL)


def _remember() -> None:
    global _forking
    _forking = os.getpid()


def _prctl(option: int, value: int) -> None:
    if sys.platform != "linux":
        return
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


if __name__ == "__main__":
    tie(int(sys.argv[1]))
    os.execv(sys.argv[2], sys.argv[2:])  # noqa: S606  # the caller's own command, no shell
