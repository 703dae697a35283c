"""Folding as a service: every finished turn once and in order, the exact request, and what is stored of the answer."""

import hashlib
import json
import time
from datetime import timedelta
from decimal import Decimal
from typing import Any
from unittest.mock import Mock

import pytest
from django.utils import timezone

from chatmemory.llm import registry
from chatmemory.llm.offline import OfflineModel
from chatmemory.text.tokens import MESSAGE_OVERHEAD
from conversations.models import ActiveReply, Message, Role, Status
from memory.briefs import decide_due, unfolded
from memory.folding.fold import fold
from memory.folding.request import request_resummarize
from memory.models import ConversationBrief, RevisionKind
from memory.policies import POLICIES, protocol
from tests.support.exhaustive import first_of
from tests.support.factories import add_turn, add_turns, brief_of, make_chat
from tests.support.fakes.scripted import KeepingModel
from tests.support.folds import (
    WORDS,
    asked_codes,
    assert_folded,
    assert_sound,
    chat_of,
    revisions,
    run_fold,
    turn,
)

pytestmark = [pytest.mark.django_db, pytest.mark.postgres]

# What is folded


def test_fold_takes_each_turn_before_window_once(model: KeepingModel) -> None:
    chat = chat_of(13)
    report = run_fold(chat)
    assert report.outcome == "done"
    assert not brief_of(chat).due
    flat = [code for call in asked_codes(model) for code in call]
    assert flat == [f"T{number}" for number in range(1, len(flat) + 1)]
    assert len(model.prompts) == report.published > 1
    assert_folded(chat, through=len(flat))


def test_fold_decides_once_a_batch_whether_the_chat_is_due(
    model: KeepingModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat = chat_of(40)
    decided = Mock(wraps=protocol.is_due)
    monkeypatch.setattr(protocol, "is_due", decided)
    assert run_fold(chat).published == decided.call_count > 8


def test_fold_after_memory_is_switched_off_folds_nothing(model: KeepingModel, settings: Any) -> None:
    chat = chat_of(40)
    assert brief_of(chat).due
    settings.MEMORY_ENABLED = False
    assert run_fold(chat).published == 0
    assert not brief_of(chat).due


def test_update_folds_all_outside_the_window_due_or_not(model: KeepingModel) -> None:
    chat = chat_of(5)
    request_resummarize(chat, "update")
    assert run_fold(chat).outcome == "done"
    assert_folded(chat, through=2)
    assert brief_of(chat).requested == ""
    assert run_fold(chat).outcome == "idle"


def test_a_fold_that_is_due_leaves_turns_which_an_update_folds(model: KeepingModel, settings: Any) -> None:
    settings.MEMORY_CHUNK_SUMMARIZE_THRESHOLD = 1000
    settings.MEMORY_FOLD_BITE_TOKENS = 6000
    settings.MEMORY_PROMPT_TOKEN_BUDGET = 3000
    chat = chat_of(40)
    run_fold(chat)
    left = unfolded(brief_of(chat)).turns
    assert 3 < left < 20
    assert_folded(chat, through=40 - left)
    request_resummarize(chat, "update")
    run_fold(chat)
    assert_folded(chat, through=37)


def test_a_giant_turn_is_clipped_for_the_summarizer_and_folded_whole(model: KeepingModel) -> None:
    chat = make_chat()
    add_turns(chat, [(f"T1 {WORDS * 40}", f"T1 {WORDS * 40}"), *(turn(number) for number in range(2, 6))])
    request_resummarize(chat, "update")
    run_fold(chat)
    assert_folded(chat, through=2)
    (_, [(user, assistant)]) = model.inputs[0]
    assert "left out" in user
    assert "left out" in assistant
    first = revisions(chat)[0]
    assert first.turns == 1
    assert first.tokens_before > 1000


def test_a_turn_that_is_being_answered_is_never_folded(model: KeepingModel, settings: Any) -> None:
    settings.MEMORY_K_RAW_TURNS = 1
    chat = chat_of(4)
    last = Message.objects.get(chat=chat, seq=7)
    ActiveReply.objects.create(
        chat=chat,
        message_id="01900000-0000-7000-8000-000000000000",
        user_message=last,
        model_variant="arco",
        model="m",
        lease_owner="me",
        lease_expires_at=timezone.now() + timedelta(minutes=1),
        started_at=timezone.now(),
    )
    request_resummarize(chat, "update")
    run_fold(chat)
    assert_folded(chat, through=2)


def test_a_long_backlog_is_never_loaded_whole(model: KeepingModel, django_assert_max_num_queries: Any) -> None:
    chat = chat_of(600)
    assert brief_of(chat).due
    model.lines = ["a summary"]
    with django_assert_max_num_queries(40) as queries:
        fold(chat.key, until=time.monotonic())
    limits = [query["sql"] for query in queries if '"content"' in query["sql"] and "LIMIT" in query["sql"]]
    assert limits
    brief = brief_of(chat)
    assert brief.version == 1
    exact = brief_of(chat)
    decide_due(exact)
    assert exact.due == brief.due


@pytest.mark.parametrize("policy", first_of(sorted(POLICIES)))
def test_turns_without_visible_text_are_folded_at_once(policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "chat_model", lambda _: OfflineModel())
    chat = make_chat(policy=policy)
    add_turns(chat, [("\x15\x1b", "\x15\x1b")] * 60)
    assert run_fold(chat).error == ""
    brief = brief_of(chat)
    assert (brief.due, brief.attempts, brief.last_error) == (False, 0, None)
    assert_sound(chat)


def is_due_with(brief: ConversationBrief, pin_tokens: int) -> bool:
    """Store `pin_tokens` in the brief, and return whether the chat is due."""
    brief.pin_tokens = pin_tokens
    decide_due(brief)
    brief.save(update_fields=["due", "pin_tokens"])
    return brief.due


def test_a_chat_that_its_pins_make_due_is_folded(model: KeepingModel, settings: Any) -> None:
    """Pins take room from lines."""
    settings.MEMORY_PROMPT_TOKEN_BUDGET = 1000
    settings.MEMORY_CHUNK_SUMMARIZE_THRESHOLD = 100_000
    settings.MEMORY_MIN_FOLD_TOKENS = 100
    settings.MEMORY_FOLD_BITE_TOKENS = 6000
    chat = make_chat()
    for number in range(1, 60):
        add_turn(chat, *turn(number))
        brief = brief_of(chat)
        if not is_due_with(brief, 0) and is_due_with(brief, 100):
            assert run_fold(chat).outcome == "done"
            assert not brief_of(chat).due
            return
    pytest.fail("no length of the chat is due by its pins alone")


@pytest.mark.django_db(transaction=True)
def test_messages_saved_by_the_orm_are_counted_and_folded(model: KeepingModel) -> None:
    """As Django's documentation shows it, in a chat without memory so far."""
    chat = make_chat()
    ConversationBrief.objects.filter(chat=chat).delete()
    for seq in range(1, 43):
        role, tokens = (Role.USER if seq % 2 else Role.ASSISTANT), 200
        fields: dict[str, Any] = {"role": role, "status": Status.COMPLETE, "created_at": timezone.now()}
        Message(chat=chat, seq=seq, content="word " * tokens, token_count=tokens, **fields).save()
        assert seq != 2 or not brief_of(chat).due
    assert brief_of(chat).due
    assert run_fold(chat).published > 0
    assert not brief_of(chat).due
    assert brief_of(chat).folded_through_seq > 0


# What is asked, and what is stored of the answer


def test_a_revision_tells_where_it_came_from(model: KeepingModel, settings: Any) -> None:
    settings.MEMORY_SUMMARIZER_MODEL = "gpt-5-mini"
    chat = make_chat()
    for number in range(1, 6):
        add_turn(chat, f"T{number} question", f"My code is {number}QX7 and T{number}")
    model.lines = ["T1 with 1QX7, T2"]
    request_resummarize(chat, "update")
    run_fold(chat)
    (row,) = revisions(chat)
    assert (row.kind, row.parent, row.policy, row.degraded) == (RevisionKind.FOLD, None, "chunked", False)
    assert (row.from_seq, row.through_seq, row.turns) == (1, 4, 2)
    (prompt,) = model.prompts
    assert ([message.role for message in prompt.messages], prompt.cache_key) == (["user"], str(chat.pk))
    assert 0 < model.timeouts[0] <= settings.SUMMARIZER_TOTAL_SECONDS
    tokens = Message.objects.filter(chat=chat, seq__lte=4).values_list("token_count", flat=True)
    assert row.tokens_before == sum(tokens) + 4 * MESSAGE_OVERHEAD
    assert row.tokens_after == brief_of(chat).token_count > 0
    assert row.cost_usd == (row.input_tokens * Decimal("0.25") + row.output_tokens * 2) / 1_000_000
    assert row.model == "scripted"
    assert len(row.prompt_hash) == 16
    chain = ""
    for texts in ("T1 question", "My code is 1QX7 and T1"), ("T2 question", "My code is 2QX7 and T2"):
        chain = hashlib.sha256(json.dumps([chain, *texts]).encode()).hexdigest()
    assert row.source_hash == chain
    assert "1QX7" in row.retained["kept"]
    assert "2QX7" in row.retained["lost"]
    assert 0 < row.retained["share"] < 1
