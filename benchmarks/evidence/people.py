"""GateMem's people, each with chats of their own: what reaches a prompt of what they said, others said, was forgotten.

A person is a principal, by id, in all episodes of a domain; an episode is a project. So most people of the office have
chats in many projects, and what they said in one is nobody's business in another. What somebody says between two
checkpoints is a chat, without replies, as the set has none. A checkpoint is asked by its asker in a new chat of the
project.

- Wanted are the strings that an answer must include and that the asker has said in this project.
- A leak is a `leak_targets` string of any checkpoint of the domain that stands in the memory of any prompt although the
  asker has not said it in this project, but others, or the asker in other projects, have.
- Forgotten are the targets of `no_memory` checkpoints. Turns order deletions in many words, and which messages these
  mean is not marked, but what must be gone when such a checkpoint is asked is. So by then all messages of the project
  with one of its targets are forgotten, by the product's own function, in everybody's chats. From then on no prompt
  of the project may have it, unless the asker says it again. This takes away more than was ordered where a target is
  a part of what still holds; then that is not wanted any more, either.

Targets of fewer than `SHORTEST` characters ("17", "yes") are left out, because they also stand in dates and headings.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.evidence.across import elsewhere_tokens, person, say
from benchmarks.evidence.gatemem import lines_of
from benchmarks.evidence.matching import Haystack, Piece
from benchmarks.evidence.measure import memory_text
from benchmarks.evidence.report import aligned

if TYPE_CHECKING:
    from django.contrib.auth.models import User

    from chatmemory.database.owned import ChatKey
    from memory.context.prompt import Context

SHORTEST = 4
"""Characters of a target."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A checkpoint's strings: those in the memory of its prompt, and all that are looked for."""

    id: str
    domain: str
    wanted: int
    found: int
    found_off: int
    """Those of `wanted` in the prompt of a chat that shares nothing."""
    others: int
    leaked: tuple[str, ...]
    forgotten: int
    recovered: tuple[str, ...]
    elsewhere_tokens: int


@dataclass(frozen=True, slots=True)
class _Said:
    """What a person said in a message that stands."""

    text: Haystack
    chat: ChatKey
    message: Any


@dataclass(slots=True)
class _Domain:
    """What was said so far, and which targets occur in it."""

    name: str
    targets: frozenset[str]
    people: dict[str, User] = field(default_factory=dict)
    said: dict[tuple[str, str], list[_Said]] = field(default_factory=lambda: defaultdict(list))
    """By the person and the project."""
    known: set[str] = field(default_factory=set)

    def person(self, name: str) -> User:
        if name not in self.people:
            self.people[name] = person(f"people/{self.name}/{name}")
        return self.people[name]


def asked(folder: Path, name: str) -> Iterator[Asked]:
    """Yield the checkpoints of a domain. Nothing is left in the database: all is rolled back."""
    from django.db import transaction

    checkpoints: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for one in lines_of(folder / name / "checkpoints.jsonl"):
        checkpoints[one["episode_id"]].append(one)
    named = {target for ones in checkpoints.values() for one in ones for target in _targets(one)}
    domain = _Domain(name, frozenset(named))
    with transaction.atomic():
        for episode in lines_of(folder / name / "episodes.jsonl"):
            yield from _episode(domain, episode, checkpoints[episode["episode_id"]])
        transaction.set_rollback(True)


def _episode(domain: _Domain, episode: Mapping[str, Any], checkpoints: Sequence[Mapping[str, Any]]) -> Iterator[Asked]:
    project, turns, stored = episode["episode_id"], episode["turns"], 0
    places = {turn["turn_id"]: place for place, turn in enumerate(turns, start=1)}
    at: dict[int, list[Mapping[str, Any]]] = defaultdict(list)
    for one in checkpoints:
        at[places[one["as_of_turn_id"]]].append(one)
    forgotten: set[str] = set()
    for place in sorted(at):
        _store(domain, project, turns[stored:place])
        stored = place
        gone = {target for one in at[place] if one["expected_action"] == "no_memory" for target in _targets(one)}
        _forget(domain, project, gone)
        forgotten |= gone
        for one in at[place]:
            yield _ask(domain, project, one, forgotten)


def _targets(checkpoint: Mapping[str, Any]) -> list[str]:
    return [one for one in checkpoint.get("leak_targets", ()) if len(one) >= SHORTEST]


def _store(domain: _Domain, project: str, turns: Sequence[Mapping[str, Any]]) -> None:
    """Store a chat for each person who speaks in these turns."""
    from chatmemory.text.turn_line import automatic_title
    from conversations.interchange.rows import prepare_chat
    from conversations.interchange.values import ImportedChat, ImportedMessage

    said: dict[str, list[ImportedMessage]] = defaultdict(list)
    for turn in turns:
        at = datetime.fromisoformat(turn["timestamp"]).replace(tzinfo=UTC)
        said[turn["speaker"]["principal_id"]].append(ImportedMessage("user", turn["text"], created_at=at))
    for name, messages in said.items():
        title = automatic_title(messages[0].content)
        chat = ImportedChat(messages=tuple(messages), title=title, title_is_automatic=True)
        prepared = prepare_chat(domain.person(name), chat)
        prepared.row.project = project
        say(prepared, 0, len(messages))
        domain.said[name, project] += [
            _Said(Haystack(one.content), prepared.row.key, one.pk) for one in prepared.messages
        ]
    spoken = Haystack("\n".join(turn["text"] for turn in turns))
    domain.known |= {one for one in domain.targets - domain.known if spoken.has(_value(one))}


def _forget(domain: _Domain, project: str, targets: set[str]) -> None:
    """Forget all messages of the project, of anybody, that have one of these strings."""
    from conversations.message_changes import forget_message

    for (_, where), said in domain.said.items():
        if where == project:
            for one in [one for one in said if any(one.text.has(_value(target)) for target in targets)]:
                forget_message(one.chat, one.message)
                said.remove(one)


def _ask(domain: _Domain, project: str, checkpoint: Mapping[str, Any], forgotten: set[str]) -> Asked:
    from conversations.chat_lifecycle import create_chat
    from conversations.models import Across
    from memory.context.build import preview

    name = checkpoint["asker"]["principal_id"]
    own = Haystack("\n".join(one.text.text for one in domain.said[name, project]))
    answers = checkpoint["expected_action"] == "answer"
    wanted = [one for one in checkpoint["judge_spec"].get("include", ()) if answers and own.has(_value(one))]
    chat = create_chat(domain.person(name), project=project)
    context = preview(chat, checkpoint["query_text"])
    chat.across = Across.OFF
    strange = {one for one in domain.known if not own.has(_value(one))}
    seen = _seen(context, strange)
    return Asked(
        id=checkpoint["checkpoint_id"],
        domain=domain.name,
        wanted=len(wanted),
        found=len(_seen(context, wanted)),
        found_off=len(_seen(preview(chat, checkpoint["query_text"]), wanted)),
        others=len(strange - forgotten),
        leaked=tuple(one for one in seen if one not in forgotten),
        forgotten=len(strange & forgotten),
        recovered=tuple(one for one in seen if one in forgotten),
        elsewhere_tokens=elsewhere_tokens(context),
    )


def _seen(context: Context, strings: Sequence[str] | set[str]) -> list[str]:
    memory = Haystack(memory_text(context))
    return [one for one in strings if memory.has(_value(one))]


def _value(text: str) -> Piece:
    return Piece((text,), is_value=True)


def table(rows: Sequence[Asked]) -> str:
    """Return a Markdown table with a line for each domain."""
    head = ["checkpoints", "own strings", "in the prompt %", "off %", "not theirs", "leaks", "forgotten", "recovered"]
    lines = [["", *head], ["GateMem, office and household", *_cells(rows)]]
    for name in dict.fromkeys(row.domain for row in rows):
        lines += [[f"– {name}", *_cells([row for row in rows if row.domain == name])]]
    return aligned(lines)


def _cells(rows: Sequence[Asked]) -> list[str]:
    wanted = sum(row.wanted for row in rows)
    shares = sum(row.found for row in rows) / wanted, sum(row.found_off for row in rows) / wanted
    leaks = sum(row.others for row in rows), sum(len(row.leaked) for row in rows)
    recovered = sum(row.forgotten for row in rows), sum(len(row.recovered) for row in rows)
    return [
        f"{len(rows):,}",
        f"{wanted:,}",
        *(f"{100 * one:.1f}" for one in shares),
        *(f"{one:,}" for one in (*leaks, *recovered)),
    ]
