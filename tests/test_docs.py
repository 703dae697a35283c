"""No document names what does not exist, and the pages that are made from the code are as the code is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from chatmemory.config import page
from chatmemory.config.setting import Setting
from memory.policies import PER_POLICY

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()
SETTINGS = (ROOT / "chatmemory" / "settings.py").read_text()
POLICY_DOCS = (ROOT / "docs" / "policies.md").read_text()
DECLARED = [setting for table in page.tables() for setting in table.settings]


def test_the_page_of_settings_is_what_the_code_declares() -> None:
    assert page.PAGE.read_text() == page.render(), "make docs"


def test_a_setting_is_declared_once() -> None:
    names = [setting.name for setting in DECLARED]
    assert len(names) > 100
    assert sorted(names) == sorted(set(names))


@pytest.mark.parametrize("setting", DECLARED, ids=lambda setting: setting.name)
def test_a_setting_has_a_meaning_and_is_read(setting: Setting[object]) -> None:
    assert setting.meaning.endswith((".", ")"))
    of_a_policy = setting.name.startswith(tuple(f"MEMORY_{name.upper()}_" for name in PER_POLICY))
    assert of_a_policy or f".{setting.name}.read()" in SETTINGS


def test_readme_shows_settings_with_the_defaults_of_the_page() -> None:
    row = re.compile(r"^\| `([A-Z][A-Z0-9_]+)` \| (.*?) \|", re.MULTILINE)
    shown = row.findall(README)
    assert len(shown) == 10
    assert set(shown) <= set(row.findall(page.render()))


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
