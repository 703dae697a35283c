"""The tokens that an upstream bills for each token we count: measured from replies, and used for reservations."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.contrib.auth.models import User

from chatmemory.llm.protocol import Reply, Usage
from conversations.models import ActiveReply, Chat
from conversations.replies import begin, finish
from memory.models import UsageDay
from memory.usage import daily
from memory.usage.daily import LEAST_TOKENS, RATIO_DAYS, measured
from tests.support.factories import make_chat

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def nothing_read() -> Iterator[None]:
    daily._read.clear()
    yield
    daily._read.clear()


def day(
    back: int = 0, counted: int = LEAST_TOKENS, billed: int = LEAST_TOKENS, variant: str = "arco"
) -> None:
    when = daily.today() - timedelta(days=back)
    UsageDay.objects.create(day=when, model_variant=variant, counted_tokens=counted, counted_billed=billed)


def say(chat: Chat, text: str, billed: int) -> None:
    request = begin.TurnRequest(message=text, variant=django_settings.MODEL_VARIANTS["arco"])
    begun = begin.begin_turn(chat.owner, request, chat_id=chat.pk)
    assert isinstance(begun, begin.BegunTurn)
    finish.finish(
        begun.pending, "Yes.", finish.Ending.of(Reply("complete", None, Usage(billed, 0, 2), "gpt-x", ""))
    )


def test_it_is_measured_over_the_last_days() -> None:
    day(0, counted=30_000, billed=33_000)
    day(RATIO_DAYS - 1, counted=10_000, billed=15_000)
    day(RATIO_DAYS, counted=10**6, billed=1)
    day(0, variant="other", billed=10**6)
    assert measured("arco") == pytest.approx(1.2)


@pytest.mark.parametrize(
    ("counted", "billed", "ratio"),
    [(LEAST_TOKENS - 1, 10**6, 1.0), (LEAST_TOKENS, 10**9, 2.0), (LEAST_TOKENS, 0, 0.5), (0, 0, 1.0)],
)
def test_too_little_says_nothing_and_nothing_is_believed_of_what_cannot_be(
    counted: int, billed: int, ratio: float
) -> None:
    day(0, counted, billed)
    assert measured("arco") == ratio


def test_replies_are_counted_with_both_counts(settings: Any) -> None:
    chat = make_chat()
    say(chat, "How are you?", 77)
    daily.count_replies(5)
    row = UsageDay.objects.get()
    record = chat.messages.get(seq=2).context_record
    assert row.counted_billed == 77
    assert row.counted_tokens == sum(section["tokens"] for section in record.sections) > 0


def test_a_reservation_is_corrected_by_it(settings: Any) -> None:
    settings.RATE_LIMITS = True
    reserved = {}
    for ratio in (1.0, 1.5):
        User.objects.all().delete()
        UsageDay.objects.all().delete()
        daily._read.clear()
        day(0, billed=round(LEAST_TOKENS * ratio))
        chat = make_chat()
        request = begin.TurnRequest(message="word " * 1000, variant=django_settings.MODEL_VARIANTS["arco"])
        begun = begin.begin_turn(chat.owner, request, chat_id=chat.pk)
        assert isinstance(begun, begin.BegunTurn)
        prompt = begun.pending.context.prompt_tokens
        reserved[ratio] = ActiveReply.objects.get().reserved_tokens - round(prompt * ratio)
    assert reserved[1.0] == reserved[1.5] > 0  # the maximum for the answer
