"""A small disk that can be filled: a tmpfs of its own, which requires the right to mount."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


class NoDisk(Exception):
    """This process may not mount anything."""


@dataclass(frozen=True)
class Disk:
    """A file system of `megabytes` at `folder`."""

    folder: Path
    megabytes: int

    @property
    def _ballast(self) -> Path:
        return self.folder / "ballast"

    def fill(self) -> None:
        """Fill all free space."""
        with self._ballast.open("ab", buffering=0) as file:
            try:
                while file.write(b"\0" * 4096):
                    pass
            except OSError:
                return

    def free(self) -> None:
        """Free the space again."""
        self._ballast.unlink()


@contextmanager
def small_disk(megabytes: int) -> Iterator[Disk]:
    """Mount a small disk that anyone may write to, and remove it at the end. Raises `NoDisk`."""
    if os.geteuid() or not shutil.which("mount"):
        raise NoDisk("Nothing may be mounted here.")
    folder = Path(tempfile.mkdtemp(prefix="small-disk-"))
    options = f"size={megabytes}m,mode=0777"
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], capture_output=True)
    try:
        if mounted.returncode:
            raise NoDisk("Nothing may be mounted here.")
        yield Disk(folder, megabytes)
    finally:
        if not mounted.returncode:
            subprocess.run(["umount", "--lazy", folder], check=True)
        folder.rmdir()
