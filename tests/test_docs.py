"""What the documents name exists: links, commands, make targets, settings, modules, and tests of each promise."""

import re
from functools import cache
from pathlib import Path

import pytest
from django.core.management import get_commands

from benchmarks import modules_list
from benchmarks import settings_page as page
from chatmemory.config.declared import SECRETS, Config

pytestmark = pytest.mark.exhaustive

ROOT = Path(__file__).resolve().parent.parent
APPS = ("chatmemory", "conversations", "memory")
DOCUMENTS = ["README.md", "CONTRIBUTING.md", *(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))]
SETTING = re.compile(
    r"\b(?:DATABASE|DJANGO|LIMIT|MEMORY|OPENAI|REPLY|REQUEST|SOURCES|SUMMARIZER|WORKER)_[A-Z_]*[A-Z]\b(?!_)"
)
MODULE = re.compile(r"`((?:benchmarks|chatmemory|conversations|memory|templates|tests)/[\w/]+)")
OPERATORS = ["deploy.md", "sign-in.md", "monitoring.md", "scale.md", "upgrade.md", "backup.md"]
"""All that an operator has to read, in this order."""
MINUTES, WORDS_PER_MINUTE = 30, 220
MARK = re.compile(r"mark\.promise\(([^)]*)\)")


@cache
def text_of(document: str) -> str:
    return (ROOT / document).read_text()


@cache
def anchors(path: Path) -> set[str]:
    """Return the headings of a page as GitHub's anchors."""
    titles = re.findall(r"^#+ (.*)$", path.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\s-]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def test_modules_are_listed_by_their_docstrings() -> None:
    assert (ROOT / "docs/architecture.md").read_text() == modules_list.render(), "run `make docs`"


def test_settings_page_equals_declarations() -> None:
    assert page.PAGE.read_text() == page.render(), "make docs"


def test_each_setting_has_a_meaning_and_is_read() -> None:
    source = "".join(path.read_text() for app in APPS for path in (ROOT / app).rglob("*.py"))
    assert Config.model_fields.keys() - {"CHATMEMORY_HOME"} <= set(
        re.findall(r"\b(?:config|settings)\.([A-Z_]+)\b", source)
    )
    for name, field in Config.model_fields.items():
        assert (field.description or "").endswith((".", ")")), name


@pytest.mark.parametrize("document", DOCUMENTS)
def test_docs_links_resolve(document: str) -> None:
    path = ROOT / document
    for target in re.findall(r"\]\(([^)\s]*)\)", text_of(document)):
        file, _, anchor = target.partition("#")
        if "://" not in target:
            found = (path.parent / file) if file else path
            assert found.exists(), target
            assert not anchor or anchor in anchors(found), target


@pytest.mark.parametrize("document", DOCUMENTS)
def test_docs_name_existing_things(document: str) -> None:
    text = text_of(document)
    assert set(re.findall(r"manage\.py (\w+)", text)) <= set(get_commands())
    code = "\n".join(re.findall(r"```.*?```|`[^`\n]+`", text, re.DOTALL))
    targets = re.findall(r"^([a-z-]+):", text_of("Makefile"), re.MULTILINE)
    assert set(re.findall(r"^`?(?:[A-Z_]+=\S+ )*make ([a-z-]+)", code, re.MULTILINE)) <= set(targets)
    assert set(re.findall(r"(?:bin/| server |-- |`)chatmemory (\w+)", code)) <= {*get_commands(), "help"}
    settings = {*Config.model_fields, *(f"{name}_FILE" for name in SECRETS)}
    made = set(re.findall(r"^[A-Z_]+", text_of("chatmemory/settings.py"), re.MULTILINE))
    if document != "docs/upgrade.md":  # which names those of earlier versions
        assert set(SETTING.findall(text)) <= settings | made | {"OPENAI_API_BASE_URL"}  # Open WebUI's
    modules = set(MODULE.findall(text)) - {"memory/policies/minutes"}  # made in an example
    assert [name for name in modules if not any(ROOT.glob(f"{name.rstrip('/')}*"))] == []


def test_an_operator_reads_six_pages_in_half_an_hour() -> None:
    of_operators = text_of("docs/README.md").split("**For operators**")[1].split("\n\n")[1]
    assert re.findall(r"^- \[[^]]+\]\(([^)]+)\)", of_operators, re.MULTILINE) == OPERATORS
    words = {name: len(re.findall(r"\w\S*", text_of(f"docs/{name}"))) for name in OPERATORS}
    assert sum(words.values()) <= MINUTES * WORDS_PER_MINUTE, words


def test_each_promise_names_the_tests_that_are_marked_with_it() -> None:
    marked: dict[str, set[str]] = {}
    for path in (ROOT / "tests").rglob("test_*.py"):
        for promise in re.findall(r"P\d+", " ".join(MARK.findall(path.read_text()))):
            name = path.relative_to(ROOT / "tests").with_suffix("").as_posix()
            marked.setdefault(promise, set()).add(name)
    rows = re.findall(r"^\| (P\d+) \|.*\| ([^|]*) \|$", text_of("docs/promises.md"), re.MULTILINE)
    named = {promise: set(re.findall(r"`([\w/]+)`", cell)) for promise, cell in rows}
    assert list(named) == [f"P{number}" for number in range(1, 35)]
    assert [one for one, tests in named.items() if not tests or tests - marked[one]] == []
