"""Which package may import which, which are pure, and what the queue may call, checked in every module's source."""

import ast
import functools
import re
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

pytestmark = pytest.mark.exhaustive

ROOT = Path(__file__).resolve().parent.parent
APPS = ("chatmemory", "conversations", "memory")

LAYERS = [
    # ground: tools, models' clients, plumbing
    "chatmemory.text chatmemory.errors chatmemory.metrics chatmemory.database chatmemory.llm chatmemory.runtime "
    "chatmemory.templatetags chatmemory.config chatmemory.settings",
    # rows
    "conversations.models memory.models memory.limits",
    # stores
    "chatmemory.api conversations.accounts conversations.sign_in conversations.attachments conversations.chat_filters "
    "conversations.webhooks memory.queue memory.usage memory.history memory.across",
    # decisions
    "memory.conf memory.across memory.policies memory.recall memory.pins memory.briefs memory.events",
    # prompts
    "memory.context",
    # folds
    "memory.folding memory.revisions memory.explain",
    # the doors of memory
    "memory.turn memory.changes",
    # conversations
    "conversations.derived conversations.interchange conversations.chat_lifecycle conversations.replies "
    "conversations.account_deletion conversations.message_changes conversations.retention",
    # edges
    "conversations.api conversations.openai_api conversations.admin conversations.management conversations.playground "
    "memory.signals memory.status memory.worker memory.lab memory.api memory.management memory.tasks memory.admin "
    "memory.templatetags memory.probes memory.mcp",
    # wiring, with the modules directly in each app's folder
    "chatmemory.urls chatmemory.asgi chatmemory.apps",
]
"""A package imports those of its own layer and of the layers above it. Nothing is imported in a circle."""
RANK = {name: rank for rank, line in enumerate(LAYERS) for name in line.split()}
TOP = max(RANK.values())

PURE = """
chatmemory.text chatmemory.errors chatmemory.metrics chatmemory.llm chatmemory.database.ids chatmemory.runtime.escape
chatmemory.runtime.tracing chatmemory.config.declared
conversations.accounts.limits
conversations.interchange.read conversations.interchange.values
conversations.interchange.services conversations.interchange.exports
conversations.webhooks.addresses
conversations.openai_api.chat_request conversations.openai_api.response_request
conversations.openai_api.wire conversations.openai_api.history
conversations.openai_api.errors conversations.openai_api.agreement
memory.limits memory.policies memory.history.turns
memory.context.plan memory.context.planner memory.context.prompt
memory.recall.terms memory.recall.question memory.recall.ranking
memory.pins.statements memory.pins.section memory.pins.wordings
memory.folding.answer_checks memory.folding.attempts
memory.explain.reasons
memory.usage.figures memory.admin.charts memory.mcp.protocol
memory.lab.conversation memory.lab.measures memory.lab.report
""".split()
"""Modules, and packages with all their modules, that only compute: they import no Django, no services, no models."""
NOT_PURE = {"chatmemory.llm.registry"}
"""The only module of a pure package that reads settings."""
FRAMEWORKS = {"django", "rest_framework", "django_q", "knox"}


def modules() -> Iterator[tuple[str, ast.Module]]:
    """Yield every module of the product, by its dotted name."""
    for app in APPS:
        for path in sorted((ROOT / app).rglob("*.py")):
            if "migrations" not in path.parts:
                parts = path.relative_to(ROOT).with_suffix("").parts
                name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
                yield name, ast.parse(path.read_text())


@functools.cache
def sources() -> dict[str, ast.Module]:
    """Parsed when the first test needs it: every test process collects this file, but only one runs it."""
    return dict(modules())


def imported(name: str) -> set[str]:
    """Return the dotted names of the modules that this one imports, including imports within functions."""
    found: set[str] = set()
    for node in ast.walk(sources()[name]):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found.add(inner if inner in sources() else node.module)
    return found


def ours(name: str) -> set[str]:
    return {one for one in imported(name) if one.split(".")[0] in APPS}


def package(name: str) -> str:
    """Return the package that has a layer: `memory.recall` for `memory.recall.terms`. All models are rows."""
    app, *rest = name.split(".")
    return f"{app}.models" if rest[-1:] == ["models"] else ".".join([app, *rest[:1]])


def rank(name: str) -> int:
    return RANK.get(package(name), TOP)


def is_pure(name: str) -> bool:
    return name not in NOT_PURE and any(name == one or name.startswith(f"{one}.") for one in PURE)


def test_the_names_above_exist() -> None:
    assert {*PURE, *NOT_PURE} <= set(sources())
    assert set(RANK) <= {package(name) for name in sources()}


def test_packages_import_their_own_layer_and_below() -> None:
    assert [(name, one) for name in sources() for one in ours(name) if rank(one) > rank(name)] == []


def test_imports_have_no_cycles() -> None:
    modules = {name: {one for one in ours(name) if one in sources() and one != name} for name in sources()}
    list(TopologicalSorter(modules).static_order())
    packages: dict[str, set[str]] = {name: set() for name in RANK}
    for name, imports in modules.items():
        if rank(name) < TOP:
            packages[package(name)] |= {package(one) for one in imports} - {package(name)}
    list(TopologicalSorter(packages).static_order())


def test_the_base_imports_neither_app_but_where_it_wires_them() -> None:
    """Settings are values, too, from which the apps make what they need (`memory.conf`)."""
    base = [name for name in sources() if package(name).startswith("chatmemory.")]
    up = {(name, one) for name in base for one in ours(name) if not one.startswith("chatmemory")}
    assert {name for name, _ in up} == {"chatmemory.asgi", "chatmemory.urls"}
    assert "globals()" not in ast.unparse(sources()["chatmemory.settings"])


def test_no_import_is_relative() -> None:
    levels = {
        name: [node.level for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        for name, tree in sources().items()
    }
    assert [name for name, found in levels.items() if any(found)] == []


def test_migrations_import_no_app() -> None:
    """What they did then must not change with what the apps do now."""
    paths = [path for app in APPS for path in (ROOT / app).glob("migrations/0*.py")]
    assert len(paths) >= 2
    assert [
        path for path in paths if re.search(r"^(from|import) (conversations|memory)\b", path.read_text(), re.M)
    ] == []


def test_pure_modules_know_neither_django_nor_services() -> None:
    pure = [name for name in sources() if is_pure(name)]
    roots = {name: {one.split(".")[0] for one in imported(name)} & FRAMEWORKS for name in pure}
    assert [name for name, found in roots.items() if found] == []
    assert [(name, one) for name in pure for one in ours(name) if not is_pure(one)] == []


PUBLIC = """
memory.turn memory.changes memory.briefs memory.events memory.context.build memory.folding.request memory.pins.pins
memory.recall.embeddings memory.conf
""".split()
"""What conversations import of memory, beside what is pure."""


def test_conversations_import_public_and_pure_memory_modules() -> None:
    used = {
        (name, one)
        for name in sources()
        if name.startswith("conversations")
        for one in ours(name)
        if one.startswith("memory") and one not in PUBLIC and not is_pure(one)
    }
    assert used == set()


def test_only_metrics_imports_prometheus() -> None:
    """It must know first whether processes share their values; so the settings import it before any app."""
    importers = [name for name in sources() if any("prometheus_client" in one for one in imported(name))]
    assert importers == ["chatmemory.metrics"]
    assert "chatmemory.metrics" in imported("chatmemory.settings")


def test_queue_tasks_are_no_coroutines() -> None:
    """django-q2 would pickle the coroutine instead of running it."""
    for name in ("memory.tasks", "memory.worker.sweep", "memory.folding.fold"):
        assert not [node for node in ast.walk(sources()[name]) if isinstance(node, ast.AsyncFunctionDef)], name


def test_queue_task_names_exist() -> None:
    tasks = {node.name for node in sources()["memory.tasks"].body if isinstance(node, ast.FunctionDef)}
    named = {
        node.value
        for tree in sources().values()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("memory.tasks.")
    }
    assert named
    assert {one.removeprefix("memory.tasks.") for one in named} <= tasks


def test_a_class_name_means_one_thing() -> None:
    """Except Django's own inner classes, and names that commands must have."""
    named: dict[str, list[str]] = {}
    for module, tree in sources().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and node.name not in {"Meta", "Media", "Command"}:
                named.setdefault(node.name, []).append(module)
    assert {name: places for name, places in named.items() if len(places) > 1} == {}


def test_no_test_module_is_imported_by_another() -> None:
    found = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for name in re.findall(r"^from (tests\b[^(\n]+(?:\([^)]+\))?)", path.read_text(), re.MULTILINE)
        if re.search(r"\b(test_\w+|conftest)\b", name)
    ]
    assert found == []


def test_unit_tests_use_no_database() -> None:
    """Without the marker or one of these fixtures, pytest-django refuses every query."""
    asked = re.compile(
        r"\b(django_db|transactional_db|live|upstream|offline_product|product)\b: |mark\.django_db|\bdb: None"
    )
    found = [path.name for path in (ROOT / "tests/unit").rglob("*.py") if asked.search(path.read_text())]
    assert found == []


def test_only_one_module_normalizes_text() -> None:
    """`unicodedata` alone takes quadratic time for combining marks."""
    calls = {name for name, tree in modules() if "unicodedata.normalize" in ast.unparse(tree)}
    assert calls == {"chatmemory.text.cleaning"}
