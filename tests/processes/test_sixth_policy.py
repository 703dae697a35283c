"""`docs/policies.md` is right: its worked example is a sixth policy by one module and one registry line."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
CODE = re.compile(r"```python\n(.*?)```", re.DOTALL)
TURNS = 30

Manage = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def manage(tmp_path: Path) -> Manage:
    """`manage.py` of a copy of the product in which the steps of the document were taken."""
    for name in ("chatmemory", "conversations", "memory", "templates"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "manage.py", tmp_path)
    (found,) = CODE.findall((ROOT / "docs" / "policies.md").read_text())
    (tmp_path / "memory" / "policies" / "minutes.py").write_text(found)
    registry = tmp_path / "memory" / "policies" / "__init__.py"
    source = registry.read_text()
    opening = "POLICIES: Final[dict[str, Policy]] = {\n"
    assert source.count(opening) == 1
    added = f"from memory.policies.minutes import Minutes\n\n{opening}    Minutes.name: Minutes(),\n"
    registry.write_text(source.replace(opening, added))

    def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        given = {**os.environ, "DATABASE_URL": f"sqlite:///{tmp_path / 'db.sqlite3'}", **environment}
        return subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=tmp_path,
            env=given,
            capture_output=True,
            text=True,
            timeout=120,
        )

    return run


def test_the_worked_example_is_a_policy_like_any_other(manage: Manage, tmp_path: Path) -> None:
    messages = [
        {
            "role": role,
            "content": f"{role} names booking AB-{1000 + number} for 2026-03-{number % 28 + 1:02}.",
        }
        for number in range(TURNS)
        for role in ("user", "assistant")
    ]
    (tmp_path / "chat.json").write_text(json.dumps({"messages": messages}))
    ran = manage("replay", "chat.json", "--policy", "minutes", "--json", "out.json")
    assert ran.returncode == 0, ran.stderr
    (row,) = json.loads((tmp_path / "out.json").read_text())["policies"]
    assert (row["policy"], row["turns"], row["over_budget"]) == ("minutes", TURNS, 0)
    assert row["summarizer"]["calls"] == 4  # six turns each, beyond a window of three


def test_its_numbers_are_settings(manage: Manage) -> None:
    assert manage("check").returncode == 0
    refused = manage("check", MEMORY_MINUTES_EVERY_TURNS="0")
    assert refused.returncode != 0
    assert "MEMORY_MINUTES_EVERY_TURNS is 0, but must be a whole number from 1 to 100." in refused.stderr
