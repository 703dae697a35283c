"""Forked children: they share loaded modules, have a title and a log, and end with the process that forked them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.process_tree import descendants_of, is_alive
from tests.support.waiting import wait_for

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks elsewhere are not safe, and not made")

FORKING = """
import os, sys, threading, time
from pathlib import Path
from chatmemory.runtime import forks, processes
log = Path(sys.argv[1])
loaded = ["shared"]
def work():
    print(loaded[0], os.getpid() == os.getsid(0), Path("/proc/self/comm").read_text().strip(), flush=True)
    print("and errors", file=sys.stderr)
    exec(sys.argv[2])
child = forks.start("child", work, log=log, patience=30, title="a title that is long")
"""
WAIT = "\nwhile child.exit_code is None: time.sleep(0.01)\nprint(child.exit_code)"


def forked(tmp_path: Path, work: str, then: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", FORKING + then, str(tmp_path / "log" / "child.log"), work]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def said(tmp_path: Path) -> str:
    return (tmp_path / "log" / "child.log").read_text()


def test_it_has_what_was_loaded_and_a_session_a_title_and_a_log_of_its_own(tmp_path: Path) -> None:
    told, error = forked(tmp_path, "sys.exit(7)", WAIT).communicate(timeout=20)
    assert (told, error) == ("7\n", "")
    assert said(tmp_path) == "shared True a title that is\nand errors\n"


def test_what_it_does_not_catch_is_told_in_its_log(tmp_path: Path) -> None:
    told, error = forked(tmp_path, "raise ValueError('here')", WAIT).communicate(timeout=20)
    assert (told, error) == ("1\n", "")
    assert said(tmp_path).endswith("ValueError: here\n")


def test_it_ends_when_asked_and_is_killed_when_it_does_not(tmp_path: Path) -> None:
    end = "\nchild.terminate() if len(sys.argv[2]) < 20 else child.kill_all()" + WAIT
    assert forked(tmp_path, "time.sleep(60)", end).communicate(timeout=20)[0] == "-15\n"
    stubborn = "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, {15}); time.sleep(60)"
    assert forked(tmp_path, stubborn, end).communicate(timeout=20)[0] == "-9\n"


def test_it_ends_with_whoever_forked_it(tmp_path: Path) -> None:
    parent = forked(tmp_path, "time.sleep(60)", "\nprint('forked', flush=True)\ntime.sleep(60)")
    assert parent.stdout is not None
    assert parent.stdout.readline() == "forked\n"
    (child,) = descendants_of(parent.pid)
    os.kill(parent.pid, signal.SIGKILL)
    parent.communicate()
    assert wait_for(lambda: not is_alive(child))


def test_a_process_with_another_thread_does_not_fork() -> None:
    asked = (
        "import threading\n"
        "from chatmemory.runtime import forks\n"
        "print(forks.are_safe())\n"
        "held = threading.Event()\n"
        "threading.Thread(target=held.wait, daemon=True).start()\n"
        "print(forks.are_safe())\n"
    )
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert done.stdout == "True\nFalse\n"
