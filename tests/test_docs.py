"""The README's table of settings is complete and says the true defaults; no document names what does not exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from memory.policies import PER_POLICY
from memory.policies.numbers import bounds_of

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()
SETTINGS = (ROOT / "chatmemory" / "settings.py").read_text()
POLICY_DOCS = (ROOT / "docs" / "policies.md").read_text()
ROWS = dict(re.findall(r"^\| `([A-Z][A-Z0-9_]+)` \| (.*?) \|", README, re.MULTILINE))
NUMBERS = {
    f"MEMORY_{policy.upper()}_{name.upper()}": default
    for policy, kind in PER_POLICY.items()
    for name, (default, _) in bounds_of(kind).items()
}
READ = re.findall(r'env\.(\w+)\(\s*"([A-Z][A-Z0-9_]+)"(?:,\s*([^,()]+))?', SETTINGS)


def test_it_reads_settings_at_all() -> None:
    assert len(READ) > 40


@pytest.mark.parametrize("name", sorted({name for _, name, _ in READ} | NUMBERS.keys()))
def test_it_documents_every_setting(name: str) -> None:
    assert name in ROWS


@pytest.mark.parametrize("name", sorted(ROWS))
def test_it_documents_no_setting_that_is_not_read(name: str) -> None:
    assert name in {read for _, read, _ in READ} | NUMBERS.keys()


@pytest.mark.parametrize(
    ("kind", "name", "default"), [row for row in READ if row[0] in ("integer", "seconds", "boolean")]
)
def test_it_documents_the_default(kind: str, name: str, default: str) -> None:
    value = str(eval(default, {"__builtins__": {}})) if kind != "boolean" else default.strip().lower()
    assert ROWS[name] == f"`{value}`"


@pytest.mark.parametrize("name", sorted(NUMBERS))
def test_it_documents_the_default_of_each_number_of_a_policy(name: str) -> None:
    assert ROWS[name] == f"`{str(NUMBERS[name]).lower()}`"


@pytest.mark.parametrize("named", sorted(set(re.findall(r"`(tests/[\w/]+\.py::\w+)`", POLICY_DOCS))))
def test_every_test_that_is_named_exists(named: str) -> None:
    path, _, name = named.partition("::")
    assert re.search(rf"^(async )?def {name}\(", (ROOT / path).read_text(), re.MULTILINE)


@pytest.mark.parametrize(
    "document", ["README.md", "CONTRIBUTING.md", "docs/decisions.md", "docs/policies.md"]
)
def test_its_links_lead_somewhere(document: str) -> None:
    path = ROOT / document
    for target in re.findall(r"\]\(([^)#:]+)\)", path.read_text()):
        assert (path.parent / target).exists(), target
