"""Processes and their children, read from /proc, so Linux only."""

from __future__ import annotations

from pathlib import Path


def children_of(parent: int) -> list[int]:
    """Return the living children of a process, oldest first."""
    found = [(started, pid) for pid, ppid, state, started in _all() if ppid == parent and state != "Z"]
    return [pid for _, pid in sorted(found)]


def descendants_of(pid: int) -> list[int]:
    """Return a process's children, their children, and so on."""
    below = children_of(pid)
    return [*below, *(one for child in below for one in descendants_of(child))]


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
