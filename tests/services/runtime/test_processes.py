"""Child processes: logged, watched, and ended together with all their descendants."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from chatmemory.runtime import processes
from tests.support.exhaustive import first_of
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


FORKING = """
import os, sys, time
from chatmemory.runtime import parent_death
parent_death.tie_forks()
if os.fork() == 0:
    os.fork()
time.sleep(60)
"""
PARENT = """
import os, subprocess, sys, time
from chatmemory.runtime import parent_death
subprocess.Popen(parent_death.command([sys.executable, "-c", sys.argv[1]]), start_new_session=True)
time.sleep(60)
"""
ADOPTING = """
import os, sys, time
from pathlib import Path
from chatmemory.runtime import parent_death, processes
parent_death.adopt()
log = Path(sys.argv[1])
child = processes.start("child", [sys.executable, "-c", sys.argv[2]], log=log, cwd=Path.cwd(), env={}, patience=0)
while not log.read_text(): time.sleep(0.01)
child.kill_all()
stats = [path.read_text().rpartition(")")[2].split() for path in Path("/proc").glob("[0-9]*/stat")]
print("left:", *[stat for stat in stats if stat[1] == str(os.getpid())])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel ties processes on Linux alone")
@pytest.mark.parametrize("generation", first_of([0, 1, 2, 3]))
def test_a_tied_family_ends_with_whichever_elder_is_killed(generation: int) -> None:
    """A parent, its child in a session of its own, a fork of that, and a fork of the fork."""
    parent = subprocess.Popen([sys.executable, "-c", PARENT, FORKING])
    line = wait_for(lambda: found if len(found := [parent.pid, *descendants_of(parent.pid)]) == 4 else None)
    os.kill(line[generation], signal.SIGKILL)
    assert wait_for(lambda: not any(is_alive(pid) for pid in line[generation:]))
    assert [is_alive(pid) for pid in line[:generation]] == [True] * generation
    parent.kill()
    parent.wait()
    assert wait_for(lambda: not any(is_alive(pid) for pid in line))


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel lets one adopt on Linux alone")
def test_who_adopts_waits_for_all_that_was_killed(tmp_path: Path) -> None:
    """No grandchild is left, not even as a zombie."""
    command = [sys.executable, "-c", ADOPTING, str(tmp_path / "log"), STUBBORN]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout.strip() == "left:"
