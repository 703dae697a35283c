"""The version before this one, from the repository's history: what an upgrade begins with, and speed is compared to."""

import subprocess
from pathlib import Path

from tests.support.processes import ROOT

RELEASED = "fe405414d842266262f339137b21cf645c5b4db7"
"""The commit whose servers may still run when this version's migrations do: the newest release, once there is one."""


def unpack(folder: Path) -> None:
    """Put the files of that commit into `folder`. Raise `LookupError` if this checkout's history does not have it."""
    if subprocess.run(["git", "cat-file", "-e", RELEASED], cwd=ROOT, capture_output=True).returncode:
        raise LookupError(f"This checkout's history does not have commit {RELEASED[:8]}: fetch it whole.")
    archive = subprocess.run(["git", "archive", RELEASED], cwd=ROOT, capture_output=True, check=True).stdout
    subprocess.run(["tar", "-x", "-C", folder], input=archive, check=True)
