"""The processes of a cluster, told apart by their place in the family; read from /proc, so on Linux alone.

A watchdog has one child, the cluster's main process, whose only child is the sentinel. The sentinel's children are the
workers, known by the rows they write, and monitor and pusher. It starts the monitor first; a pusher that died is
started anew, and so is younger still. (So is a monitor, but the cluster does not live long after that.)
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
        """All but the watchdog, by what they are."""
        workers = {f"worker {number}": pid for number, pid in enumerate(self.workers, 1)}
        return {
            "main": self.main,
            "sentinel": self.sentinel,
            **workers,
            "monitor": self.monitor,
            "pusher": self.pusher,
        }


def family_of(watchdog: int, workers: Collection[int]) -> Family | None:
    """The family under `watchdog`, with those workers; None as long as it is not complete."""
    main = children_of(watchdog)
    sentinel = children_of(main[0]) if len(main) == 1 else []
    rest = children_of(sentinel[0]) if len(sentinel) == 1 else []
    others = [pid for pid in rest if pid not in workers]
    if len(rest) != len(workers) + 2 or len(others) != 2:
        return None
    return Family(watchdog, main[0], sentinel[0], tuple(workers), *others)


def children_of(parent: int) -> list[int]:
    """Living children of a process, the oldest first."""
    found = [(started, pid) for pid, ppid, state, started in _all() if ppid == parent and state != "Z"]
    return [pid for _, pid in sorted(found)]


def descendants_of(pid: int) -> list[int]:
    """Its children, and theirs."""
    below = children_of(pid)
    return [*below, *(one for child in below for one in descendants_of(child))]


def is_alive(pid: int) -> bool:
    """False once it has ended, whether or not somebody has asked for its exit code."""
    return any(pid == one and state != "Z" for one, _, state, _ in _all())


def left_of(watch: str) -> list[int]:
    """Living processes of a cluster, whoever their parent is now, that name the watchdog `watch`.

    A fork does so by what `ps` calls it, what was executed by its environment.
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
    """Of each process: its id, its parent's, its state, when it was started."""
    found = []
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                fields = (path / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            found.append((int(path.name), int(fields[1]), fields[0], int(fields[19])))
    return found
