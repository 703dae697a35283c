"""`python -m benchmarks.evidence`: how much of what questions need is in the whole prompt, at default settings.

Chats are imported and folded once, by a summarizer that keeps nothing, and kept in SQLite files of a folder
(`--cache`), one for each policy, budget and set of `MEMORY_*` variables. `--fresh` makes them again, as is needed after
changes to what is stored or folded. `benchmarks.evidence.sets` says where the sets are found.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

import django

if TYPE_CHECKING:
    from benchmarks.evidence import across, people
    from benchmarks.evidence.measure import Row
    from benchmarks.evidence.questions import Question, Sample
    from memory.context.prompt import Context

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE, FIGURES, ACROSS_FIGURES = ROOT / "docs" / "prompt.md", "<!-- figures -->", "<!-- figures across chats -->"


def main() -> int:
    """Run the measurements chosen on the command line and print them."""
    arguments = _arguments()
    cache: Path = arguments.cache
    cache.mkdir(parents=True, exist_ok=True)
    _prepare(arguments, cache)
    if arguments.show:
        _show(arguments.show)
        return 0
    if arguments.turns:
        _print_turns(arguments)
        return 0
    rows: list[Row] = []
    for name in arguments.sets if not arguments.across else ():
        started = time.monotonic()
        found = list(_measured(_chosen(name, arguments), cache))
        if found:
            _print(name, found, time.monotonic() - started)
        rows += found
    tables, others = _across(arguments, cache)
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(row) for row in [*rows, *others]], indent=1), encoding="utf-8")
    if rows:
        from benchmarks.evidence.report import page

        _print_all(rows, write=arguments.before)
        _write_page(arguments, FIGURES, page(rows))
    if others:
        print(f"\n{tables}")
        _write_page(arguments, ACROSS_FIGURES, tables)
    return 0


def _across(arguments: argparse.Namespace, cache: Path) -> tuple[str, Sequence[across.Row | people.Asked]]:
    """Measure several chats of one person. Return the tables, and the rows."""
    from benchmarks.evidence import across, people
    from benchmarks.evidence.sets import GATEMEM_DOMAINS

    started = time.monotonic()
    samples = (sample for name in across.NAMES if name in arguments.sets for sample in _chosen(name, arguments))
    rows = [row for sample in samples for row in across.measured(sample, cache)]
    domains = GATEMEM_DOMAINS if "gatemem" in arguments.sets else ()
    asked = [one for domain in domains for one in people.asked(Path(os.environ["GATEMEM"]), domain)]
    print(f"several chats of one person: {time.monotonic() - started:.1f} s", file=sys.stderr)
    tables = ([across.table(rows)] if rows else []) + ([people.table(asked)] if asked else [])
    return "\n\n".join(tables), [*rows, *asked]


def _print_all(rows: Sequence[Row], *, write: bool) -> None:
    """Print one table of all sets, with the figures before; then replace these if told to `write`."""
    from benchmarks.evidence.report import BEFORE, figures, page

    print(page(rows))
    if write:
        BEFORE.write_text(f"{json.dumps(figures(rows), indent=1)}\n", encoding="utf-8")


def _write_page(arguments: argparse.Namespace, mark: str, tables: str) -> None:
    """Replace the tables after `mark` in `docs/prompt.md`, if that is wanted."""
    if arguments.page:
        head, _, rest = PAGE.read_text(encoding="utf-8").partition(mark)
        after = re.sub(r"\A(\s*^\|.*$)+", "", rest, flags=re.MULTILINE)
        PAGE.write_text(f"{head}{mark}\n\n{tables}{after}", encoding="utf-8")


def _prepare(arguments: argparse.Namespace, cache: Path) -> None:
    """Set up Django with the database that belongs to these settings."""
    if arguments.policy:
        os.environ["MEMORY_POLICY"] = arguments.policy
    if arguments.budget:
        os.environ["MEMORY_PROMPT_TOKEN_BUDGET"] = str(arguments.budget)
    chosen = {name: value for name, value in sorted(os.environ.items()) if name.startswith("MEMORY_")}
    file = cache / f"{hashlib.sha256(json.dumps(chosen).encode()).hexdigest()[:12]}.sqlite3"
    if arguments.fresh:
        for old in cache.glob(f"{file.name}*"):
            old.unlink()
    os.environ |= {"DATABASE_URL": f"sqlite:///{file}", "LOG_LEVEL": "WARNING", "RATE_LIMITS": "off"}
    if not chosen.get("MEMORY_EMBEDDINGS_MODEL"):
        os.environ |= {"OPENAI_API_KEY": "", "OPENAI_BASE_URL": ""}
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "chatmemory.settings")
    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)


def _chosen(name: str, arguments: argparse.Namespace) -> Iterator[Sample]:
    from benchmarks.evidence.sets import available

    for sample in available()[name]():
        if arguments.sample and sample.number not in arguments.sample:
            continue
        if not arguments.odd or sample.is_odd:
            yield replace(sample, questions=sample.questions[:: arguments.every])


def _measured(samples: Iterator[Sample], cache: Path) -> Iterator[Row]:
    from benchmarks.evidence.measure import measured

    for sample in samples:
        print(f"\r{sample.set} {sample.number} …   ", end="", file=sys.stderr, flush=True)
        yield from measured(sample, cache)
    print("\r", end="", file=sys.stderr)


def _print(name: str, rows: Sequence[Row], seconds: float) -> None:
    from benchmarks.evidence.report import table

    print(f"{table(name, rows)}\n")
    print(f"{name}: {seconds:.1f} s", file=sys.stderr)


def _print_turns(arguments: argparse.Namespace) -> None:
    """Print what the last turns of each chat cost."""
    from benchmarks.evidence.report import aligned
    from benchmarks.evidence.turns import played, summed

    lines = [["last turns", "turns", "prompt", "memory", "cached %", "folds", "unrepresented at most"]]
    for name in arguments.sets:
        one = summed([list(played(sample, arguments.turns)) for sample in _chosen(name, arguments)])
        tokens = f"{one.prompt_tokens:,.0f}", f"{one.memory_tokens:,.0f}"
        counts = f"{one.folds}", f"{one.unrepresented}"
        lines.append([name, f"{one.turns:,}", *tokens, f"{100 * one.cached:.1f}", *counts])
    print(aligned(lines))


def _show(which: str) -> None:
    """Print the prompt for the question with this id, and which pieces of its evidence are missing."""
    from benchmarks.evidence.sets import available
    from benchmarks.evidence.stored import stored_for
    from memory.context.build import preview

    name, number, at = which.split("/")
    sample = next(one for one in available()[name]() if one.number == int(number))
    sample = replace(sample, questions=sample.questions[int(at) - 1 : int(at)])
    for question, chat in stored_for(sample):
        _print_prompt(question, preview(chat, question.text))


def _print_prompt(question: Question, context: Context) -> None:
    from benchmarks.evidence.matching import Haystack
    from benchmarks.evidence.measure import memory_text

    for section in context.sections:
        print(f"──── {section.kind}, {section.tokens} tokens\n{section.text}\n")
    haystack = Haystack(memory_text(context))
    print(f"════ {question.kind}: {question.text}")
    for piece in question.pieces:
        print(f"──── evidence {'FOUND' if haystack.has(piece) else 'MISSING'}: {' | '.join(piece.forms)}")


def _arguments() -> argparse.Namespace:
    from benchmarks.evidence.sets import available

    there = list(available())
    parser = argparse.ArgumentParser(prog="python -m benchmarks.evidence", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--sets", type=lambda text: text.split(","), default=there, help=", ".join(there))
    parser.add_argument("--sample", type=int, action="append", help="chats with these numbers alone, from 1")
    parser.add_argument("--odd", action="store_true", help="the half alone by which numbers are chosen")
    parser.add_argument("--every", type=int, default=1, help="every so many questions one")
    parser.add_argument(
        "--across", action="store_true", help="several chats of one person alone (RealMem, REALTALK, GateMem)"
    )
    parser.add_argument("--policy", help="other than the default")
    parser.add_argument("--budget", type=int, help="of memory, in tokens")
    parser.add_argument("--fresh", action="store_true", help="import and fold the chats anew")
    parser.add_argument(
        "--turns", type=int, help="what the last so many turns of each chat cost instead, played one by one"
    )
    parser.add_argument("--json", type=Path, help="write a row for each question into this file")
    parser.add_argument("--page", action="store_true", help="write the tables of docs/prompt.md")
    parser.add_argument("--before", action="store_true", help="keep these figures as those before a change")
    parser.add_argument("--show", metavar="SET/CHAT/QUESTION", help="print one prompt, and the evidence missing")
    cache = Path(os.environ.get("EVIDENCE_CACHE") or ROOT / "var" / "evidence")
    parser.add_argument("--cache", type=Path, default=cache, help="where chats are kept")
    arguments = parser.parse_args()
    for name in arguments.sets:
        if name not in there:
            parser.error(f"there is no set {name!r}; there is {', '.join(there)}")
    return arguments


if __name__ == "__main__":
    sys.exit(main())
