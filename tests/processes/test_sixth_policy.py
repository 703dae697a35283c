"""`docs/policies.md` is right: its worked example is a sixth policy in one module and one registry line."""

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


def recorded() -> list[dict[str, str]]:
    """Make a chat in which each side names its own booking in every turn."""
    return [
        {
            "role": role,
            "content": f"{role} names booking AB-{1000 + number} for 2026-03-{number % 28 + 1:02}.",
        }
        for number in range(TURNS)
        for role in ("user", "assistant")
    ]


@pytest.fixture
def manage(tmp_path: Path) -> Manage:
    """Return `manage.py` of a copy of the product in which the document's steps were followed."""
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

    (tmp_path / "chat.json").write_text(json.dumps({"messages": recorded()}))

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


def test_the_documented_sixth_policy_works(manage: Manage, tmp_path: Path) -> None:
    ran = manage("replay", "chat.json", "--policy", "minutes", "--json", "out.json")
    assert ran.returncode == 0, ran.stderr
    (row,) = json.loads((tmp_path / "out.json").read_text())["policies"]
    assert (row["policy"], row["turns"], row["over_budget"]) == ("minutes", TURNS, 0)
    assert row["calls"] == 4  # six turns each, beyond a window of three


def test_the_tests_of_all_policies_hold_for_a_sixth(manage: Manage, tmp_path: Path) -> None:
    for name in ("tests", "benchmarks"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__", "node_modules"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-k",
        "minutes",
        "tests/unit",
        "tests/security/injection",
    ]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stdout[-3000:]


SEEN_BY_PEOPLE = """
import re
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client
from conversations.models import Chat
from memory.models import ConversationBrief

call_command("migrate", verbosity=0)
boss = User.objects.create_superuser("boss")
call_command("import_chat", "chat.json", user="boss", verbosity=0)
chat = Chat.objects.get()
call_command("resummarize", str(chat.pk), policy="minutes", sync=True, verbosity=0)
brief = ConversationBrief.objects.get()
assert (brief.policy, brief.head > 0) == ("minutes", True)
assert "AB-10" in brief.global_summary, brief.global_summary

client = Client(HTTP_HOST="127.0.0.1")
client.force_login(boss)
page = client.get("/playground/").content.decode()
assert 'value="minutes"' in page and "Minutes" in page

where = f"/admin/memory/conversationbrief/{chat.pk}/edit/"
form = client.get(where).content.decode()
assert 'name="part-summary"' in form
version = re.search('name="on_version" value="([0-9]+)"', form)[1]
sent = {"on_version": version, "part-summary": "- Booking AB-1000 is the one that counts.", "confirmed": "1"}
saved = client.post(where, sent)
assert saved.status_code == 302, saved.content.decode()
brief.refresh_from_db()
assert brief.global_summary == "- Booking AB-1000 is the one that counts."
print("edited")
"""


def test_a_sixth_policy_can_be_chosen_read_and_edited(manage: Manage) -> None:
    ran = manage("shell", "-c", SEEN_BY_PEOPLE, DEBUG="1")
    assert (ran.returncode, ran.stdout.split()[-1:]) == (0, ["edited"]), ran.stderr[-3000:]
