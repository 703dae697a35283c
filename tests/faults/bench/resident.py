"""A process's memory, and how much of it one call may use (P29)."""

from pathlib import Path

MB = 1024 * 1024
MOST = 64 * MB


def resident(pid: int, field: str = "VmRSS") -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(field))
