"""Fixtures of the process tests."""

import subprocess
from pathlib import Path

import pytest

from tests.support.processes import ROOT
from tests.support.product import fake, offline_product, product

__all__ = ["fake", "offline_product", "old_tree", "product"]

RELEASED = "8c0ca170bfd47dcda4bc6e25731fca13fbc67b6f"
"""The commit whose servers may still run when this version's migrations do: the newest release, once there is one."""


@pytest.fixture(scope="session")
def old_tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of that commit, from this repository's history."""
    if subprocess.run(["git", "cat-file", "-e", RELEASED], cwd=ROOT, capture_output=True).returncode:
        pytest.skip(f"This checkout's history does not have commit {RELEASED[:8]}: fetch it whole.")
    folder = tmp_path_factory.mktemp("old")
    archive = subprocess.run(["git", "archive", RELEASED], cwd=ROOT, capture_output=True, check=True).stdout
    subprocess.run(["tar", "-x", "-C", folder], input=archive, check=True)
    return folder
