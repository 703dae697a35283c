"""The figures of each day: sums over the tables, each reply counted once, despite races, crashes and deletions."""

import random
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.db.models import QuerySet, Sum

from chatmemory.errors import Conflict
from chatmemory.llm.protocol import Price, Reply, ReplyError, Usage
from chatmemory.text.tokens import MESSAGE_OVERHEAD
from conversations import chat_lifecycle
from conversations.account_deletion import erase, request_erasure
from conversations.accounts.end_users import app_id_of, create_app, create_end_user
from conversations.message_changes import edit_message, forget_message
from conversations.models import Chat, Message, Role, Status
from conversations.replies import begin, finish
from conversations.replies.reply import BegunTurn, Ending, TurnRequest
from memory.folding.request import request_resummarize
from memory.models import (
    CardOutcome,
    ContextRecord,
    FoldDay,
    OwnerMonth,
    RevisionKind,
    SummaryRevision,
    UsageDay,
)
from memory.revisions.by_hand import restore
from memory.usage import daily
from memory.worker.sweep import sweep
from tests.support.exhaustive import first_of
from tests.support.factories import add_turns, make_chat, make_user
from tests.support.fakes.scripted import KeepingModel
from tests.support.folds import Killed, chat_of, fail_until_given_up, revisions, run_fold, together, turn

pytestmark = [pytest.mark.django_db, pytest.mark.postgres]

PRICE = Price(Decimal("1.25"), Decimal("0.125"), Decimal(10))
SUMS = [field.name for field in UsageDay._meta.fields if field.name not in ("id", "day", "model_variant")]
ENDS = {
    "complete": Reply("complete", None, Usage(900, 300, 40), "gpt-x", ""),
    "untold": Reply("complete", None, None, "gpt-x", ""),
    "incomplete": Reply("incomplete", None, Usage(700, 0, 9), "gpt-x", ""),
    "failed": Reply("failed", ReplyError("upstream_error", "It failed."), None, "gpt-x", ""),
    "failed, billed": Reply("failed", ReplyError("refused", "No."), Usage(500, 0, 1), "gpt-x", ""),
    "built in": Reply("complete", None, Usage(800, 0, 30), "offline", ""),
}


@pytest.fixture(autouse=True)
def priced(settings: Any) -> None:
    """Give one variant a price and the other none."""
    arco, deep = settings.MODEL_VARIANTS["arco"], settings.MODEL_VARIANTS["deep-dive"]
    settings.MODEL_VARIANTS = {"arco": replace(arco, price=PRICE), "deep-dive": replace(deep, price=None)}


def end(begun: object, ending: str = "complete", text: str = "") -> Message:
    """Finish a reply in one of the ways of `ENDS`, or cancel it."""
    assert isinstance(begun, BegunTurn)
    how = Ending.cancelled() if ending == "cancelled" else Ending.of(ENDS[ending])
    said = "" if how.status == Status.FAILED else text or turn(begun.pending.seq)[1]
    reply = finish.finish(begun.pending, said, how)
    assert reply is not None
    return reply


def say(chat: Chat, ending: str = "complete", variant: str = "arco") -> Message:
    request = TurnRequest(message=turn(chat.pk.int % 97)[0], variant=django_settings.MODEL_VARIANTS[variant])
    return end(begin.begin_turn(chat.owner, request, chat_id=chat.pk), ending)


def say_again(chat: Chat, ending: str = "complete") -> Message:
    """Regenerate the last reply."""
    last = Message.objects.filter(chat=chat).order_by("-seq")[0]
    return end(begin.begin_regeneration(chat.owner, chat.pk, last.pk, None), ending)


def said_before(reply: Message) -> int:
    """The tokens of the chat before the question of `reply`, summed over its messages."""
    assert reply.reply_to is not None
    said = Message.objects.filter(chat=reply.chat_id, seq__lt=reply.reply_to.seq, superseded_by=None)
    said = said.filter(token_count__gt=0).exclude(status__in=[Status.FAILED, Status.DELETED])
    return sum(count + MESSAGE_OVERHEAD for count in said.values_list("token_count", flat=True))


def history_of(reply: Message) -> int | None:
    return ContextRecord.objects.get(pk=reply.pk).history_tokens


def figures() -> dict[tuple[date, str], dict[str, Any]]:
    """All stored figures of replies, by day and variant."""
    return {(row.day, row.model_variant): {name: getattr(row, name) for name in SUMS} for row in UsageDay.objects.all()}


def added_up() -> dict[tuple[date, str], dict[str, Any]]:
    """The same figures, summed over messages and records."""
    found: dict[tuple[date, str], dict[str, Any]] = {}
    for record in ContextRecord.objects.select_related("reply"):
        reply = record.reply
        assert reply.completed_at is not None
        key = reply.completed_at.astimezone(UTC).date(), reply.model_variant
        row = found.setdefault(key, dict.fromkeys(SUMS, 0))
        billed, priced = reply.input_tokens is not None, reply.cost_usd is not None
        compared = reply.status != Status.FAILED and record.history_tokens is not None
        history = record.history_tokens or 0
        saved = max(0, history - record.tokens)
        row["replies"] += 1
        row["failed"] += reply.status == Status.FAILED
        row["billed"] += billed
        is_estimated = not billed and reply.status != Status.FAILED
        counted = sum(section["tokens"] for section in record.sections)
        row["input_tokens"] += counted if is_estimated else reply.input_tokens or 0
        row["cached_tokens"] += reply.cached_tokens or 0
        row["output_tokens"] += reply.token_count if is_estimated else reply.output_tokens or 0
        row["counted_tokens"] += billed * counted
        row["counted_billed"] += reply.input_tokens or 0
        row["priced"] += priced
        row["cost_usd"] += reply.cost_usd or 0
        row["compared"] += compared
        row["history_tokens"] += compared * history
        row["memory_tokens"] += compared * record.tokens
        row["saved_tokens"] += compared * saved
        asked = bool(record.card) and reply.status == Status.COMPLETE
        row["cards"] += asked
        row["cards_kept"] += asked and record.card == CardOutcome.KEPT
    return found


def life(chat: Chat, steps: int, seed: int) -> None:
    """Make random turns of every kind, regenerations, edits, folds and restores, and now and then count replies."""
    dice = random.Random(seed)
    for _ in range(steps):
        act = dice.choice(["say"] * 8 + ["again", "again", "edit", "forget", "fold", "restore", "count"])
        ending = dice.choice([*ENDS, "cancelled", "complete", "complete"])
        written = Message.objects.filter(chat=chat)
        if act == "say" or not written.exists():
            reply = say(chat, ending, dice.choice(["arco", "deep-dive"]))
            assert history_of(reply) == said_before(reply)
        elif act == "again":
            if written.filter(status=Status.DELETED).exists():
                continue  # replies to a forgotten question cannot be regenerated
            reply = say_again(chat, ending)
            assert history_of(reply) == said_before(reply)
        elif act in ("edit", "forget"):
            change(chat, act, dice)
        elif act == "fold":
            request_resummarize(chat, dice.choice(["update", "rebuild"]))
            run_fold(chat)
        elif act == "restore":
            try_restore(chat)
        else:
            daily.count_replies(1)


def change(chat: Chat, act: str, dice: random.Random) -> None:
    """Edit a random message, or forget it if it is a reply."""
    live = Message.objects.filter(chat=chat).exclude(status__in=[Status.FAILED, Status.DELETED])
    message = dice.choice(list(live))
    if act == "edit":
        edit_message(chat, message.pk, turn(dice.randrange(50), dice.randrange(1, 9))[0])
    elif message.role == Role.ASSISTANT:
        forget_message(chat.key, message.pk)


def try_restore(chat: Chat) -> None:
    """Restore the first fold, unless its messages have changed since."""
    first = SummaryRevision.objects.filter(chat=chat, forgotten_at=None, kind=RevisionKind.FOLD).first()
    if first is not None:
        with suppress(Conflict):
            restore(chat, first.version)


@pytest.mark.parametrize("seed", first_of(range(3)))
@pytest.mark.exhaustive
def test_usage_counts_each_reply_once(model: KeepingModel, seed: int, monkeypatch: Any) -> None:
    monkeypatch.setattr(daily, "BATCH", 3)
    for number in range(2):
        life(make_chat(), 40, seed * 10 + number)
    for _ in range(2):
        daily.count_replies(10)
        stored, recounted = figures(), added_up()
        for (
            key,
            row,
        ) in stored.items():  # an estimate stays when a reply is edited or forgotten after it was counted
            assert row.pop("output_tokens") >= recounted[key].pop("output_tokens")
        assert stored == recounted
    assert not ContextRecord.objects.filter(is_counted=False).exists()


def test_the_sweep_counts_on_the_day_of_the_end_in_utc() -> None:
    late = say(make_chat())
    ended = datetime(2026, 3, 1, 23, 59, 59, tzinfo=UTC)
    Message.objects.filter(pk=late.pk).update(completed_at=ended)
    say(make_chat())
    assert [sweep()["replies_counted"] for _ in range(2)] == [2, 0]
    assert sorted(day for day, _ in figures()) == [date(2026, 3, 1), daily.today()]


# Concurrency and crashes


def many_replies(count: int = 30) -> None:
    app = create_app("shop")
    users = [make_user("plain"), *(create_end_user(app, name).user for name in ("ada", "bob"))]
    chats = [make_chat(user, app_id=app_id_of(user)) for user in users]
    for number in range(count):
        say(chats[number % 3], list(ENDS)[number % len(ENDS)], ["arco", "deep-dive"][number % 2])


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("goes", first_of(["nothing", "each chat"]))
def test_sweeps_at_once_count_each_reply_once(monkeypatch: Any, goes: str) -> None:
    monkeypatch.setattr(daily, "BATCH", 4)
    many_replies()
    expected = added_up()
    chats = list(Chat.objects.all()) if goes == "each chat" else []
    together(*[partial(daily.count_replies, 20)] * 3, *[partial(chat_lifecycle.delete_chat, chat) for chat in chats])
    assert figures() == expected
    months = {str(row.owner): row.replies for row in OwnerMonth.objects.select_related("owner")}
    assert months == {"plain": 10, "shop/ada": 10, "shop/bob": 10, "shop": 20}
    assert ContextRecord.objects.exists() is not bool(chats)


@pytest.mark.parametrize("after", ["the first row", "the mark"])
def test_a_crash_leaves_whole_batches(monkeypatch: Any, after: str) -> None:
    monkeypatch.setattr(daily, "BATCH", 4)
    many_replies(12)
    daily.count_replies(-1)  # one batch
    assert UsageDay.objects.values_list("replies", flat=True)
    before, add = figures(), daily._add

    def killed(*args: Any) -> None:
        add(*args)
        raise Killed

    def marked(*args: Any, **kwargs: Any) -> Any:
        raise Killed

    with monkeypatch.context() as broken:
        if after == "the first row":
            broken.setattr(daily, "_add", killed)
        else:
            broken.setattr("django.db.models.query.QuerySet.update", marked)
        with pytest.raises(Killed):
            daily.count_replies(10)
    assert figures() == before
    assert sum(row["replies"] for row in before.values()) == 4
    daily.count_replies(10)
    assert figures() == added_up()


@pytest.mark.parametrize(
    ("card", "ending", "counted"),
    [
        ("", "complete", (0, 0)),
        (CardOutcome.KEPT, "complete", (1, 1)),
        (CardOutcome.MISSING, "complete", (1, 0)),
        (CardOutcome.MISSING, "failed", (0, 0)),
    ],
)
def test_cards_are_counted_of_complete_replies(card: str, ending: str, counted: tuple[int, int]) -> None:
    """A reply that was stopped or failed need not have a card."""
    reply = say(make_chat(policy="card"), ending)
    ContextRecord.objects.filter(pk=reply.pk).update(card=card)
    daily.count_replies(1)
    row = UsageDay.objects.get()
    assert (row.cards, row.cards_kept) == counted


# Folds


def test_folds_are_counted_where_they_are_published(model: KeepingModel) -> None:
    chat = chat_of(12)
    run_fold(chat)
    rows = revisions(chat)
    day = FoldDay.objects.get()
    assert (day.day, day.kind, day.policy) == (daily.today(), RevisionKind.FOLD, "chunked")
    assert (day.folds, day.turns) == (len(rows), sum(row.turns for row in rows))
    assert (day.input_tokens, day.output_tokens) == (
        sum(row.input_tokens for row in rows),
        sum(row.output_tokens for row in rows),
    )
    assert day.share_sum == pytest.approx(sum(row.retained["share"] for row in rows))
    assert (day.degraded, day.failures) == (0, 0)
    request_resummarize(chat, "rebuild")
    run_fold(chat)
    day = FoldDay.objects.get(kind=RevisionKind.REBUILD)
    assert (day.folds, day.turns) == (1, revisions(chat)[-1].turns)


def test_usage_counts_failures_and_built_in_folds(model: KeepingModel) -> None:
    chat = chat_of(12)
    fail_until_given_up(chat, model)
    day = FoldDay.objects.get(kind=RevisionKind.FOLD)
    assert day.failures == 5
    assert day.degraded == day.folds == len(revisions(chat))


# Owners and apps


def test_calls_are_counted_for_owners_and_apps_whose_figures_outlive_their_people(
    model: KeepingModel, monkeypatch: Any
) -> None:
    monkeypatch.setattr(daily, "BATCH", 2)
    app = create_app("shop")
    people = [create_end_user(app, name).user for name in ("ada", "bob")]
    for user in (*people, app.user, make_user()):
        chat = make_chat(user, app_id=app_id_of(user))
        add_turns(chat, [turn(number) for number in range(1, 13)])
        run_fold(chat)
        for ending, variant in (("complete", "arco"), ("complete", "deep-dive"), ("untold", "arco")):
            say(chat, ending, variant)
    daily.count_replies(10)
    assert OwnerMonth.objects.count() == 4
    for row in OwnerMonth.objects.select_related("owner"):
        users = [*people, app.user] if row.owner == app.user else [row.owner]
        days = [day for user in users for day in daily.days_of(user)]
        for name in ("input_tokens", "cached_tokens", "output_tokens"):
            assert getattr(row, name) == sum(day[name] for day in days) > 0
        assert float(row.cost_usd) == pytest.approx(sum(day["cost_usd"] for day in days))
        folds = SummaryRevision.objects.filter(chat__owner__in=users)
        assert (row.replies, row.folds) == (3 * len(users), folds.count())
        assert row.priced == len(users) + folds.exclude(cost_usd=None).count()
        assert (row.app_id, row.month.day) == (app_id_of(row.owner), 1)
    of_app = OwnerMonth.objects.filter(owner=app.pk)
    before = totals(of_app)
    say(Chat.objects.get(owner=people[0]), "untold")
    for person in people:
        request_erasure(person.pk)
        assert erase(person.pk)
    assert OwnerMonth.objects.filter(app=app).count() == 1
    after = totals(of_app)
    for name in ("input_tokens", "output_tokens"):  # of a reply without usage, by our own count
        assert after.pop(name) > before.pop(name)
    assert after == {**before, "replies": before["replies"] + 1}


def totals(rows: QuerySet[Any]) -> dict[str, Any]:
    names = ("replies", "folds", "input_tokens", "cached_tokens", "output_tokens", "priced", "cost_usd")
    return rows.aggregate(**{name: Sum(name) for name in names})
