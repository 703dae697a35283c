"""The processes of a cluster, identified by their place in the tree; read from /proc, so Linux only.

A watchdog has one child, the cluster's main process, whose only child is the sentinel. The sentinel's children are the
workers, known by the rows they write, the monitor and the pusher. The monitor starts first; a pusher that died is
replaced, and so is younger still. (So is a monitor, but the cluster does not live long after that.)
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Family:
    """Process ids of one watched cluster."""

    watchdog: int
    main: int
    sentinel: int
    workers: tuple[int, ...]
    monitor: int
    pusher: int

    def cluster(self) -> dict[str, int]:
        """Return all except the watchdog, by their role."""
        workers = {f"worker {number}": pid for number, pid in enumerate(self.workers, 1)}
        return {
            "main": self.main,
            "sentinel": self.sentinel,
            **workers,
            "monitor": self.monitor,
            "pusher": self.pusher,
        }


def family_of(watchdog: int, workers: Collection[int]) -> Family | None:
    """Return the family under `watchdog`, with those workers; None while it is incomplete."""
    main = children_of(watchdog)
    sentinel = children_of(main[0]) if len(main) == 1 else []
    rest = children_of(sentinel[0]) if len(sentinel) == 1 else []
    others = [pid for pid in rest if pid not in workers]
    if len(rest) != len(workers) + 2 or len(others) != 2:
        return None
    return Family(watchdog, main[0], sentinel[0], tuple(workers), *others)


def children_of(parent: int) -> list[int]:
    """Return the living children of a process, oldest first."""
    found = [(started, pid) for pid, ppid, state, started in _all() if ppid == parent and state != "Z"]
    return [pid for _, pid in sorted(found)]


def descendants_of(pid: int) -> list[int]:
    """Return a process's children, their children, and so on."""
    below = children_of(pid)
    return [*below, *(one for child in below for one in descendants_of(child))]


def is_alive(pid: int) -> bool:
    """False once it has ended, even if its exit code has not been collected."""
    return any(pid == one and state != "Z" for one, _, state, _ in _all())


def left_of(watch: str) -> list[int]:
    """Return the living processes of a cluster, under any parent, that name the watchdog `watch`.

    A fork names it in its title in `ps`, an executed program in its environment.
    """
    title, mark = f"worker {watch.rpartition(':')[2]}", f"WORKER_WATCH={watch}".encode()
    return [
        pid
        for pid, _, state, _ in _all()
        if state != "Z" and (_title(pid) == title or mark in _environment(pid))
    ]


def _title(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def _environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def _all() -> list[tuple[int, int, str, int]]:
    """Return the id, parent's id, state and start time of each process."""
    found = []
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                fields = (path / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            found.append((int(path.name), int(fields[1]), fields[0], int(fields[19])))
    return found
