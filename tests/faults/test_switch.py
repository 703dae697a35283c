"""Fault points: each name occurs in the code, and a fault strikes when, where and as often as ordered."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from chatmemory.runtime import fault_points
from chatmemory.runtime.fault_points import POINTS, Fault, InjectedFault

ROOT = Path(__file__).resolve().parents[2]
OURS = ("chatmemory", "conversations", "memory")

WHERE = {
    "begin.stored": ["conversations/replies/begin.py", "conversations/replies/begin.py"],
    "begin.committed": ["conversations/api/replies.py"],
    "generate.started": ["conversations/replies/generation.py"],
    "generate.delta": ["conversations/replies/generation.py"],
    "generate.ended": ["conversations/replies/generation.py"],
    "checkpoint.written": ["conversations/replies/finish.py"],
    "finish.stored": ["conversations/replies/finish.py"],
    "finish.committed": ["conversations/replies/finish.py"],
    "cancel.requested": ["conversations/api/active_replies.py"],
    "queue.enqueued": ["memory/queue.py"],
    "fold.leased": ["memory/folding/fold.py"],
    "fold.loaded": ["memory/folding/fold.py"],
    "fold.counted": ["memory/folding/lease.py"],
    "fold.answered": ["memory/folding/lease.py"],
    "publish.stored": ["memory/folding/publish.py"],
    "publish.committed": ["memory/folding/publish.py"],
    "rebuild.kept": ["memory/folding/rebuild.py"],
    "sweep.enqueued": ["memory/worker/sweep.py"],
}


def test_every_point_stands_where_it_should() -> None:
    found: dict[str, list[str]] = {}
    for app in OURS:
        for path in sorted((ROOT / app).rglob("*.py")):
            for name in re.findall(r"fault_points\.point\(\"([^\"]*)\"\)", path.read_text()):
                found.setdefault(name, []).append(path.relative_to(ROOT).as_posix())
    assert found == WHERE
    assert set(WHERE) == set(POINTS)


def test_it_is_off_unless_it_is_switched_on() -> None:
    assert fault_points.point is fault_points.switch("")


@pytest.mark.parametrize(
    "told",
    [
        "nowhere:1:kill:/tmp/x",
        "fold.leased:x:kill:/tmp/x",
        "fold.leased:1:explode:/tmp/x",
        "fold.leased:1:kill:",
        "fold.leased:1:kill",
        "fold.leased",
    ],
)
def test_what_it_does_not_understand_is_refused(told: str) -> None:
    with pytest.raises(ImproperlyConfigured, match="must be"):
        fault_points.switch(told)


def test_it_strikes_at_the_nth_time_at_its_own_point_once(tmp_path: Path) -> None:
    told = f"fold.loaded:2:raise:{tmp_path / 'struck'}"
    one, other = Fault.parse(told), Fault.parse(told)
    one.pass_by("fold.loaded")
    one.pass_by("fold.leased")
    with pytest.raises(InjectedFault, match=r"fold\.loaded"):
        one.pass_by("fold.loaded")
    for fault in (one, other):
        fault.pass_by("fold.loaded")
        fault.pass_by("fold.loaded")
    assert (tmp_path / "struck").read_text() == "fold.loaded"
    with pytest.raises(LookupError):
        one.pass_by("fold.lodaed")


def test_any_counts_all_points(tmp_path: Path) -> None:
    fault = Fault.parse(f"any:2:raise:{tmp_path / 'struck'}")
    fault.pass_by("fold.leased")
    with pytest.raises(InjectedFault):
        fault.pass_by("fold.loaded")


def test_it_stalls(tmp_path: Path) -> None:
    fault = Fault.parse(f"any:1:stall=0.2:{tmp_path / 'struck'}")
    started = time.monotonic()
    fault.pass_by("fold.leased")
    assert time.monotonic() - started >= 0.2


def test_it_kills(tmp_path: Path) -> None:
    fault = f"fold.leased:1:kill:{tmp_path / 'struck'}"
    code = "from chatmemory.runtime import fault_points; fault_points.point('fold.leased')"
    died = subprocess.run([sys.executable, "-c", code], env={"FAULT": fault}, cwd=ROOT, timeout=30)
    assert died.returncode == -signal.SIGKILL


def test_a_file_orders_one_fault_after_the_other(tmp_path: Path) -> None:
    order = tmp_path / "order"
    point = fault_points.switch(f"@{order}")
    point("fold.leased")
    for number in (1, 2):
        order.write_text(f"fold.leased:2:raise:{tmp_path / str(number)}")
        point("fold.leased")
        with pytest.raises(InjectedFault):
            point("fold.leased")
        point("fold.leased")
    order.unlink()
    point("fold.leased")
