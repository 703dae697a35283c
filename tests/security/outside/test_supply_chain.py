"""The supply chain: every version locked with its hash, no known vulnerability, no secret in git."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from tests.security.outside.audit import verdict

ROOT = Path(__file__).resolve().parents[3]
LOCKS = {
    "requirements.lock": {""},
    "requirements-dev.lock": {"", "lab", "dev"},
    "requirements-check.lock": {"", "local-embeddings", "lab", "dev", "check"},
}
"""For each file, the extras of pyproject.toml in it; "" is what the product itself needs."""

SAFE_SINCE = {
    # CVE-2026-33034: a body without Content-Length passed DATA_UPLOAD_MAX_MEMORY_SIZE; CVE-2026-5766; CVE-2025-14550:
    # repeated headers; CVE-2026-1287 and -1312: aliases and order_by.
    "django": "5.2.14",
    # CVE-2024-21520: XSS in the browsable API, which is off here.
    "djangorestframework": "3.15.2",
    # Before, some texts took minutes, or a panic that no `except Exception` catches.
    "tiktoken": "0.13",
    # Before, keys were printed at DEBUG.
    "openai": "1.54.3",
}
"""For each package, the first version without vulnerabilities known to us. `make audit` looks up the rest."""


def locked(name: str) -> dict[str, list[tuple[Version, int]]]:
    """Return for each package its versions (usually one, else one per platform), each with its number of hashes."""
    found: dict[str, list[tuple[Version, int]]] = {}
    text = (ROOT / name).read_text().replace("\\\n", " ")
    for line in text.splitlines():
        if not line or line.lstrip().startswith("#"):
            continue
        match = re.match(r"([\w.-]+)(?:\[[\w,-]+\])?==(\S+)", line)
        assert match, f"{name}: this is no locked version: {line[:80]}"
        found.setdefault(_name(match[1]), []).append((Version(match[2]), line.count("--hash=sha256:")))
    return found


def _name(text: str) -> str:
    return re.sub(r"[-_.]+", "-", text).lower()


def wanted(extras: set[str]) -> list[Requirement]:
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lists = {"": project["dependencies"], **project["optional-dependencies"]}
    return [Requirement(text) for extra in sorted(extras) for text in lists[extra]]


@pytest.mark.parametrize("name", LOCKS)
def test_every_locked_version_has_its_hash(name: str) -> None:
    packages = locked(name)
    assert len(packages) > 20
    assert [package for package, versions in packages.items() if not all(n for _, n in versions)] == []


@pytest.mark.parametrize("name", LOCKS)
def test_what_is_needed_is_locked_at_a_version_that_fits(name: str) -> None:
    packages = locked(name)
    for requirement in wanted(LOCKS[name]):
        versions = [version for version, _ in packages.get(_name(requirement.name), [])]
        assert versions, f"{requirement.name} is not in {name}: run `make lock`"
        assert all(requirement.specifier.contains(version) for version in versions), requirement.name


def test_the_locks_agree() -> None:
    small, middle, large = (locked(name) for name in LOCKS)
    assert small.items() <= middle.items()
    assert {name: large[name] for name in middle} == middle


def test_everything_is_installed_by_its_hash() -> None:
    recipes = (ROOT / "Makefile").read_text() + (ROOT / ".ci" / "run").read_text()
    installs = [line for line in recipes.splitlines() if "pip install" in line]
    # `uv` makes the lock files. Nothing it resolves is installed without its hash.
    unlocked = [line for line in installs if "--require-hashes" not in line]
    assert [line.strip() for line in unlocked] == ["$(BIN)/pip install --quiet uv"]
    assert len(installs) - len(unlocked) >= 2


@pytest.mark.parametrize("name", LOCKS)
def test_no_version_has_a_hole_that_we_know_of(name: str) -> None:
    packages = locked(name)
    for package, since in SAFE_SINCE.items():
        assert min(version for version, _ in packages[package]) >= Version(since), package


def test_git_has_no_place_for_secrets() -> None:
    def is_ignored(path: str) -> bool:
        return subprocess.run(["git", "check-ignore", "--quiet", path], cwd=ROOT).returncode == 0

    if not (ROOT / ".git").exists():
        pytest.skip("this is no checkout")
    secret = ("var/secret-key", "var/quickstart.json", "var/chatmemory.sqlite3", ".env")
    assert [path for path in secret if not is_ignored(path)] == []
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert [path for path in tracked.splitlines() if path.startswith("var/") or path.endswith(".env")] == []


SAFE: dict[str, Any] = {"name": "a", "version": "1", "vulns": []}
HOLED: dict[str, Any] = {
    "name": "b", "version": "2", "vulns": [{"id": "CVE-2026-1", "fix_versions": ["3"]}]
}  # fmt: skip
UNKNOWN: dict[str, Any] = {"name": "c", "skip_reason": "Dependency not found"}


@pytest.mark.parametrize(
    ("packages", "online", "offline"),
    [
        ([SAFE], 0, 0),
        ([SAFE, HOLED], 1, 1),
        ([HOLED, UNKNOWN], 1, 1),
        ([SAFE, UNKNOWN], 2, 0),
        ([UNKNOWN], 2, 0),
        ([], 2, 0),
    ],
    ids=["safe", "a hole", "a hole and an unknown", "one unknown", "all unknown", "no answer"],
)
def test_an_audit_that_asked_nobody_does_not_pass(
    packages: list[dict[str, Any]], online: int, offline: int
) -> None:
    assert verdict(packages, is_offline=False)[0] == online
    assert verdict(packages, is_offline=True)[0] == offline


def test_an_audit_names_what_it_found() -> None:
    _, lines = verdict([SAFE, HOLED, UNKNOWN], is_offline=False)
    assert lines == [
        "b 2: CVE-2026-1, fixed in 3",
        "2 of 3 locked packages were asked about, 1 vulnerabilities known.",
    ]
