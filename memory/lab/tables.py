"""The outcome of the lab as tables of words and numbers, with a meaning for each column. Pure.

Only the end of this module knows how a table is drawn: in a terminal, in Markdown or as JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Generic, TypeVar

from rich import box
from rich.console import Group
from rich.markup import escape
from rich.table import Table

from memory.lab.billing import Bill
from memory.lab.outcome import Outcome, Row
from memory.lab.quality import SUMMARY_TOKENS, Quality, mean_of
from memory.lab.retention import NAMED, Kept, RetentionTally

T = TypeVar("T")

UNKNOWN = "?"
NOTHING = "–"

SHOWN = (1, 5, 20, 100)
"""Distances that the table shows; the plot shows all."""


@dataclass(frozen=True, slots=True)
class Column(Generic[T]):
    """A column: its name, its meaning, and the function that makes a row's entry."""

    name: str
    meaning: str
    entry: Callable[[T], str]


@dataclass(frozen=True, slots=True)
class Sheet:
    """A table of strings. The first column names the row, all others hold numbers."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    legend: tuple[tuple[str, str], ...]
    """The meaning of each column, by name."""


@dataclass(frozen=True, slots=True)
class _Row:
    """One way to send the conversations, and the bills it is compared with."""

    name: str
    bill: Bill
    everything: Decimal | None
    chained: Decimal | None


@dataclass(frozen=True, slots=True)
class _Recalling:
    """One policy with recall in one mode."""

    mode: str
    row: Row
    everything: Decimal | None

    @property
    def policy(self) -> str:
        return self.row.summary.policy


@dataclass(frozen=True, slots=True)
class _KeptRow:
    policy: str
    what: str
    kept: Kept


PROMPTS: tuple[Column[Row], ...] = (
    Column("policy", "the memory policy", lambda row: row.summary.policy),
    Column("turns", "prompts that were made", lambda row: _number(row.summary.turns)),
    Column("mean", "tokens of memory in a prompt", lambda row: _number(row.summary.memory_mean)),
    Column("p95", "the same: 95 % of the prompts have no more", lambda row: _number(row.summary.memory_p95)),
    Column("max", "the same: the largest", lambda row: _number(row.summary.memory_max)),
    Column(
        "over budget", "prompts whose memory is over its budget", lambda row: _share(row.summary.over_budget)
    ),
    Column(
        "cacheable",
        "of all prompt tokens, those that begin a prompt as one of the eight before began",
        lambda row: _share(row.summary.cacheable),
    ),
    Column(
        "coverage",
        "finished turns that stand in the state, a line or verbatim; in the prompt with the least of them",
        lambda row: _share(row.summary.coverage_min),
    ),
)

SUMMARIZER: tuple[Column[Row], ...] = (
    Column("policy", "the memory policy", lambda row: row.summary.policy),
    Column("calls", "of the summarizer, those that failed included", lambda row: _number(row.summary.calls)),
    Column("input", "tokens it was sent", lambda row: _number(row.summary.input_tokens)),
    Column("output", "tokens it answered", lambda row: _number(row.summary.output_tokens)),
    Column("folds", "turns after which the summary was updated", lambda row: _number(row.summary.folds)),
    Column(
        "waited",
        "turns after which an update was due and not made: it failed, or waits for its next attempt",
        lambda row: _number(row.summary.waited),
    ),
)

COSTS: tuple[Column[_Row], ...] = (
    Column("way", "a policy, or what it is compared with", lambda way: way.name),
    Column("input", "tokens sent for replies", lambda way: _number(way.bill.requests.input_tokens)),
    Column(
        "cached",
        "of these, at the cached price: prefixes of 1,024 tokens or more, in steps of 128",
        lambda way: _number(way.bill.requests.cached_tokens),
    ),
    Column("output", "tokens of the replies", lambda way: _number(way.bill.requests.output_tokens)),
    Column("replies USD", "what these cost", lambda way: _usd(way.bill.replies_usd)),
    Column("folds USD", "what the summarizer costs", lambda way: _usd(way.bill.folds_usd)),
    Column("all USD", "both together", lambda way: _usd(way.bill.usd)),
    Column(
        "× everything",
        "that, as times what sending all that was said on each turn costs",
        lambda way: _ratio(way.bill.usd, way.everything),
    ),
    Column(
        "× chained",
        "that, as times what a growing previous_response_id costs, where tool messages are billed on each turn, too",
        lambda way: _ratio(way.bill.usd, way.chained),
    ),
)

QUALITY: tuple[Column[Quality], ...] = (
    Column("talk", "a conversation with annotated facts", lambda one: one.talk),
    Column("tokens", "of what was said", lambda one: _number(one.tokens)),
    Column("facts", "annotated values, those that only tools said included", lambda one: _number(one.facts)),
    Column("said", "of these, said in the talk", lambda one: _number(one.said)),
    Column("built-in", "facts kept by the built-in summarizer", lambda one: _share(one.summarizer)),
    Column("random", "facts kept by random sentences, mean of 20 draws", lambda one: _share(one.random)),
    Column("lead", "facts kept by the first sentences", lambda one: _share(one.lead)),
    Column("built-in of said", "as built-in, of the facts said", lambda one: _share(one.summarizer_of_said)),
)


def _named_entry(distance: int) -> Callable[[Row], str]:
    return lambda row: _share(row.summary.named[distance].share)


NAMED_FACTS: tuple[Column[Row], ...] = (
    Column("policy", "the memory policy", lambda row: row.summary.policy),
    Column(
        "named",
        "how often a question names a fact that was said before: it repeats the value, or has at least two terms of "
        "the sentence that said it last which are rare in the talk (in one turn of 20 at most)",
        lambda row: _number(sum(one.asked for one in row.summary.named.values())),
    ),
    Column(
        "there",
        "of these, in the memory of that question's prompt, in any form",
        lambda row: _share(_together(row.summary.named).share),
    ),
    *(
        Column(name, "the same, by how many turns before it was said last", _named_entry(distance))
        for name, distance in zip(("1 to 5", "6 to 20", "21 to 100", "over 100"), NAMED, strict=True)
    ),
)

RECALL: tuple[Column[_Recalling], ...] = (
    Column("policy", "the memory policy", lambda one: one.policy),
    Column("of", "`MEMORY_RECALL`", lambda one: one.mode),
    Column("mean", "tokens of memory in a prompt", lambda one: _number(one.row.summary.memory_mean)),
    Column("cacheable", "as above", lambda one: _share(one.row.summary.cacheable)),
    Column("coverage", "as above", lambda one: _share(one.row.summary.coverage_min)),
    Column("× everything", "as above", lambda one: _ratio(one.row.bill.usd, one.everything)),
    Column("facts 20", "still in memory 20 turns later", lambda one: _share(one.row.summary.facts[20].share)),
    Column("facts 100", "100 turns later", lambda one: _share(one.row.summary.facts[100].share)),
)


def sheets_of(outcome: Outcome) -> list[Sheet]:
    """All tables of an outcome; those that would be empty are left out."""
    sheets = [
        sheet("What the model is sent", PROMPTS, outcome.rows),
        sheet("What the summarizer does", SUMMARIZER, outcome.rows),
        sheet("What it costs", COSTS, list(_ways(outcome))),
        sheet("What is kept", kept_columns(), list(_kept(outcome))),
    ]
    named = [sheet("What a question names", NAMED_FACTS, outcome.rows)] if _has_facts(outcome) else []
    return [*sheets, *named, *quality_sheets(outcome.quality)]


def recall_sheet(outcomes: Mapping[str, Outcome]) -> Sheet:
    """The effect of recall on prompts and cost: a row for each policy and mode (`off`, `auto`, `always`)."""
    rows = [
        _Recalling(mode, row, outcome.everything.usd)
        for mode, outcome in outcomes.items()
        for row in outcome.rows
    ]
    order = list(dict.fromkeys(one.row.summary.policy for one in rows))
    return sheet("Recall off, auto and always", RECALL, sorted(rows, key=lambda one: order.index(one.policy)))


def quality_sheets(found: Sequence[Quality]) -> list[Sheet]:
    """The table of the built-in summarizer, with the means at its end; none without annotated facts."""
    if not found:
        return []
    mean = Quality(
        talk="mean",
        tokens=round(mean_of(found, lambda one: one.tokens)),
        facts=round(mean_of(found, lambda one: one.facts)),
        said=round(mean_of(found, lambda one: one.said)),
        summarizer=mean_of(found, lambda one: one.summarizer),
        random=mean_of(found, lambda one: one.random),
        lead=mean_of(found, lambda one: one.lead),
        summarizer_of_said=mean_of(found, lambda one: one.summarizer_of_said),
    )
    title = f"Facts kept in one summary of {SUMMARY_TOKENS} tokens of a whole talk"
    return [sheet(title, QUALITY, [*found, mean])]


def sheet(title: str, columns: Sequence[Column[T]], rows: Sequence[T]) -> Sheet:
    """A table of `rows`."""
    return Sheet(
        title=title,
        header=tuple(column.name for column in columns),
        rows=tuple(tuple(column.entry(row) for column in columns) for row in rows),
        legend=tuple((column.name, column.meaning) for column in columns),
    )


def kept_columns() -> tuple[Column[_KeptRow], ...]:
    """Columns of shares by distance, in any form and verbatim."""
    forms = (
        (
            "{}",
            "still in memory so many turns after it was last said, in any form",
            lambda tally: tally.share,
        ),
        ("exact {}", "the same, exactly as it was said", lambda tally: tally.share_verbatim),
    )
    return (
        Column("policy", "the memory policy", lambda row: row.policy),
        Column(
            "of",
            "`spans`: numbers, dates, names, ids and the like; `facts`: what the file annotates",
            lambda row: row.what,
        ),
        *(
            Column(form.format(distance), meaning, _tally_entry(distance, share))
            for form, meaning, share in forms
            for distance in SHOWN
        ),
    )


def note_on(outcome: Outcome) -> str:
    """The note under a table: which models' prices it uses, and which summarizer ran."""
    models = outcome.models
    who = "the built-in model" if models.is_offline else models.summarizer.model
    said = (
        f"Replies are billed at the price of {models.replies.model}, folds at that of {models.summarizer.model}; "
        f"{who} summarized."
    )
    unknown = {one.model for one in (models.replies, models.summarizer) if one.price is None}
    return f"{said} {UNKNOWN}: no price is known of {' and '.join(sorted(unknown))}." if unknown else said


def as_rich(table: Sheet) -> Group:
    """Format for a terminal, with the legend below."""
    drawn = Table(title=escape(table.title), title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for at, name in enumerate(table.header):
        drawn.add_column(name, justify="right" if _is_number(table, at) else "left", overflow="fold")
    for row in table.rows:
        drawn.add_row(*map(escape, row))  # so that rich does not read brackets as markup
    legend = Table.grid(padding=(0, 2))
    for names, meaning in _meanings(table):
        legend.add_row(f"  {names}", meaning, style="dim")
    return Group(drawn, legend, "")


def as_markdown(table: Sheet) -> str:
    """Format for a document."""
    rule = ["--:" if _is_number(table, at) else "---" for at in range(len(table.header))]
    rows = (table.header, rule, *table.rows)
    return "\n".join("| " + " | ".join(entry.replace("|", "\\|") for entry in row) + " |" for row in rows)


def legend_markdown(table: Sheet) -> str:
    """The meanings of the columns, as a list for a document."""
    return "\n".join(f"- **{names}**: {meaning}" for names, meaning in _meanings(table))


def as_json(table: Sheet) -> dict[str, Any]:
    """Format for storage and for a page: `{"title", "columns": [{"name", "is_number"}], "rows", "legend"}`.

    The legend is a list of `{"names", "meaning"}`.
    """
    return {
        "title": table.title,
        "columns": [
            {"name": name, "is_number": _is_number(table, at)} for at, name in enumerate(table.header)
        ],
        "rows": [list(row) for row in table.rows],
        "legend": [{"names": names, "meaning": meaning} for names, meaning in _meanings(table)],
    }


def _meanings(table: Sheet) -> Iterator[tuple[str, str]]:
    """Yield each meaning once, after the names of the columns that have it."""
    for meaning in dict.fromkeys(meaning for _, meaning in table.legend):
        yield ", ".join(name for name, one in table.legend if one == meaning), meaning


def _is_number(table: Sheet, at: int) -> bool:
    return at > 0 and table.header[at] != "of"


def _ways(outcome: Outcome) -> Iterator[_Row]:
    whole, chain = outcome.everything, outcome.chained
    for row in outcome.rows:
        yield _Row(row.summary.policy, row.bill, whole.usd, chain.usd)
    yield _Row("everything", whole, whole.usd, chain.usd)
    yield _Row("chained", chain, whole.usd, chain.usd)


def _kept(outcome: Outcome) -> Iterator[_KeptRow]:
    for row in outcome.rows:
        yield _KeptRow(row.summary.policy, "spans", row.summary.spans)
    for row in outcome.rows if _has_facts(outcome) else ():
        yield _KeptRow(row.summary.policy, "facts", row.summary.facts)


def _has_facts(outcome: Outcome) -> bool:
    return any(talk.facts for talk in outcome.talks)


def _together(kept: Kept) -> RetentionTally:
    total = RetentionTally()
    for tally in kept.values():
        total.add(tally)
    return total


def _tally_entry(distance: int, share: Callable[[RetentionTally], float | None]) -> Callable[[_KeptRow], str]:
    return lambda row: _share(share(row.kept[distance]))


def _number(value: float) -> str:
    return f"{value:,.0f}"


def _share(value: float | None) -> str:
    """Format as percent; only exactly none or all is shown as 0 or 100."""
    if value is None:
        return NOTHING
    if value in (0, 1):
        return f"{value:.0%}".replace("%", " %")
    return f"{min(max(value * 100, 0.1), 99.9):.1f} %"


def _usd(amount: Decimal | None) -> str:
    return UNKNOWN if amount is None else f"{amount:.4f}"


def _ratio(amount: Decimal | None, of: Decimal | None) -> str:
    return UNKNOWN if amount is None or not of else f"{amount / of:.2f}"
