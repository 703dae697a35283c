"""Memory edited by hand: it is used at once, folding goes on from it, and it goes with the messages it came from."""

from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from chatmemory.errors import Conflict
from conversations import message_changes
from conversations.models import Chat, Message
from memory.briefs import history_tokens, unfolded
from memory.context.prompt import PromptRequest
from memory.folding.request import request_resummarize
from memory.models import RevisionKind, SummaryRevision
from memory.policies.state_parts import BadEdit
from memory.revisions.by_hand import StaleEdit, clear, edit_by_hand, editable_parts, restore
from memory.turn import prompt_for
from tests.support.factories import add_turns, brief_of, make_user
from tests.support.fakes.scripted import KeepingModel
from tests.support.folds import asked_codes, chat_of, folded_chat, revisions, run_fold, together, turn

pytestmark = [pytest.mark.usefixtures("sound"), pytest.mark.postgres]

HERON = "T1 to T9, and a heron in the reeds."


def write(chat: Chat, text: str = HERON, **fields: Any) -> int:
    """Edit the summary and return the new version."""
    given: dict[str, Any] = {"on_version": brief_of(chat).head, **fields}
    return edit_by_hand(chat, {"summary": text}, make_user(), **given).version


def test_edit_becomes_the_memory_in_use(model: KeepingModel) -> None:
    chat = folded_chat(model)
    before, calls = brief_of(chat), len(model.prompts)
    write(chat)
    third, last = revisions(chat)[-2:]
    assert (last.version, last.parent, last.kind, last.policy) == (4, 3, RevisionKind.MANUAL, third.policy)
    assert (last.from_seq, last.through_seq, last.seen_seq, last.turns) == (19, 18, third.seen_seq, 0)
    assert (last.tokens_before, last.model, last.source_hash) == (before.token_count, "", "")
    assert last.cost_usd == 0
    assert last.created_by == make_user()
    brief = brief_of(chat)
    assert (brief.version, brief.head, brief.epoch) == (4, 4, before.epoch + 1)
    assert (brief.folded_through_seq, unfolded(brief).turns) == (18, 3)
    assert brief.token_count == last.tokens_after
    assert brief.folded_tokens == last.folded_tokens == before.folded_tokens
    assert history_tokens(brief) == history_tokens(before)
    prompt = prompt_for(brief.chat, PromptRequest("Where?"), chat.last_seq + 1).prompt
    assert any(HERON in message.content for message in prompt.messages)
    assert len(model.prompts) == calls, "nobody was asked"


def test_folding_goes_on_from_it(model: KeepingModel) -> None:
    chat = folded_chat(model)
    write(chat)
    calls = len(model.prompts)
    add_turns(chat, [turn(number) for number in range(13, 16)])
    request_resummarize(chat, "update")
    assert run_fold(chat).outcome == "done"
    assert asked_codes(model)[calls:] == [["T10", "T11", "T12"]]
    assert HERON in "".join(message.content for message in model.prompts[-1].messages)
    assert [row.parent for row in revisions(chat)] == [None, 1, 2, 3, 4]


def test_edit_is_dropped_with_a_forgotten_message(model: KeepingModel) -> None:
    chat = folded_chat(model)
    write(chat, "T1 to T9; the secret of T4 is Reiherhorst-4711.")
    question = Message.objects.get(chat=chat, seq=7)
    message_changes.forget_message(chat.key, question.pk)
    manual = SummaryRevision.objects.get(chat=chat, kind=RevisionKind.MANUAL)
    assert (manual.global_summary, manual.state, manual.retained["kept"]) == ("", {}, [])
    assert manual.forgotten_at is not None
    assert "4711" not in str([vars(row) for row in revisions(chat)]) + str(vars(brief_of(chat)))
    with pytest.raises(Conflict, match=r"The texts of version \d were deleted"):
        restore(chat, manual.version)
    assert editable_parts(brief_of(chat))


def test_edit_beyond_limits_is_refused(model: KeepingModel) -> None:
    chat = folded_chat(model)
    before = brief_of(chat).global_summary
    for text, why in (
        ("heron " * 501, "The summary has 1,002 tokens; the limit is 500"),
        (" \n\x00 \u200b ", "This would leave the memory empty"),
    ):
        with pytest.raises(BadEdit, match=why):
            write(chat, text)
    with pytest.raises(Conflict, match="Nothing was changed"):
        write(chat, before)
    assert (brief_of(chat).global_summary, brief_of(chat).version) == (before, 3)


def test_without_memory_there_is_nothing_to_edit(model: KeepingModel) -> None:
    with pytest.raises(Conflict, match="There is no summary to edit"):
        editable_parts(brief_of(chat_of(1)))


def test_edit_keeps_figures_of_version_in_use(model: KeepingModel) -> None:
    """It is stored in the brief, and lists of chats are filtered by it."""
    assert brief_of(chat_of(2)).kept_percent is None
    chat = folded_chat(model)
    assert brief_of(chat).kept_percent == 100
    write(chat, "T1 alone.")
    little = brief_of(chat).kept_percent
    assert little in range(50)
    assert restore(chat, 2).kept_percent == 100
    assert restore(chat, 4).kept_percent == little
    assert clear(chat, None).kept_percent is None


@pytest.mark.django_db(transaction=True)
def test_edits_at_once_succeed_once(model: KeepingModel) -> None:
    chat = folded_chat(model)
    add_turns(chat, [turn(number) for number in range(13, 19)])
    told: list[str] = []

    def edits(text: str) -> None:
        try:
            write(chat, text, on_version=3)
        except StaleEdit as stale:
            told.append(stale.message)

    def restores() -> None:
        with suppress(Conflict):
            restore(chat, 1)

    together(partial(edits, "One heron."), partial(edits, "Two herons."), partial(run_fold, chat), restores)
    manual = [row for row in revisions(chat) if row.kind == RevisionKind.MANUAL]
    assert len(manual) <= 1
    assert len(told) == 2 - len(manual)
    assert all("another version is current" in one for one in told)
