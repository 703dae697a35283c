"""Helpers for tests of folding: chats with a code in every turn, and what must hold after any fold."""

import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

import pytest
from django.db import connection
from django.utils import timezone

from chatmemory.llm import registry
from chatmemory.llm.protocol import ReplyError, UpstreamError
from conversations.models import Chat
from memory.briefs import Memory, decide_due
from memory.context.build import preview
from memory.folding.fold import FoldReport, fold
from memory.folding.request import request_resummarize
from memory.models import ConversationBrief, RevisionKind, SummaryRevision
from memory.policies import POLICIES
from tests.processes import prompts as planted
from tests.support.factories import add_turns, brief_of, make_chat, make_user
from tests.support.fakes.behaviours import lorem
from tests.support.fakes.scripted import KeepingModel, ScriptedModel, codes

DOWN = UpstreamError(ReplyError("upstream_error", "The model's server answered with status 500."))
M = TypeVar("M", bound=ScriptedModel)
WORDS = "the quiet harbour kept its lamps lit for boats that came late and left early in the fog "


def turn(number: int, words: int = 8) -> tuple[str, str]:
    """Return the texts of turn `number`, with its code."""
    return f"T{number} {WORDS[: words * 5]}", f"Noted, T{number}: {WORDS[: words * 5]}"


def chat_of(turns: int, name: str = "alice") -> Chat:
    """Make a chat of that user with turns T1 to T`turns`."""
    chat = make_chat(make_user(name))
    add_turns(chat, [turn(number) for number in range(1, turns + 1)])
    return chat


def summarized_by(model: M, monkeypatch: pytest.MonkeyPatch) -> M:
    """Make `model` the configured summarizer."""
    monkeypatch.setattr(registry, "chat_model", lambda _: model)
    monkeypatch.setattr(registry, "is_offline", lambda: False)
    return model


def run_fold(chat: Chat) -> FoldReport:
    """Run one fold without a practical time limit."""
    return fold(chat.key, until=time.monotonic() + 1000)


def update(chat: Chat) -> FoldReport:
    """Have all turns outside the window folded, now."""
    request_resummarize(chat, "update")
    return run_fold(chat)


def wait_over(chat: Chat) -> None:
    """Move the time of the next attempt into the past."""
    past = timezone.now() - timedelta(seconds=5)
    ConversationBrief.objects.filter(chat=chat).update(next_attempt_at=past)


def revisions(chat: Chat) -> list[SummaryRevision]:
    return list(SummaryRevision.objects.filter(chat=chat).order_by("version"))


def assert_sound(chat: Chat) -> None:
    """Assert what holds after any event: spans are contiguous, `version` counts them, `due` is right."""
    brief, rows = brief_of(chat), revisions(chat)
    assert [row.version for row in rows] == list(range(1, len(rows) + 1))
    assert brief.version == len(rows)
    ends = {row.version: row.through_seq for row in rows}
    for row in rows:
        before = ends[row.parent] if row.parent and row.kind != RevisionKind.REBUILD else 0
        assert row.from_seq == before + 1
    assert brief.folded_through_seq == ends.get(brief.head, 0)
    exact = brief_of(chat)
    decide_due(exact)
    assert exact.due == brief.due
    assert (brief.lease_owner, brief.lease_expires_at) == ("", None)


def assert_folded(chat: Chat, through: int) -> None:
    """Assert that turns T1 to T`through` are in the summary, each once and in order, and no others."""
    assert_sound(chat)
    brief = brief_of(chat)
    seen = list(dict.fromkeys(codes(brief.global_summary)))
    assert seen == [f"T{number}" for number in range(1, through + 1)]
    assert brief.folded_through_seq == 2 * through


def noted(first: int, last: int) -> list[tuple[str, str]]:
    """Return turns of about 240 tokens, each with a fact `AB-1234` that summarizers are to keep."""
    facts = [planted.code(number) for number in range(first, last + 1)]
    return [(f"Note {fact}: {lorem(80)}", f"{fact} is noted. {lorem(80)}") for fact in facts]


def waiting_chat(policy: str, waiting: int = 8) -> Chat:
    """Make a chat of 20 turns that has been folded once, and some more turns that wait for the next fold."""
    chat = make_chat(policy=policy)
    add_turns(chat, noted(1, 20))
    request_resummarize(chat, "update")
    assert run_fold(chat).outcome == "done"
    assert brief_of(chat).version
    if waiting:
        add_turns(chat, noted(21, 20 + waiting))
        request_resummarize(chat, "update")
    return chat


def assert_whole(chat: Chat) -> None:
    """Assert that the next prompt holds the state in use and every turn that is not folded, by the
    facts `AB-1234` that these say, within its budget."""
    context, brief = preview(chat), brief_of(chat)
    chat.refresh_from_db(fields=["last_seq"])
    shown = planted.codes("\n".join(message.content for message in context.prompt.messages))
    unfolded = range(brief.folded_through_seq // 2 + 1, chat.last_seq // 2 + 1)
    assert {planted.code(number) for number in unfolded} <= shown
    assert context.plan.unrepresented == 0
    assert context.tokens <= context.plan.budget
    kinds = {section.kind for section in context.sections}
    state = POLICIES[brief.policy].render(Memory.of(brief).state)
    assert kinds >= {section.kind for section in state}


def asked_codes(model: ScriptedModel) -> list[list[str]]:
    """Return the codes of the new turns of each call, each once."""
    return [list(dict.fromkeys(codes(" ".join(u + a for u, a in turns)))) for _, turns in model.inputs]


def fail_until_given_up(chat: Chat, model: KeepingModel) -> None:
    """Fail five times; after the fifth failure the built-in summarizer takes over at once."""
    model.lines = [DOWN] * 5
    for _ in range(5):
        wait_over(chat)
        run_fold(chat)
    assert model.lines == []


class Killed(BaseException):
    """Raised in a worker to simulate that it is killed."""


def together(*acts: Callable[[], object]) -> None:
    """Run all of `acts` at once, each in a thread, and wait for them. Fail if any of them raised."""
    start, failures = threading.Barrier(len(acts)), list[BaseException]()

    def guarded(act: Callable[[], object]) -> None:
        try:
            start.wait(timeout=10)
            act()
        except BaseException as error:  # noqa: BLE001  # reported to the thread that waits
            failures.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=guarded, args=(act,)) for act in acts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert failures == []
    assert not any(thread.is_alive() for thread in threads)


def folded_chat(model: KeepingModel) -> Chat:
    """Make a chat of turns 1 to 12 with three versions, which fold the turns through 3, 6 and 9."""
    chat = chat_of(12)
    update(chat)
    assert [row.through_seq for row in revisions(chat)] == [6, 12, 18]
    return chat
