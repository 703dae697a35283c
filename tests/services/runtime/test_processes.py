"""Child processes: logged, watched, and ended together with all their descendants."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from chatmemory.runtime import processes
from tests.support.process_tree import descendants_of, is_alive
from tests.support.waiting import wait_for

STUBBORN = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
grandchild = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
print("grandchild", grandchild.pid, flush=True)
time.sleep(60)
"""
POLITE = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
print("ready", flush=True)
time.sleep(60)
"""


def start(script: str, tmp_path: Path, patience: float) -> processes.Child:
    command = [sys.executable, "-c", script]
    log = tmp_path / "log" / "child.log"
    return processes.start("child", command, log=log, cwd=tmp_path, env=dict(os.environ), patience=patience)


def said(child: processes.Child) -> str:
    """Return what the child printed, once it has printed a whole line: Python may write its end separately."""
    wait_for(lambda: child.log.read_text().endswith("\n"))
    return child.log.read_text()


def is_gone(pid: int) -> bool:
    """True if the process has ended, even if nobody has collected its exit code."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    status = Path(f"/proc/{pid}/stat")
    return status.exists() and status.read_text().rpartition(")")[2].split()[0] == "Z"


def test_a_child_that_can_end_ends_by_itself(tmp_path: Path) -> None:
    child = start(POLITE, tmp_path, patience=30)
    assert said(child) == "ready\n"
    assert child.exit_code is None
    processes.end([child])
    assert child.exit_code == 7


def test_a_child_that_does_not_end_is_killed_with_its_own_children(tmp_path: Path) -> None:
    child = start(STUBBORN, tmp_path, patience=0.1)
    grandchild = int(said(child).split()[1])
    processes.end([child])
    assert child.exit_code == -9
    assert wait_for(lambda: is_gone(grandchild))


def test_ending_what_has_ended_is_no_error(tmp_path: Path) -> None:
    child = start("raise SystemExit(3)", tmp_path, patience=1)
    assert wait_for(lambda: child.exit_code) == 3
    processes.end([child])
    processes.end([child])
    assert child.exit_code == 3


def test_a_log_goes_on_where_it_was(tmp_path: Path) -> None:
    for _ in range(2):
        child = start("print('hello')", tmp_path, patience=1)
        assert child.process.wait(10) == 0
    assert (tmp_path / "log" / "child.log").read_text() == "hello\nhello\n"


PARENT = """
import subprocess, sys, time
from chatmemory.runtime import parent_death
subprocess.Popen(parent_death.command([sys.executable, "-c", "import time; time.sleep(60)"]), start_new_session=True)
time.sleep(60)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel ties processes on Linux alone")
def test_a_tied_child_ends_with_its_parent() -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT])
    child = wait_for(lambda: descendants_of(parent.pid))[0]
    parent.kill()
    parent.wait()
    assert wait_for(lambda: not is_alive(child))
