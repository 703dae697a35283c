"""`manage.py replay`: replay recorded conversations through the real engine and compare the policies."""

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from rich.console import Console

from chatmemory.llm import registry
from chatmemory.runtime.escape import plain
from conversations.interchange.read import read_chats
from conversations.interchange.rows import export_chat
from conversations.management.prompts import chat_named, chats_in, progress_bar
from memory import conf
from memory.lab import report, runner
from memory.lab.conversation import Conversation, talk_of
from memory.lab.measures import Outcome, outcome_to_json
from memory.policies import POLICIES
from memory.policies.protocol import bounds_for, option_errors

FILE_WIDTH = 110
"""Width of a line in characters if the output is not a terminal."""


class Command(BaseCommand):
    help = "Replay recorded conversations under several policies and compare cost and retention."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("files", nargs="*", metavar="FILE", type=Path, help="JSON or JSON lines, in UTF-8")
        several: dict[str, Any] = {"nargs": "+", "action": "extend", "default": []}
        parser.add_argument("--chat", **several, metavar="ID", help="chats of this server, played on a copy")
        parser.add_argument("--policy", **several, choices=sorted(POLICIES), help="default: all")
        parser.add_argument(
            "--option",
            action="append",
            default=[],
            metavar="NAME=VALUE",
            help="an option of the chats, such as budget, under each policy that has it; repeatable",
        )
        parser.add_argument("--json", type=Path, metavar="F", help="write all measurements to F")
        parser.add_argument("--plot", type=Path, metavar="F", help="draw the cost over turns to F, a .png or .svg file")

    def handle(self, *_args: Any, **options: Any) -> None:
        policies = list(dict.fromkeys(options["policy"] or POLICIES))
        chosen = _options(options["option"], policies)
        _check_outputs(options["json"], options["plot"])
        talks = _talks(options["files"], options["chat"])
        turns = len(policies) * sum(len(talk.exchanges) for talk in talks)
        try:
            with progress_bar("Playing", turns, self.stderr) as advance:
                runs = runner.run(talks, policies, tell=advance, options=chosen)
        except runner.LabError as exc:
            raise CommandError(str(exc)) from exc
        replies = settings.MODEL_VARIANTS[settings.DEFAULT_MODEL_VARIANT]
        outcome = Outcome(tuple(talks), runs, replies, conf.summarizer(), registry.is_offline())
        width = None if self.stdout.isatty() else FILE_WIDTH
        console = Console(file=self.stdout, highlight=False, width=width)  # type: ignore[arg-type]  # has all rich uses
        console.print(report.as_rich(outcome))
        console.print(report.note_on(outcome), markup=False)
        _write(outcome, options["json"], options["plot"])


def _write(outcome: Outcome, json_path: Path | None, plot_path: Path | None) -> None:
    try:
        if json_path:
            json_path.write_text(json.dumps(outcome_to_json(outcome), indent=1) + "\n", encoding="utf-8")
        if plot_path:
            report.draw(outcome, plot_path)
    except OSError as exc:
        raise CommandError(f"{exc.filename and plain(str(exc.filename))}: {exc.strerror or exc}") from exc
    except ImportError as exc:
        raise CommandError("matplotlib is not installed; `pip install matplotlib` brings it.") from exc


def _options(given: Sequence[str], policies: Sequence[str]) -> dict[str, Any]:
    """Parse the options of the chats. Raises `CommandError` if one is unknown or invalid for a policy."""
    options: dict[str, Any] = {}
    for text in given:
        name, is_given, value = text.partition("=")
        if not is_given:
            raise CommandError(f"--option {plain(text)} must be of the form NAME=VALUE.")
        options[name] = value
        with suppress(ValueError):  # then it is a word
            options[name] = json.loads(value)
    had = {name for policy in policies for name in bounds_for(POLICIES[policy])}
    elsewhere = {name: value for name, value in options.items() if name in had}
    for policy in policies:
        if wrong := option_errors(POLICIES[policy], options, conf.limits(), elsewhere):
            raise CommandError(f"{plain(wrong[0])}.")
    return options


def _check_outputs(json_path: Path | None, plot_path: Path | None) -> None:
    """Check what is known of the output files, before minutes are spent."""
    if plot_path and plot_path.suffix.lower() not in report.SUFFIXES:
        raise CommandError(f"{plot_path}: a plot is a file that ends in {' or '.join(report.SUFFIXES)}.")
    for path in filter(None, (json_path, plot_path)):
        if not path.parent.is_dir():
            raise CommandError(f"{path}: there is no folder {path.parent}.")


def _talks(files: Sequence[Path], chats: Sequence[str]) -> list[Conversation]:
    """The talks of all files and stored chats in which at least one question was answered."""
    talks = [
        talk_of(chat, f"{path.stem} {number}") for path in files for number, chat in enumerate(chats_in(path), start=1)
    ]
    for chat in map(chat_named, chats):  # as its export would be read
        [recorded] = read_chats("".join(export_chat(chat)))
        talks.append(talk_of(recorded, str(chat.pk)))
    talks = [talk for talk in talks if talk.exchanges]
    if not talks:
        raise CommandError("There is nothing to replay: name files or chats with an answered question.")
    return talks
