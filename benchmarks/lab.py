"""`python -m benchmarks.lab`: play the sample conversations under every policy; write the figures of `docs/lab.md`.

`SAMPLES` names a folder with the recorded conversations. A collection whose file is not there keeps its figures.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

import django

if TYPE_CHECKING:
    from memory.lab.conversation import Conversation
    from memory.lab.measures import Outcome

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
DRAWN = "long"
"""The collection whose costs are drawn, and that is also played with recall off and with recall always on."""
COST = DOCS / "cost.svg"
"""The picture of the README: the default policy against sending everything."""
BLUE, GREY = "#0969da", "#6e7781"


@dataclass(frozen=True, slots=True)
class Collection:
    """Conversations that are shown together, in the part of the page that has the name `name`."""

    name: str
    title: str
    about: str
    files: tuple[Path, ...]


def main() -> int:
    """Play all available collections and write the page."""
    # The built-in model summarizes, so that every reader can reproduce the page.
    os.environ.update(OPENAI_API_KEY="", OPENAI_BASE_URL="", LOG_LEVEL="WARNING")
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "chatmemory.settings")
    django.setup()
    page = DOCS / "lab.md"
    for one in _collections(Path(os.environ.get("SAMPLES", "none"))):
        if not all(file.exists() for file in one.files):
            print(f"Skipped, because SAMPLES names no folder with it: {one.title}.", file=sys.stderr)
            continue
        print(f"{one.title} …", file=sys.stderr)
        text = _with(page.read_text(encoding="utf-8"), one.name, _section(one))
        page.write_text(text, encoding="utf-8")
    return 0


def _collections(samples: Path) -> Iterator[Collection]:
    yield Collection(
        "long",
        "Four long service chats",
        "tau-bench, airline, talk alone; about 25,000 tokens each.",
        (samples / "tau_airline_xl.json",),
    )
    yield Collection(
        "short",
        "Ten shorter service chats",
        "tau-bench, airline, with their tool messages; 3,000 to 5,000 tokens of talk each.",
        (samples / "tau_airline_ship_sample10.json",),
    )
    yield Collection(
        "own",
        "The repository's own samples",
        "`conversations/samples`: planning a journey, and a chat with a workshop that uses tools.",
        tuple(sorted((ROOT / "conversations" / "samples").glob("*.json"))),
    )


def _section(collection: Collection) -> str:
    from memory.lab import report

    talks = list(_talks(collection))
    outcome = _played(talks)
    parts = [
        f"## {collection.title}",
        f"{collection.about} {report.note_on(outcome)}",
        _table(list(report.COLUMNS), *report.rows_of(outcome)),
        _quality(talks),
    ]
    if collection.name == DRAWN:
        picture = f"lab-{collection.name}.svg"
        report.draw(outcome, DOCS / picture)
        _draw_cost(outcome)
        parts += [f"![Cost so far over turns, by policy]({picture})", _recall(talks, outcome)]
    return "\n\n".join(filter(None, parts))


def _table(head: Sequence[str], *rows: Sequence[str]) -> str:
    rule = ["---", *["--:"] * (len(head) - 1)]
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, rule, *rows))


def _quality(talks: Sequence[Conversation]) -> str:
    """Say what one summary of a whole talk keeps, by the built-in model and by two baselines."""
    from benchmarks.built_in import SUMMARY_TOKENS, quality_of

    found = [quality_of(talk) for talk in talks if talk.facts]
    if not found:
        return ""
    kept = fmean(one.summarizer for one in found)
    drawn, lead = fmean(one.random for one in found), fmean(one.lead for one in found)
    return (
        f"Of the annotated values, one summary of {SUMMARY_TOKENS} tokens of the whole talk by the built-in model "
        f"keeps {100 * kept:.1f} %, random sentences {100 * drawn:.1f} %, the first sentences {100 * lead:.1f} %."
    )


def _recall(talks: Sequence[Conversation], auto: Outcome) -> str:
    """Compare the modes of recall; `auto` is the outcome under the default mode."""
    outcomes = {"off": _played(talks, recall="off"), "auto": auto, "always": _played(talks, recall="always")}
    head = ["policy", *(column for mode in outcomes for column in (f"{mode}: × all", "held"))]
    rows: list[list[str]] = []
    for at, policy in enumerate(auto.runs):
        cells = [policy]
        for outcome in outcomes.values():
            row, whole = outcome.rows[at], outcome.everything_usd
            cells += [f"{(row.usd or 0) / (whole or 1):.2f}", f"{100 * (row.held or 0):.1f} %"]
        rows.append(cells)
    about = "The same with recall off, by need (the default, but for `card`: off) and always:"
    return f"{about}\n\n{_table(head, *rows)}"


def _draw_cost(outcome: Outcome) -> None:
    """Draw what a talk has cost after each turn, as the mean of the talks, with the provider's cache and without it."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context({"svg.hashsalt": "chatmemory", "svg.fonttype": "none", "font.size": 9.0}):
        figure = Figure(figsize=(8, 3), layout="constrained")
        for panel, is_cached in zip(figure.subplots(1, 2), (True, False), strict=True):
            whole, ours = _costs_so_far(outcome, is_cached=is_cached)
            turns = range(1, len(ours) + 1)
            even = max((turn for turn in turns if ours[turn - 1] > whole[turn - 1]), default=1)
            cache = "With the provider's cache" if is_cached else "After the cache has expired"
            panel.set_title(f"{cache}: break-even at turn {even}", loc="left", fontsize=9)
            panel.set_xlabel("turn")
            panel.yaxis.set_major_formatter("${x:.2f}")
            panel.plot(turns[::4], whole[::4], color=GREY, label=f"sending everything: ${whole[-1]:.2f}")
            panel.plot(turns[::4], ours[::4], color=BLUE, label=f"chatmemory: ${ours[-1]:.2f}")
            panel.axvline(even, color=GREY, linestyle=":", linewidth=1)
            panel.legend(frameon=False, loc="upper left")
            panel.set_ylim(0)
            panel.spines[["top", "right"]].set_visible(False)
        figure.savefig(COST, metadata={"Date": None})


def _costs_so_far(outcome: Outcome, *, is_cached: bool) -> tuple[list[float], list[float]]:
    """What sending everything has cost after each turn, and the policy `chunked`."""
    from memory.lab.measures import everything

    price = outcome.replies.price
    assert price is not None
    sent = [list(everything(talk)) for talk in outcome.talks]
    runs = outcome.runs["chunked"]
    if not is_cached:
        sent = [[replace(one, cached_tokens=0) for one in talk] for talk in sent]
        runs = [replace(run, turns=tuple(replace(turn, prefix=0) for turn in run.turns)) for run in runs]
    whole = _mean_so_far([[float(price.cost(one)) for one in talk] for talk in sent])
    return whole, _mean_so_far([outcome.costs(run) or [] for run in runs])


def _mean_so_far(talks: Sequence[Sequence[float]]) -> list[float]:
    """The mean of what talks have cost after each turn, up to the end of the shortest."""
    return [fmean(costs) for costs in zip(*(accumulate(talk) for talk in talks), strict=False)]


def _played(talks: Sequence[Conversation], **options: str) -> Outcome:
    from django.conf import settings

    from memory import conf
    from memory.lab import runner
    from memory.lab.measures import Outcome
    from memory.policies import POLICIES

    runs = runner.run(talks, list(POLICIES), options=options)
    replies = settings.MODEL_VARIANTS[settings.DEFAULT_MODEL_VARIANT]
    return Outcome(tuple(talks), runs, replies, conf.summarizer(), is_offline=True)


def _talks(collection: Collection) -> Iterator[Conversation]:
    from conversations.interchange.read import read_chats
    from memory.lab.conversation import talk_of

    for path in collection.files:
        for number, chat in enumerate(read_chats(path.read_text(encoding="utf-8")), start=1):
            yield talk_of(chat, f"{path.stem} {number}")


def _with(text: str, part: str, written: str) -> str:
    """Return the page with one of its parts replaced. Raise `ValueError` if the part's comments are missing."""
    begin, end = f"<!-- {part} -->", f"<!-- end of {part} -->"
    before, after = text.index(begin) + len(begin), text.index(end)
    return f"{text[:before]}\n\n{written}\n\n{text[after:]}"


if __name__ == "__main__":
    sys.exit(main())
