"""Memory after a message is edited or forgotten: no summary contains it, and only later turns are folded again."""

import json
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from django.core import serializers
from django.db import transaction

from conversations.message_changes import edit_message, forget_message
from conversations.models import Chat, Message
from memory.changes import messages_changed
from memory.context.build import preview
from memory.folding.request import note_request
from memory.models import ConversationBrief, RevisionKind, SummaryRevision
from memory.revisions.by_hand import clear, restore
from tests.support.exhaustive import first_of, first_row_of
from tests.support.factories import add_turns, brief_of
from tests.support.fakes.scripted import KeepingModel, codes
from tests.support.folds import (
    asked_codes,
    chat_of,
    folded_chat,
    revisions,
    run_fold,
    together,
    turn,
)

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("sound"), pytest.mark.postgres]


def message(chat: Chat, seq: int) -> Message:
    return Message.objects.get(chat=chat, seq=seq)


def forget(chat: Chat, seq: int) -> None:
    forget_message(chat.key, message(chat, seq).pk)


def edit(chat: Chat, seq: int, content: str) -> None:
    edit_message(chat, message(chat, seq).pk, content)


def dump_chat(chat: Chat) -> str:
    """Everything that is stored of a chat and its memory, as text, without times: "T10:00" would look like T10."""
    tables: list[Any] = [
        Message.objects.filter(chat=chat),
        ConversationBrief.objects.filter(chat=chat),
        SummaryRevision.objects.filter(chat=chat),
    ]
    text = "".join(serializers.serialize("json", rows) for rows in tables)
    return re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z?", "", text)


def long_folded_chat(model: KeepingModel, turns: int = 30) -> Chat:
    """A chat with all but the newest turns folded, three turns a revision."""
    chat = chat_of(turns)
    run_fold(chat)
    assert len(revisions(chat)) > 5
    model.prompts.clear()
    return chat


def test_the_brief_steps_back_to_the_newest_revision_that_had_not_seen_it(model: KeepingModel) -> None:
    chat = long_folded_chat(model)
    before, rows = brief_of(chat), revisions(chat)
    forget(chat, 2 * 10)  # the answer of turn 10
    brief, after = brief_of(chat), revisions(chat)
    older = [row for row in rows if row.through_seq < 19][-1]
    assert (brief.head, brief.version) == (before.version + 1, before.version + 1)
    assert brief.folded_through_seq == older.through_seq
    assert brief.global_summary == older.global_summary
    assert brief.epoch == before.epoch + 1
    retraction = after[-1]
    assert (retraction.kind, retraction.parent, retraction.turns) == (RevisionKind.RETRACT, older.version, 0)
    assert [row.version for row in after if row.forgotten_at] == [row.version for row in rows if row.through_seq >= 19]
    assert all(row.cost_usd == was.cost_usd for row, was in zip(after, rows, strict=False))


def test_step_back_deletes_derived_data(model: KeepingModel) -> None:
    chat = long_folded_chat(model)
    assert dump_chat(chat).count("T10") > 10
    forget(chat, 19)
    forget(chat, 20)
    assert "T10" not in dump_chat(chat)
    assert "T9" in dump_chat(chat)
    assert "T10" not in str(preview(chat, "What was it?").prompt)
    run_fold(chat)
    assert "T10" not in dump_chat(chat)
    assert set(codes(brief_of(chat).global_summary)) == {f"T{n}" for n in range(1, 28) if n != 10}


@pytest.mark.parametrize(("turn", "most"), first_row_of([(2, 10), (26, 1), (27, 1)]))
def test_step_back_costs_only_later_folds(turn: int, most: int, model: KeepingModel) -> None:
    chat = long_folded_chat(model)
    forget(chat, 2 * turn - 1)
    run_fold(chat)
    assert 1 <= len(model.prompts) <= most
    again = {code for call in asked_codes(model) for code in call}
    older = [row for row in revisions(chat) if row.kind == RevisionKind.FOLD and not row.forgotten_at]
    assert again <= {f"T{number}" for number in range(turn - 2, 31)}
    assert older[0].version == 1 or turn == 2


def test_behind_the_fold_no_summary_is_lost(model: KeepingModel) -> None:
    chat = long_folded_chat(model)
    before, rows = brief_of(chat), revisions(chat)
    forget(chat, 59)
    brief = brief_of(chat)
    assert (brief.version, brief.head, brief.global_summary) == (
        before.version,
        before.head,
        before.global_summary,
    )
    assert [row.pk for row in revisions(chat)] == [row.pk for row in rows]
    assert not any(row.forgotten_at for row in revisions(chat))


def test_edit_remakes_the_turns_line(model: KeepingModel) -> None:
    chat = chat_of(2)
    assert "T2" in message(chat, 4).line
    edit(chat, 3, "The lamp costs 45 euros.")
    assert "45" in message(chat, 4).line
    forget(chat, 4)
    assert message(chat, 4).line == ""
    assert "45" in message(chat, 3).line
    forget(chat, 3)
    assert message(chat, 3).line == ""


def test_later_change_does_not_restore_forgotten_text(model: KeepingModel) -> None:
    """Never step back to a removed revision, even if it had not seen the second message."""
    chat = long_folded_chat(model)
    forget(chat, 5)
    forget(chat, 6)
    forget(chat, 41)
    with transaction.atomic():
        messages_changed(chat.key, from_seq=59)
    assert "T3" not in codes(dump_chat(chat))
    run_fold(chat)
    assert "T3" not in codes(dump_chat(chat))


def test_step_back_restores_kept_figures(model: KeepingModel) -> None:
    chat = folded_chat(model)
    retained = {"kept": [], "lost": [], "share": 0.4}
    SummaryRevision.objects.filter(chat=chat, version=2).update(retained=retained)
    forget(chat, 15)
    assert brief_of(chat).kept_percent == 40
    forget(chat, 1)
    assert brief_of(chat).kept_percent is None


# After the memory was cleared


def cleared(model: KeepingModel) -> Chat:
    """A chat whose summary held T1 to T27, was cleared, and has held some of T28 to T50 since."""
    chat = long_folded_chat(model)
    clear(chat, None)
    add_turns(chat, [turn(number) for number in range(31, 51)])
    run_fold(chat)
    return chat


def memory_codes(chat: Chat) -> set[str]:
    """The codes in the memory in use: its text and its state."""
    brief = brief_of(chat)
    return set(codes(brief.global_summary + json.dumps(brief.state)))


@pytest.mark.parametrize("act", first_of([forget, partial(edit, content="T77 instead")]))
@pytest.mark.parametrize("seq", first_of([54, 57, 1, 19]))
def test_cleared_memory_does_not_return(model: KeepingModel, seq: int, act: Callable[[Chat, int], None]) -> None:
    chat = cleared(model)
    assert memory_codes(chat)
    before, gone = memory_codes(chat), {f"T{number}" for number in range(1, 28)}
    act(chat, seq)
    act(chat, seq)  # a second time, on the result of the first
    act(chat, max(1, seq - 8))
    assert not memory_codes(chat) & gone
    run_fold(chat)
    assert not memory_codes(chat) & gone
    assert memory_codes(chat) >= before - {f"T{(seq + 1) // 2}"}


def test_clear_version_has_no_forgotten_text(model: KeepingModel) -> None:
    chat = cleared(model)
    assert any("T10" in row.retained.get("lost", []) for row in revisions(chat) if not row.tokens_after)
    forget(chat, 19)
    forget(chat, 20)
    assert "T10" not in codes(dump_chat(chat))


def test_forgetting_right_after_clearing_leaves_it_cleared(model: KeepingModel) -> None:
    chat = long_folded_chat(model)
    brief = clear(chat, None)
    forget(chat, 19)
    after = brief_of(chat)
    assert (after.version, after.head, after.global_summary) == (brief.version, brief.head, "")
    assert after.folded_through_seq == brief.folded_through_seq
    assert restore(chat, 2).global_summary  # it had not seen the message


@pytest.mark.parametrize("how", first_of(["restored", "rebuilt"]))
def test_a_clearing_that_was_undone_clears_nothing(model: KeepingModel, how: str) -> None:
    chat = long_folded_chat(model)
    before = brief_of(chat)
    clear(chat, None)
    if how == "restored":
        restore(chat, before.head)
    else:
        note_request(chat, "rebuild")
        run_fold(chat)
    assert "T1" in memory_codes(chat)
    forget(chat, 39)
    forget(chat, 40)
    assert "T1" in memory_codes(chat)
    run_fold(chat)
    assert {"T1", "T19", "T21"} <= memory_codes(chat)
    assert "T20" not in memory_codes(chat)


# Races


@pytest.mark.django_db(transaction=True)
def test_forgetting_while_others_forget_fold_and_ask(model: KeepingModel) -> None:
    chat = long_folded_chat(model)
    forgets = [partial(forget, chat, seq) for seq in (7, 8, 31, 32, 59)]
    together(*forgets, partial(run_fold, chat), partial(note_request, chat, "update"))
    run_fold(chat)
    run_fold(chat)
    left = set(codes(dump_chat(chat)))
    assert {"T4", "T16"} & left == set()
    assert left >= {f"T{number}" for number in range(1, 31) if number not in (4, 16)}
