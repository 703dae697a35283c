"""Child processes: logged, watched, and ended with all they started."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from chatmemory import children
from tests.conftest import wait_for

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


def start(script: str, tmp_path: Path, patience: float) -> children.Child:
    command = [sys.executable, "-c", script]
    log = tmp_path / "log" / "child.log"
    return children.start("child", command, log=log, cwd=tmp_path, env=dict(os.environ), patience=patience)


def said(child: children.Child) -> str:
    return wait_for(child.log.read_text)  # type: ignore[no-any-return]  # what the condition gave


def is_gone(pid: int) -> bool:
    """True once the process has ended, whether or not somebody has asked for its exit code."""
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
    children.end([child])
    assert child.exit_code == 7


def test_a_child_that_does_not_end_is_killed_with_its_own_children(tmp_path: Path) -> None:
    child = start(STUBBORN, tmp_path, patience=0.1)
    grandchild = int(said(child).split()[1])
    children.end([child])
    assert child.exit_code == -9
    assert wait_for(lambda: is_gone(grandchild))


def test_ending_what_has_ended_is_no_error(tmp_path: Path) -> None:
    child = start("raise SystemExit(3)", tmp_path, patience=1)
    assert wait_for(lambda: child.exit_code) == 3
    children.end([child])
    children.end([child])
    assert child.exit_code == 3


def test_a_log_goes_on_where_it_was(tmp_path: Path) -> None:
    for _ in range(2):
        child = start("print('hello')", tmp_path, patience=1)
        assert child.process.wait(10) == 0
    assert (tmp_path / "log" / "child.log").read_text() == "hello\nhello\n"
