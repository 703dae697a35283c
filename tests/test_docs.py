"""Documents name only what exists, and generated pages match the code."""

from __future__ import annotations

import io
import json
import pkgutil
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command, get_commands, load_command_class

from chatmemory.config import page
from chatmemory.config.setting import Setting
from memory.policies import PER_POLICY

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()
SETTINGS = (ROOT / "chatmemory" / "settings.py").read_text()
MAKEFILE = (ROOT / "Makefile").read_text()
POLICY_DOCS = (ROOT / "docs" / "policies.md").read_text()
API_DOCS = (ROOT / "docs" / "api.md").read_text()
DECLARED = [setting for table in page.tables() for setting in table.settings]

DOCUMENTS = ["README.md", "CONTRIBUTING.md", *(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))]
LINK = re.compile(r"\]\(([^)\s]*)\)")
CODE = re.compile(r"```.*?```|`[^`\n]+`", re.DOTALL)
MAKE = re.compile(r"^`?(?:[A-Z_]+=\S+ )*make ([a-z-]+)", re.MULTILINE)
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
ROW = re.compile(r"^\| `([A-Z][A-Z0-9_]+)` \| (.*?) \|", re.MULTILINE)
FIGURE = re.compile(r"\d[\d,.]*\d|\d")
MODULE = re.compile(r"(?<![\w/.])((?:benchmarks|chatmemory|conversations|memory|templates|tests)/[\w/.]+)")
DOTTED = re.compile(r"`((?:chatmemory|conversations|memory)(?:\.\w+)+)[`(]")
OPERATION = re.compile(r"(?:`([A-Z]+)` · )?`([A-Z]+) (/[^\s`?]*)")
NAMED_SETTING = re.compile(
    r"\b(?:DATABASE|DJANGO|LIMIT|MEMORY|OPENAI|REPLY|REQUEST|SOURCES|SUMMARIZER|WORKER)_[A-Z_]*[A-Z]\b(?!_)"
)


def text_of(document: str) -> str:
    return (ROOT / document).read_text()


def code_in(document: str) -> str:
    """Return the parts of a document in backticks."""
    return "\n".join(CODE.findall(text_of(document)))


@cache
def anchors(path: Path) -> set[str]:
    """Return the headings of a page as GitHub's anchors."""
    titles = (re.sub(r"[^\w\s-]", "", title.lower()) for title in HEADING.findall(path.read_text()))
    return {title.strip().replace(" ", "-") for title in titles}


@cache
def operations() -> set[tuple[str, str]]:
    """Return method and path of every operation of the API, with parameter names removed."""
    written = io.StringIO()
    call_command("spectacular", "--format", "openapi-json", stdout=written)
    paths: dict[str, dict[str, Any]] = json.loads(written.getvalue())["paths"]
    return {(method.upper(), without_names(path)) for path, item in paths.items() for method in item}


def without_names(path: str) -> str:
    return re.sub(r"\{\w+\}", "{}", path)


def documented(text: str) -> set[tuple[str, str]]:
    """The calls that a text shows as `GET /v1/…`, or `GET` · `POST /v1/…`."""
    return {
        (method, without_names(path))
        for first, second, path in OPERATION.findall(text)
        for method in (first, second)
        if method
    }


# Settings


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
    shown = ROW.findall(README)
    assert len(shown) == 10
    assert set(shown) <= set(ROW.findall(page.render()))


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_setting_that_is_named_exists(document: str) -> None:
    named = set(NAMED_SETTING.findall(text_of(document))) - {"OPENAI_API_BASE_URL"}  # Open WebUI's
    assert named <= {setting.name for setting in DECLARED} | set(
        re.findall(r"^[A-Z_]+", SETTINGS, re.MULTILINE)
    )


# Commands, targets, calls


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_command_that_is_shown_exists(document: str) -> None:
    assert set(re.findall(r"manage\.py (\w+)", text_of(document))) <= set(get_commands())


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_make_target_that_is_shown_exists(document: str) -> None:
    shown = set(MAKE.findall(code_in(document)))
    assert shown <= set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE))


def test_the_page_of_commands_has_all_of_ours_with_options_that_they_take() -> None:
    rows = re.findall(r"^\| `manage\.py (\w+)(.*)$", text_of("docs/commands.md"), re.MULTILINE)
    ours = {name for name, app in get_commands().items() if app in ("conversations", "memory")}
    assert {name for name, _ in rows} == {*ours, "migrate"}
    for name, row in rows:
        command = load_command_class(get_commands()[name], name)
        taken = command.create_parser("manage.py", name).format_help()
        assert set(re.findall(r"--[a-z-]+", row)) <= set(re.findall(r"--[a-z-]+", taken)), name


def test_the_page_of_the_api_has_every_call() -> None:
    assert len(operations()) > 40
    assert documented(API_DOCS) == operations()


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_call_that_is_shown_exists(document: str) -> None:
    shown = {one for one in documented(text_of(document)) if one[1].startswith("/v1/")}
    assert shown <= operations()


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_module_that_is_shown_exists(document: str) -> None:
    """`memory/recall/index.py`, `memory/recall/index`, `memory/recall/` or `memory/recall/index.quoted`."""
    shown = set(MODULE.findall("\n".join(re.findall(r"`[^`\n]+`", text_of(document)))))
    made_in_the_example = {"memory/policies/minutes.py"}
    assert [name for name in shown - made_in_the_example if not is_in_the_tree(name)] == []


def is_in_the_tree(name: str) -> bool:
    path = ROOT / name.rstrip("/")
    if path.exists() or path.with_name(f"{path.name}.py").exists():
        return True
    home, _, definition = path.name.rpartition(".")
    homes = (path.with_name(f"{home}.py"), path.with_name(home) / "__init__.py")
    return any(one.exists() and re.search(rf"\b{definition}\b", one.read_text()) for one in homes)


@pytest.mark.parametrize("folder", ["benchmarks", "chatmemory", "conversations", "memory", "tests"])
def test_every_module_that_docstrings_and_comments_name_exists(folder: str) -> None:
    """`memory.recall.index` or `memory.recall.index.quoted`."""
    named = {name for path in (ROOT / folder).rglob("*.py") for name in DOTTED.findall(path.read_text())}
    assert sorted(name for name in named if not is_importable(name)) == []


def is_importable(name: str) -> bool:
    try:
        return bool(pkgutil.resolve_name(name))
    except (AttributeError, ImportError):
        return False


# Links and figures


@pytest.mark.parametrize("document", DOCUMENTS)
def test_its_links_lead_somewhere(document: str) -> None:
    path = ROOT / document
    for target in LINK.findall(path.read_text()):
        file, _, anchor = target.partition("#")
        if "://" in target:
            continue
        found = (path.parent / file) if file else path
        assert found.exists(), target
        assert not anchor or anchor in anchors(found), target


def test_the_index_names_every_page() -> None:
    named = set(LINK.findall(text_of("docs/README.md")))
    assert {path.name for path in (ROOT / "docs").glob("*.md")} - {"README.md"} <= named


def test_readme_is_short() -> None:
    assert len(README.splitlines()) <= 130


def promises() -> list[str]:
    """Return the items under the heading, each in one line."""
    _, _, rest = README.partition("## What it promises\n")
    return [" ".join(item.split()) for item in rest.partition("\n## ")[0].split("\n- ")[1:]]


def test_readme_makes_promises() -> None:
    assert len(promises()) == 5


@pytest.mark.parametrize("promise", promises(), ids=lambda promise: promise.split("**")[1])
def test_what_readme_promises_with_a_figure_is_in_the_page_it_links_to(promise: str) -> None:
    pages = [text_of(target.partition("#")[0]) for target in LINK.findall(promise)]
    assert pages
    known = set(FIGURE.findall("\n".join(pages)))
    assert set(FIGURE.findall(LINK.sub("", promise))) <= known


@pytest.mark.parametrize("named", sorted(set(re.findall(r"`(tests/[\w/]+\.py::\w+)`", POLICY_DOCS))))
def test_every_test_that_is_named_exists(named: str) -> None:
    path, _, name = named.partition("::")
    assert re.search(rf"^(async )?def {name}\(", (ROOT / path).read_text(), re.MULTILINE)
