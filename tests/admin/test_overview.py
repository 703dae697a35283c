"""The overview: who sees which parts, what it says, and that its cost does not depend on the amount of data."""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone
from django_q.models import OrmQ, Schedule

from conversations.models import Chat
from memory import queue
from memory.admin.overview import workload
from memory.admin.overview.charts import MOST_SERIES, OTHERS, charts_of
from memory.admin.overview.totals import lines_of, totals_of
from memory.models import ConversationBrief, FoldDay, UsageDay, Worker
from memory.usage import daily
from tests.admin.rows import begin, make_chat, member_of_staff, say

pytestmark = pytest.mark.django_db

OVERVIEW = "/admin/"


def page(client: Client, **query: Any) -> str:
    response = client.get(OVERVIEW, query)
    assert response.status_code == 200
    return response.content.decode()


def facts(client: Client) -> dict[str, str]:
    """Return the figures at the head of the page, by name."""
    found = re.findall(r"<dt>(.*?)</dt><dd.*?>(?:<a [^>]*>)?(.*?)(?:</a>)?</dd>", page(client))
    return dict(found)


def add_day(back: int = 0, variant: str = "arco", **sums: Any) -> UsageDay:
    told = {
        "replies": 10,
        "billed": 10,
        "priced": 10,
        "compared": 10,
        "input_tokens": 20_000,
        "output_tokens": 1_000,
        "cost_usd": Decimal("0.5"),
        "history_tokens": 90_000,
        "memory_tokens": 18_000,
        "saved_tokens": 72_000,
        "saved_usd": Decimal("0.75"),
    }
    day = daily.today() - timedelta(days=back)
    return UsageDay.objects.create(day=day, model_variant=variant, **(told | sums))


def add_folds(back: int = 0, **sums: Any) -> FoldDay:
    told = {"folds": 4, "duration_ms": 10_000, "share_sum": 3.0, "input_tokens": 5000, "output_tokens": 400}
    day = daily.today() - timedelta(days=back)
    return FoldDay.objects.create(day=day, kind="fold", policy="chunked", **(told | sums))


def failing_chat(owner: User, minutes: int, **fields: Any) -> Chat:
    chat = make_chat(owner)
    told = {
        "due": True,
        "attempts": 3,
        "next_attempt_at": timezone.now() + timedelta(minutes=minutes),
        "last_error": {"code": "upstream_timeout", "message": "Said aloud: hall"},
    }
    ConversationBrief.objects.filter(chat=chat).update(**(told | fields))
    return chat


# Who sees it


def test_it_is_for_staff_who_may_see_memory(owner: User) -> None:
    assert Client().get(OVERVIEW).status_code == 302
    stranger = Client()
    stranger.force_login(owner)
    assert stranger.get(OVERVIEW).status_code == 302
    assert "Needs attention" not in page(member_of_staff("sam", "view_chat"))  # a list of what may be seen
    viewer = member_of_staff("vera", "view_conversationbrief")
    assert viewer.get(OVERVIEW).status_code == 200
    assert viewer.post(OVERVIEW).status_code == 405
    assert reverse("admin-overview") == OVERVIEW


def test_money_is_for_those_who_may_see_cost() -> None:
    add_day()
    add_folds(cost_usd=Decimal("0.25"))
    without = page(member_of_staff("vera", "view_conversationbrief"))
    assert "USD" not in without
    assert "0.75" not in without
    assert not re.search(r"\bcost\b", without.split("How this is calculated")[0], re.IGNORECASE)
    whole = page(member_of_staff("carl", "view_conversationbrief", "view_cost"))
    assert "$0.7500" in whole  # replies and folds
    assert "Or $0.7500. Sending whole chats would have taken 5.0 times" in whole
    assert 'data-chart="cost"' in whole


def test_no_text_of_anybody_is_on_it(staff: Client, owner: User) -> None:
    failing_chat(owner, 3)
    assert "The model did not answer in time." in page(staff)
    assert "hall" not in page(staff)


# Current figures


def test_an_empty_server_says_so(staff: Client) -> None:
    assert "No replies yet" in page(staff)
    told = facts(staff)
    assert told["Updating or queued"] == "0"
    assert told["Worker online"].startswith("No worker has answered yet")
    assert (told["Last heartbeat"], told["Tasks in the queue"]) == ("never", "0")


def test_what_waits_is_counted(staff: Client, owner: User) -> None:
    failing_chat(owner, 3)
    failing_chat(owner, -3, degraded=True, requested="rebuild")
    failing_chat(owner, -1, due=False, attempts=0, last_error=None, requested="update")
    make_chat(owner)  # no pending work
    told = facts(staff)
    assert (told["Failing"], told["Made by the built-in summarizer"]) == ("2", "1")
    assert (told["Updating or queued"], told["Rebuilding or queued"]) == ("1", "0")


def test_chats_that_fail_lead_to_their_briefs_the_latest_first(staff: Client, owner: User) -> None:
    chats = [failing_chat(owner, minutes) for minutes in range(1, 24)]
    linked = re.findall(r"conversationbrief/([0-9a-f-]{36})/change", page(staff))
    newest = [str(chat.pk) for chat in reversed(chats)]
    assert linked == newest[: workload.FAILING_SHOWN]


def test_of_very_many_it_says_so_many_or_more(staff: Client, owner: User, monkeypatch: Any) -> None:
    monkeypatch.setattr(workload, "MAX_COUNTED", 5)
    for minutes in range(7):
        failing_chat(owner, minutes + 1)
    assert facts(staff)["Failing"] == "5 or more"


def test_replies_being_written_and_not_counted_yet(staff: Client, owner: User) -> None:
    chat = make_chat(owner)
    say(chat, "Where do we sleep?", "At the hostel.")
    begin(chat, "And eat?", "k")
    told = facts(staff)
    assert told["Replies being written"] == "1"
    assert told["Replies not yet counted"] == "1"
    daily.count_replies(1)
    assert facts(staff)["Replies not yet counted"] == "0"


def test_the_queue_and_the_worker(staff: Client) -> None:
    OrmQ.objects.all().delete()
    queue.enqueue_sweep()
    OrmQ.objects.update(lock=timezone.now() - timedelta(minutes=4))
    queue.enqueue_sweep()
    now = timezone.now()
    Worker.objects.create(name="w", seen_at=now - timedelta(seconds=2))
    told = facts(staff)
    assert (told["Tasks in the queue"], told["Oldest task"]) == ("2", "waiting for 4 min")
    assert told["Worker online"] == "yes"
    assert re.fullmatch(r"\d s ago", told["Last heartbeat"])
    assert told["Sweep"] == "on schedule"
    Schedule.objects.update(next_run=now - timedelta(minutes=3))
    assert facts(staff)["Sweep"] == "overdue"


# Daily figures


def test_sums_and_tables_hold_the_figures(staff: Client) -> None:
    add_day(replies=12, failed=2)
    add_day(back=1)
    add_day(back=29, variant="deep-dive")
    add_day(back=30)  # outside these thirty days
    add_folds(failures=1)
    text = page(staff)
    assert '<p class="cm-figure">32</p><p class="cm-told">2 of them failed.</p>' in text
    assert "216k tokens</p>" in text
    assert "Or $2.25." in text
    assert "5.0 times" in text
    kept = "75% of names, numbers and dates kept in summaries; everything can still be found by recall."
    assert f"2.5 s each. {kept} 1 failed attempts" in text
    assert text.count('data-value="21000.0"') == 3
    assert page(staff, days=7).count('data-value="21000.0"') == 2
    assert page(staff, days=90).count('data-value="21000.0"') == 4


def test_net_is_what_was_saved_less_what_it_took(staff: Client) -> None:
    assert "Net:" not in page(staff)
    add_day()
    add_folds(cost_usd=Decimal("0.25"))
    said = "Net: memory saved 72.0k tokens and summary updates took 5,400: "
    said += "66.6k tokens less than sending whole chats."
    assert f"{said} In money: $0.7500 saved, $0.2500 spent: $0.5000 less." in page(staff)
    without = page(member_of_staff("vera", "view_conversationbrief"))
    assert f"{said}</p>" in without
    add_folds(back=1, input_tokens=100_000)
    assert "33.8k tokens more than sending whole chats." in page(staff)
    assert "Short chats take more to summarize than they save" in page(staff)


def test_good_cards_are_shown_where_cards_are_in_use_and_bad_ones_need_attention(staff: Client) -> None:
    add_day()
    assert "good card" not in page(staff)
    add_day(back=1, cards=100, cards_kept=96)
    text = page(staff)
    assert '<h3>Replies with a good card</h3><p class="cm-figure">96.0%</p>' in text
    assert "96 of 100 replies brought a memory card that could be used. At least 95% is good." in text
    assert 'data-chart="cards"' in text
    assert '<th scope="col" class="cm-number">least, 95%</th>' in text
    assert '<td class="cm-number" data-value="96.0">96.0</td><td class="cm-number" data-value="95.0">' in text
    assert "without a usable memory card" not in text
    add_day(back=2, cards=100, cards_kept=93)
    text = page(staff)
    assert "Replies without a usable memory card: 5.5% of these days, over the 5% that are tolerable" in text
    assert "as_tool" in text


@pytest.mark.parametrize("days", ["", "8", "-1", "x", "30 OR 1=1", "9" * 400])
def test_any_other_period_is_thirty_days(staff: Client, days: str) -> None:
    assert "The last 30 days" in page(staff, days=days)


def test_a_price_that_is_not_known_is_not_zero(staff: Client) -> None:
    add_day(priced=0, cost_usd=0, saved_usd=0)
    text = page(staff)
    assert "10 replies have no known price." in text
    assert "not known" in text


def test_more_variants_than_can_be_told_apart_are_put_together() -> None:
    rows = [row for number in range(9) for row in [_row(add_day(variant=f"v{number}", input_tokens=number))]]
    chart = charts_of([daily.today()], rows, [], cost=False)[0]
    assert len(chart.columns) == MOST_SERIES
    assert chart.columns[-1] == OTHERS
    shown = sum(cell.value or 0 for _, cells in chart.rows for cell in cells)
    assert shown == totals_of(rows, []).tokens == 9 * 1000 + sum(range(9))
    assert len(lines_of(rows, [])) == 9


def _row(row: UsageDay) -> dict[str, Any]:
    return UsageDay.objects.filter(pk=row.pk).values()[0]  # type: ignore[return-value]  # a row as values


# What it costs


def test_its_queries_are_the_same_however_much_there_is(staff: Client, owner: User) -> None:
    def asked() -> list[str]:
        with CaptureQueriesContext(connection) as captured:
            page(staff, days=90)
        return [query["sql"] for query in captured.captured_queries]

    failing_chat(owner, 1)
    add_day()
    few = asked()
    for number in range(10):
        failing_chat(owner, number)
    for back in range(1, 90):
        add_day(back)
        add_folds(back)
    many = asked()
    assert len(few) == len(many) <= 20
    assert not [sql for sql in many if "conversations_message" in sql]
