"""Makes processes end with their parent, even if that is killed. The kernel does it, on Linux only.

A parent that gets SIGKILL cannot end its children. So a child asks the kernel to be killed when its parent dies; that
applies to one parent and one child, so a whole process tree is covered only if each process asks. Run as a script,
this module ties itself to the parent that started it, and becomes the command that follows, which need not know about
it.

To the kernel, the parent is the thread that started the child: start tied processes from a thread that lives as long
as the process.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Sequence

# From <linux/prctl.h>.
_PR_SET_PDEATHSIG = 1


def command(words: Sequence[str]) -> list[str]:
    """The command `words`, wrapped so that it ends with this process, which must start it."""
    return [sys.executable, "-I", "-S", __file__, str(os.getpid()), *words]


def tie(parent: int) -> None:
    """End when `parent` does, which must be this process's parent, or have been it."""
    if sys.platform != "linux":
        return
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # the parent died before the kernel was asked
        os.kill(os.getpid(), signal.SIGKILL)


def _prctl(option: int, value: int) -> None:
    if sys.platform != "linux":
        return
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


if __name__ == "__main__":
    tie(int(sys.argv[1]))
    os.execv(sys.argv[2], sys.argv[2:])  # noqa: S606  # the caller's own command, no shell
