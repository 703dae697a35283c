"""Which module may import which: the arrows of the design, read from the source and held for every file."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
APPS = ("chatmemory", "conversations", "memory")

PURE = {
    *(
        "memory.tokens",
        "memory.turns",
        "memory.salience",
        "memory.spotting",
        "memory.quoting",
        "memory.lines",
    ),
    *(
        "memory.limits",
        "memory.plan",
        "memory.planned",
        "memory.rendering",
        "memory.context",
        "memory.blocks",
    ),
    *("memory.material", "memory.sources", "memory.verbatim", "memory.provenance", "memory.outlines"),
    *("memory.worddiff", "memory.pacing", "memory.vigil", "memory.policies"),
    *("memory.figures", "memory.charts", "memory.totals"),
    *("memory.analysis", "memory.words", "memory.dates", "memory.stored_terms"),
    "memory.picking",
    "memory.estimating",
    *("memory.timeline", "memory.explaining", "memory.coverage"),
    "memory.clips",
    *(
        "memory.question_forms",
        "memory.questions",
        "memory.relevance",
        "memory.highlights",
        "memory.finds",
        "memory.fusing",
        "memory.similarity",
        "memory.ranking",
        "memory.recalling",
        "memory.excerpts",
    ),
    *("memory.confusables", "memory.control_tokens", "memory.grounding"),
    *("memory.pin_section", "memory.stated"),
    *("memory.standing_instructions", "memory.standing_language", "memory.contradictions"),
    *("memory.standing_wordings", "memory.standing_wordings_other", "memory.standing_wordings_romance"),
    *("memory.lookalikes", "memory.links", "memory.orders", "memory.acceptance", "memory.shortfall"),
    *(
        "memory.lab.talks",
        "memory.lab.finding",
        "memory.lab.keeping",
        "memory.lab.billing",
        "memory.lab.prompts",
    ),
    *(
        "memory.lab.measures",
        "memory.lab.outcome",
        "memory.lab.quality",
        "memory.lab.tables",
        "memory.lab.plots",
    ),
    "memory.lab.watching",
    *("conversations.sse", "conversations.interchange", "conversations.formats", "conversations.limits"),
    *("chatmemory.ids", "chatmemory.llm", "chatmemory.terminal"),
}
"""Modules, and packages with all that is in them, that only compute: they know no Django, no services, no rows."""
NOT_PURE = {"chatmemory.llm.registry"}
"""The one place of a pure package that reads settings."""
DOORS = {"views", "doors", "urls", "admin", "tasks", "commands", "management"}
DOORS |= {
    "account_views",
    "admin_allowances",
    "admin_sign_in",
    "admin_content",
    "admin_facts",
    "admin_html",
    "admin_messages",
    "admin_replies",
    "admin_tokens",
    "admin_users",
    "admin_views",
    "pin_views",
    "reply_views",
    "search_views",
}
"""Nobody but other doors imports a door."""
LLM_MAY_USE = {"memory.quoting", "memory.tokens", "memory.spotting"}
"""What the built-in model shares with memory: counting, finding and reading the summarizer's input."""


def modules() -> Iterator[tuple[str, ast.Module]]:
    """Every module of the product, by its dotted name."""
    for app in APPS:
        for path in sorted((ROOT / app).rglob("*.py")):
            if "migrations" not in path.parts:
                parts = path.relative_to(ROOT).with_suffix("").parts
                name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
                yield name, ast.parse(path.read_text())


SOURCES = dict(modules())


def imported(name: str) -> set[str]:
    """The modules that this one imports, by their dotted names; inside of functions, too."""
    found: set[str] = set()
    for node in ast.walk(SOURCES[name]):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found.add(inner if inner in SOURCES else node.module)
    return found


def is_in(name: str, places: set[str]) -> bool:
    return any(name == place or name.startswith(f"{place}.") for place in places)


def is_pure(name: str) -> bool:
    return is_in(name, PURE) and name not in NOT_PURE


def is_door(name: str) -> bool:
    return not DOORS.isdisjoint(name.split(".")[1:])


PURE_MODULES = [name for name in SOURCES if is_pure(name)]


def test_the_names_above_are_of_this_house() -> None:
    assert {*PURE, *NOT_PURE, *LLM_MAY_USE} <= set(SOURCES)
    assert len(PURE_MODULES) > 25


def test_no_import_is_relative() -> None:
    for name, tree in SOURCES.items():
        levels = [node.level for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        assert not any(levels), name


@pytest.mark.parametrize("name", PURE_MODULES)
def test_pure_modules_know_neither_django_nor_services(name: str) -> None:
    roots = {one.split(".")[0] for one in imported(name)}
    assert roots.isdisjoint({"django", "rest_framework", "django_q", "knox", "structlog"})
    ours = {one for one in imported(name) if one.split(".")[0] in APPS}
    assert {one for one in ours if not is_pure(one)} == set()


@pytest.mark.parametrize("name", [name for name in SOURCES if is_in(name, {"chatmemory.llm"})])
def test_the_model_boundary_imports_no_app_but_pure_memory(name: str) -> None:
    used = {one for one in imported(name) if is_in(one, {"conversations", "memory"})}
    assert used <= LLM_MAY_USE


@pytest.mark.parametrize("name", [name for name in SOURCES if name.startswith("conversations")])
def test_conversations_know_of_memory_its_services_and_what_is_pure(name: str) -> None:
    used = {one for one in imported(name) if is_in(one, {"memory"})}
    assert {one for one in used if one != "memory.services" and not is_pure(one)} == set()


@pytest.mark.parametrize("name", [name for name in SOURCES if not is_door(name)])
def test_only_doors_import_doors(name: str) -> None:
    wiring = {"chatmemory.urls", "chatmemory.apps"}
    ours = {one for one in imported(name) if one.split(".")[0] in APPS}
    assert name in wiring or {one for one in ours if is_door(one)} == set()


@pytest.mark.parametrize(
    "name", [name for name in SOURCES if name.endswith((".tasks", ".sweeping", ".folding"))]
)
def test_nothing_that_the_queue_calls_is_a_coroutine_function(name: str) -> None:
    """django-q2 would pickle the coroutine instead of running it."""
    assert [node for node in ast.walk(SOURCES[name]) if isinstance(node, ast.AsyncFunctionDef)] == []


def test_what_the_queue_is_told_to_call_exists() -> None:
    tasks = {node.name for node in SOURCES["memory.tasks"].body if isinstance(node, ast.FunctionDef)}
    named = {
        node.value
        for tree in SOURCES.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and node.value.startswith("memory.tasks.")
    }
    assert named
    assert {one.removeprefix("memory.tasks.") for one in named} <= tasks
