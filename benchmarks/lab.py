"""`python -m benchmarks.lab`: play the sample conversations under every policy; write `docs/lab.md` and its plots.

The recorded conversations are in the folder named by `SAMPLES`; without it, only the repository's own are played. The
same conversations give the same page: it contains no date and nothing about the machine.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import django
from rich.console import Console
from rich.progress import Progress

if TYPE_CHECKING:
    from memory.lab.conversation import Conversation
    from memory.lab.outcome import Outcome

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
RECALLED = ("long",)
"""Collections that are also played with recall off and with recall always on."""
COLUMNS = "columns"
"""The part of the page that explains the columns.

Each collection has a part under its own name; the part of a skipped collection is left unchanged.
"""


@dataclass(frozen=True, slots=True)
class Collection:
    """Conversations that are shown together. `name` is part of their plots' file names."""

    name: str
    title: str
    about: str
    files: tuple[Path, ...]


def main() -> int:
    """Play all available collections and write the page."""
    # The built-in model summarizes, so that anybody can reproduce the page.
    os.environ.update(OPENAI_API_KEY="", OPENAI_BASE_URL="", LOG_LEVEL="WARNING")
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "chatmemory.settings")
    django.setup()
    there, skipped = _collections(os.environ.get("SAMPLES", ""))
    for one in skipped:
        print(f"Skipped, because SAMPLES names no folder with it: {one.title}.", file=sys.stderr)
    outcomes = list(_played(there))
    for one, outcome in zip(there, outcomes, strict=True):
        _draw(one, outcome)
    page = DOCS / "lab.md"
    text = _with(page.read_text(encoding="utf-8"), COLUMNS, _columns(outcomes[-1]))
    for one, outcome in zip(there, outcomes, strict=True):
        text = _with(text, one.name, _section(one, outcome))
    if there[0].name in RECALLED:
        text = _with(text, "recall", _recall(there[0], outcomes[0]))
    page.write_text(text, encoding="utf-8")
    return 0


def _recall(collection: Collection, auto: Outcome) -> str:
    """Compare recall's modes on `collection`; `auto` is its outcome under the default mode, already played."""
    from memory.lab import runner
    from memory.lab.outcome import Outcome
    from memory.lab.tables import as_markdown, recall_sheet

    def played(mode: str) -> Outcome:
        runs = runner.run(auto.talks, list(auto.runs), options={"recall": mode})
        return Outcome(auto.talks, runs, auto.models)

    found = recall_sheet({"off": played("off"), "auto": auto, "always": played("always")})
    about = (
        "Defaults but for `recall`; `card` has `off` for its own default, which its row `auto` stands for."
    )
    return f"## {found.title}\n\n{collection.title}. {about}\n\n{as_markdown(found)}"


def _collections(samples: str) -> tuple[list[Collection], list[Collection]]:
    """Return the collections whose files exist, and those whose files do not."""
    folder = Path(samples) if samples else None
    own = tuple(sorted((ROOT / "conversations" / "samples").glob("*.json")))
    recorded = (
        (
            "long",
            "Four long service chats",
            "tau-bench, airline, talk alone; each of about 25,000 tokens.",
            "tau_airline_xl.json",
        ),
        (
            "short",
            "Ten shorter service chats",
            "tau-bench, airline, with their tool messages; 3,000 to 5,000 tokens of talk each.",
            "tau_airline_ship_sample10.json",
        ),
        (
            "orders",
            "Twenty chats of small orders",
            "Taskmaster TM-4; about 1,000 tokens each, so that nearly everything fits.",
            "tm4_long.json",
        ),
    )
    found = [
        Collection(name, title, about, ((folder or Path()) / file,)) for name, title, about, file in recorded
    ]
    there = [one for one in found if folder and one.files[0].exists()]
    mine = Collection(
        "own",
        "The repository's own samples",
        "`conversations/samples`: planning a journey, and a chat with a workshop that uses tools.",
        own,
    )
    return [*there, mine], [one for one in found if one not in there]


def _played(collections: Sequence[Collection]) -> Iterator[Outcome]:
    """Play all collections in one run, so that each policy needs one process; yield an outcome for each."""
    from django.conf import settings

    from memory.lab import runner
    from memory.lab.outcome import Models, Outcome
    from memory.policies import POLICIES

    talks = [list(_talks(one)) for one in collections]
    every = [talk for some in talks for talk in some]
    turns = sum(len(talk.exchanges) for talk in every)
    with Progress(console=Console(stderr=True)) as progress:
        tasks = {policy: progress.add_task(policy, total=turns) for policy in POLICIES}
        runs = runner.run(
            every, list(POLICIES), tell=lambda policy, steps: progress.advance(tasks[policy], steps)
        )
    models = Models(settings.MODEL_VARIANTS[settings.DEFAULT_MODEL_VARIANT], settings.SUMMARIZER, True)
    whole = Outcome(tuple(every), runs, models)
    start = 0
    for some in talks:
        yield whole.part(range(start, start + len(some)))
        start += len(some)


def _talks(collection: Collection) -> Iterator[Conversation]:
    from conversations.interchange.read import read_chats
    from memory.lab.conversation import name_of, talk_of

    for path in collection.files:
        for number, chat in enumerate(read_chats(path.read_text(encoding="utf-8")), start=1):
            yield talk_of(chat, name_of(chat, f"{path.stem} {number}"))


def _draw(collection: Collection, outcome: Outcome) -> None:
    from memory.lab import plots

    plots.draw(outcome, DOCS / _plot(collection), title=collection.title)


def _plot(collection: Collection) -> str:
    return f"lab-{collection.name}.svg"


def _section(collection: Collection, outcome: Outcome) -> str:
    from memory.lab.tables import as_markdown, note_on, sheets_of

    head = f"## {collection.title}\n\n{collection.about} {note_on(outcome)}"
    plot = f"![{collection.title}: memory over turns, what is kept, what it costs]({_plot(collection)})"
    tables = (f"**{sheet.title}**\n\n{as_markdown(sheet)}" for sheet in sheets_of(outcome))
    return "\n\n".join([head, plot, *tables])


def _columns(outcome: Outcome) -> str:
    from memory.lab.tables import legend_markdown, sheets_of

    return "\n\n".join(f"*{sheet.title}*\n\n{legend_markdown(sheet)}" for sheet in sheets_of(outcome))


def _with(text: str, part: str, written: str) -> str:
    """Return the page with one of its parts replaced. Raise `ValueError` if the part's comments are missing."""
    begin, end = f"<!-- {part} -->", f"<!-- end of {part} -->"
    before, after = text.index(begin) + len(begin), text.index(end)
    return f"{text[:before]}\n\n{written}\n\n{text[after:]}"


if __name__ == "__main__":
    sys.exit(main())
