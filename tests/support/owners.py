"""Finds statements that a database distributed by owner could not send to one place.

Each statement that touches rows of owners has to name one owner: for every table of `owned_tables` a condition on its
owner's column, with one value in all of them. A statement about many owners still has to join these tables, and to
relate subqueries, by owner. `check` reads a statement as Django or we write it; `watch` records those that fail, with
who sent them.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

from chatmemory.database.owned import owned_tables

ACROSS_OWNERS = (
    "conversations.account_deletion.",
    "conversations.accounts.quotas.refund_expired",
    "conversations.admin.",
    "conversations.api.receipts._counts",
    "conversations.attachments.remove_old",
    "conversations.management.",
    "conversations.migrations.",
    "conversations.models.find_key",
    "conversations.replies.finish.checkpoint",
    "conversations.replies.finish.finish_expired",
    "conversations.retention.",
    "memory.across.scope_index.fill",
    "memory.admin.",
    "memory.apps.MemoryConfig.complete",
    "memory.folding.leases.next_demanded < memory.worker.sweep.",
    "memory.probes.",
    "memory.management.",
    "memory.queue.others_wait",
    "memory.recall.embeddings.enqueue_missing",
    "memory.recall.index.TermIndex.make_triggers",
    "memory.recall.index.fill",
    "memory.usage.daily._add_up < memory.usage.daily._count_batch",
    "memory.usage.daily._count_batch",
    "memory.worker.",
)
"""What looks at rows of many owners, or knows none, in statements of its own: sweeps, staff pages, figures, commands,
what goes with an app, migrations, what finds whose a chat is, and the lease of a server, which writes replies for
many."""

APART = "not joined by owner:"
"""How the problem of a statement begins that no sender is excused for."""

ROOT = Path(__file__).resolve().parents[2]

_NAME = r'"?(\w+)"?'
_NO_ALIAS = "WHERE|SET|ON|LEFT|INNER|CROSS|JOIN|ORDER|GROUP|FOR|LIMIT|VALUES|USING|RETURNING"
_TABLE = re.compile(
    rf"\b(?:FROM|JOIN|UPDATE|INTO)\s+{_NAME}(?:\s+(?:AS\s+)?(?!(?:{_NO_ALIAS})\b){_NAME})?", re.IGNORECASE
)
_COLUMN = rf"(?:{_NAME}\.)?{_NAME}"
_QUALIFIED = re.compile(rf"{_NAME}\.{_NAME}")
_EQUAL = re.compile(rf"{_COLUMN} [=≡] [(⟨]?(?:(%s|%\(\w+\)s)|{_COLUMN})")
_GROUP = re.compile(r"(NOT )?(?<!%)\(((?:[^()]|%\(\w+\)s)*)\)")
# Django inserts several rows on PostgreSQL as a list for each column.
_INSERT = re.compile(rf"INSERT (?:OR IGNORE )?INTO {_NAME} \(([^)]*)\) (?:VALUES|SELECT \* FROM UNNEST)\s*\((.*)")
_NESTED = re.compile(r"\(([^()]*)\)")

Column = tuple[str, str]
"""A table's alias and a column."""


class _Shape(NamedTuple):
    """What the text of a statement says."""

    wanting: tuple[str, ...]
    """Aliases of tables of owners without a condition on the owner."""
    owners: tuple[int | str, ...]
    """Places, or names, of the parameters that are an owner."""
    width: int
    """Of an insert: the number of parameters of a row."""
    apart: tuple[str, ...] = ()
    """Aliases of tables of owners whose owner need not be that of the other tables."""


@cache
def _shape(sql: str, tables: tuple[tuple[str, str], ...]) -> _Shape | None:
    owned = dict(tables)
    if (insert := _INSERT.match(sql)) and insert[1] in owned:
        columns, owner = insert[2].replace('"', "").split(", "), owned[insert[1]]
        if owner not in columns:
            return _Shape((insert[1],), (), 0)
        values = insert[3]
        while (flat := _NESTED.sub(lambda found: found[1].replace(",", ""), values)) != values:
            values = flat
        row = values.partition(")")[0]
        before = row.split(", ")[: columns.index(owner)]
        return _Shape((), ("".join(before).count("%s"),), row.count("%s"))
    aliases = {alias or table: owned[table] for table, alias in _TABLE.findall(sql) if table in owned}
    if not aliases:
        return None
    groups, given = _equalities(_required(sql), aliases)
    wanting, owners = [], set[int | str]()
    for alias, column in aliases.items():
        group = next((one for one in groups if (alias, column) in one), {(alias, column)})
        mine = {place for place, column in given if column in group}
        owners |= mine
        wanting += [] if mine else [alias]
    apart = tuple(alias for part in _parts(sql) for alias in _apart(part, owned))
    return _Shape(tuple(sorted(wanting)), tuple(owners), 0, apart)


def _parts(sql: str) -> Iterator[str]:
    """Yield the statement without the subqueries that depend on nothing outside of them, and each of these.

    Those that depend on it get aliases of their own: Django calls the first table of each `U0`.
    """
    start, number = -1, 0
    while (start := sql.find("(SELECT ", start + 1)) >= 0:
        depths = accumulate((one == "(") - (one == ")") for one in sql[start:])
        end = start + next(place for place, depth in enumerate(depths) if depth == 0)
        inner, tables = sql[start + 1 : end], _TABLE.findall(sql[start:end])
        if {alias for alias, _ in _QUALIFIED.findall(inner)} <= {alias or table for table, alias in tables}:
            yield from _parts(inner)
            inner = ""
        number += 1
        for alias in {alias for _, alias in tables if alias}:
            inner = re.sub(rf"\b{alias}\b", f"{alias}_{number}", inner)
        sql = f"{sql[:start]}({inner}{sql[end:]}"
    yield sql


def _apart(sql: str, owned: dict[str, str]) -> list[str]:
    """Return the aliases whose owner is neither that of the first table nor given, as that of the first one is."""
    aliases = {alias or table: owned[table] for table, alias in _TABLE.findall(sql) if table in owned}
    groups, given = _equalities(_required(sql), aliases)
    known = {column for _, column in given}
    sides = []
    for alias, column in aliases.items():
        group = next((one for one in groups if (alias, column) in one), {(alias, column)})
        sides.append(None if group & known else group)
    return [alias for alias, side in zip(aliases, sides, strict=True) if side != sides[0]]


def _required(sql: str) -> str:
    """Give equalities that need not hold another sign: what is set, alternatives, and what is negated.

    A select in parentheses has conditions of its own.
    """
    if sql.startswith("UPDATE "):
        changes, where, conditions = sql.partition(" WHERE ")
        sql = changes.replace(" = ", " ≠ ") + where + conditions

    def mark(group: re.Match[str]) -> str:
        negated, inner = group[1] or "", group[2]
        if inner.startswith("SELECT"):
            inner = inner.replace(" = ", " ≡ ")
        elif negated or " OR " in inner:
            inner = inner.replace(" = ", " ≠ ")
        return f"{negated}⟨{inner.replace(' OR ', ' or ')}⟩"

    while (flat := _GROUP.sub(mark, sql)) != sql:
        sql = flat
    return sql


def _equalities(sql: str, aliases: dict[str, str]) -> tuple[list[set[Column]], list[tuple[int | str, Column]]]:
    """Return the columns that are equal to one another, and those that are equal to a parameter, with its place."""
    groups, given = list[set[Column]](), list[tuple[int | str, Column]]()
    for match in _EQUAL.finditer(sql):
        alias, column, place, other_alias, other = match.groups()
        for one in [alias] if alias else aliases:
            if place:
                number = sql.count("%s", 0, match.start(3))
                given.append((number if place == "%s" else place[2:-2], (one, column)))
                continue
            pair = {(one, column), (other_alias or one, other)}
            same = [group for group in groups if group & pair]
            groups = [group for group in groups if group not in same] + [pair.union(*same)]
    return groups, given


def check(sql: str, params: Any, tables: dict[str, str]) -> str:
    """Return what is wrong with a statement, "" if nothing is."""
    shape = _shape(sql, tuple(tables.items()))
    if shape is None:
        return ""
    if shape.apart:
        return f"{APART} {', '.join(shape.apart)}"
    if shape.wanting:
        return f"no owner of {', '.join(shape.wanting)}"
    if shape.width:
        (place,) = shape.owners
        rows = params[place :: shape.width] if len(params) % shape.width == 0 else []
        owners = {one for owner in rows for one in (owner if isinstance(owner, list) else [owner])}
    else:
        owners = {params[place] for place in shape.owners}
    return f"{len(owners)} owners" if len(owners) != 1 else ""


class Finding(NamedTuple):
    problem: str
    sent_by: str
    """The innermost function of the product, and its caller: `memory.queue.enqueue_fold < memory.tasks.fold_task`."""
    sql: str


class Recorder:
    """Checks the statements of all connections while it is on."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self.tables = owned_tables()
        self.is_on = False

    def __call__(self, execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if self.is_on:
            for row in params if many else [params or ()]:
                if problem := check(sql, row, self.tables):
                    self.findings.append(Finding(problem, _sender(), sql))
        return execute(sql, params, many, context)

    def attach(self, connection: BaseDatabaseWrapper) -> None:
        if self not in connection.execute_wrappers:
            connection.execute_wrappers.append(self)


def _sender() -> str:
    names = list[str]()
    for frame, _ in traceback.walk_stack(None):
        package, *_ = parts = _module(frame.f_code.co_filename) or ("",)
        if package == "tests" or len(names) == 2:
            break
        is_around = parts[:2] == ("chatmemory", "database") or parts == ("chatmemory", "api", "middleware")
        if package in ("chatmemory", "conversations", "memory") and not is_around:
            names.append(".".join((*parts, frame.f_code.co_qualname)))
    return " < ".join(names)


@cache
def _module(file: str) -> tuple[str, ...]:
    """The parts of a module's name; nothing of this one, and of what is not ours."""
    path = Path(file)
    is_other = path.is_relative_to(ROOT) and path != Path(__file__)
    return path.relative_to(ROOT).with_suffix("").parts if is_other else ()


@contextmanager
def watch() -> Iterator[list[Finding]]:
    """Record what is wrong with the statements of all threads within."""
    recorder = _recorder()
    recorder.findings.clear()
    recorder.is_on = True
    try:
        yield recorder.findings
    finally:
        recorder.is_on = False


@cache
def _recorder() -> Recorder:
    recorder = Recorder()
    for connection in connections.all(initialized_only=True):
        recorder.attach(connection)
    connection_created.connect(lambda sender, connection, **_: recorder.attach(connection), weak=False)
    return recorder


def unexpected(findings: list[Finding]) -> list[str]:
    """Describe what was found and no function of `ACROSS_OWNERS` sent itself."""
    return sorted(
        {
            f"{one.problem}: {one.sent_by}: {one.sql[:300]}"
            for one in findings
            if one.sent_by and (one.problem.startswith(APART) or not one.sent_by.startswith(ACROSS_OWNERS))
        }
    )
