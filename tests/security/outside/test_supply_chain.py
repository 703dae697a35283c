"""The supply chain: every version locked with its hash, no known vulnerability, no secret in git."""

import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[3]
LOCKS = {"requirements.lock": {"", "otel"}, "requirements-dev.lock": {"", "lab", "otel", "dev", "check"}}
"""For each file, the extras of pyproject.toml in it; "" is what the product itself needs."""


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


def requirements(extras: set[str]) -> list[Requirement]:
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lists = {"": project["dependencies"], **project["optional-dependencies"]}
    return [Requirement(text) for extra in sorted(extras) for text in lists[extra]]


@pytest.mark.parametrize("name", LOCKS)
def test_every_requirement_is_locked_at_a_matching_version_with_its_hash(name: str) -> None:
    packages = locked(name)
    assert len(packages) > 20
    assert [package for package, versions in packages.items() if not all(n for _, n in versions)] == []
    for requirement in requirements(LOCKS[name]):
        versions = [version for version, _ in packages.get(_name(requirement.name), [])]
        assert versions, f"{requirement.name} is not in {name}: run `make lock`"
        assert all(requirement.specifier.contains(version) for version in versions), requirement.name


def test_everything_is_installed_by_its_hash() -> None:
    recipes = (ROOT / "Makefile").read_text() + (ROOT / ".ci" / "run").read_text()
    installs = [line for line in recipes.splitlines() if "pip install" in line]
    # pip brings uv alone, at one version; uv installs and locks the rest.
    (bootstrap,) = [line for line in installs if "--require-hashes" not in line]
    assert re.search(r" uv==[\d.]+$", bootstrap)
    assert len(installs) > 1


def test_git_has_no_place_for_secrets() -> None:
    def is_ignored(path: str) -> bool:
        return subprocess.run(["git", "check-ignore", "--quiet", path], cwd=ROOT).returncode == 0

    if not (ROOT / ".git").exists():
        pytest.skip("this is no checkout")
    secret = ("var/secret-key", "var/quickstart.json", "var/chatmemory.sqlite3", ".env")
    assert [path for path in secret if not is_ignored(path)] == []
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert [path for path in tracked.splitlines() if path.startswith("var/") or path.endswith(".env")] == []
