"""Limits on a user's use of the models: a call over a limit is refused, and an unused reservation is given back."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any
from uuid import UUID

import httpx
import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.db.models.functions import Now
from django.utils import timezone

from conversations import chat_lifecycle
from conversations.accounts import quotas, sign_in_limits
from conversations.accounts.models import Allowance, PassingCall, Window
from conversations.models import ActiveReply, Chat, IdempotencyKey, Message
from conversations.replies import begin as services
from conversations.replies.reply import BegunTurn, TurnRequest
from memory.worker.sweep import sweep
from tests.api.talking import begin_reply, error, final, hold_replies, open_stream
from tests.support.exhaustive import first_row_of
from tests.support.factories import add_turns, make_chat
from tests.support.fakes.upstream import FakeUpstream, Lane
from tests.support.folds import run_fold
from tests.support.live_server import Client, LiveServer
from tests.support.waiting import wait_for

pytestmark = pytest.mark.postgres

FIRST = {"message": "Hello", "stream": False}
TALK = [{"role": "user", "content": "Hello"}]
Call = Callable[[Client], httpx.Response]
Limit = Callable[..., None]


def first(client: Client) -> Any:
    return client.post("message/first", json=FIRST)


def ask(client: Client) -> Any:
    return client.post("ask", json={"messages": TALK, "stream": False})


def summarize(client: Client) -> Any:
    return client.post("summarize", json={"messages": TALK})


CALLS = [first, ask, summarize]
OF_A_USER = ("requests_per_minute", "tokens_per_day", "streams", "resummarize_per_hour")


@pytest.fixture
def limit(settings: Any) -> Limit:
    """Return a function that sets limits of a user; any limit not named is off."""

    def to(**numbers: int) -> None:
        for name in {*OF_A_USER, *numbers}:
            setattr(settings, f"LIMIT_{name.upper()}", numbers.get(name, 0))

    return to


@pytest.fixture(autouse=True)
def all_is_settled(check_invariants: None) -> Iterator[None]:
    """Wait until finished calls are settled, before the allowances are checked."""
    yield
    wait_for(lambda: not PassingCall.objects.exists())


def allowance(name: str = "alice") -> Allowance:
    return Allowance.objects.get(user__username=name)


# Calls a minute


@pytest.mark.parametrize(
    ("method", "path", "body"),
    first_row_of(
        [
            ("PATCH", "chats/{chat}", {"metadata": {"a": "b"}}),
            ("PATCH", "chats/{chat}/messages/{message}", {"content": "Bye"}),
            ("POST", "chats", {}),
            ("POST", "search", {"q": "Hello"}),
        ]
    ),
)
def test_calls_a_minute_that_ask_no_model(
    alice: Client, bob: Client, upstream: FakeUpstream, limit: Limit, method: str, path: str, body: Any
) -> None:
    turn = begin_reply(alice)
    final(alice, turn)
    limit(writes_per_minute=2)
    where = path.format(chat=turn.chat, message=turn.question)
    assert [alice.http.request(method, f"/v1/{where}", json=body).status_code < 300 for _ in range(2)] == [True] * 2
    refused = alice.http.request(method, f"/v1/{where}", json=body)
    assert error(refused, 429, "rate_limited")["details"] == {"limit": "writes", "allowed": 2}
    assert 1 <= int(refused.headers["retry-after"]) <= 60
    assert bob.post("chats", json={}).status_code == 201, "it is each user's own"
    assert [first(alice).status_code, alice.get("chats").status_code] == [200, 200]
    Window.objects.update(since=Now() - timedelta(seconds=60))
    assert alice.http.request(method, f"/v1/{where}", json=body).status_code < 300


@pytest.mark.parametrize("call", CALLS)
def test_requests_a_minute(alice: Client, bob: Client, upstream: FakeUpstream, limit: Limit, call: Call) -> None:
    limit(requests_per_minute=2)
    assert [call(alice).status_code for _ in range(2)] == [200, 200]
    refused = call(alice)
    assert error(refused, 429, "rate_limited")["details"] == {"limit": "requests_per_minute", "allowed": 2}
    assert 1 <= int(refused.headers["retry-after"]) <= 60
    assert call(bob).status_code == 200, "it is each user's own"
    assert len(upstream.requests) == 3
    Allowance.objects.update(minute=Now() - timedelta(seconds=60))
    assert call(alice).status_code == 200
    assert allowance().minute_requests == 1


def test_limit_with_future_time_lets_requests_in(alice: Client, upstream: FakeUpstream, limit: Limit) -> None:
    limit(requests_per_minute=9)
    assert first(alice).status_code == 200
    Allowance.objects.update(minute=Now())  # with fewer digits on SQLite than Django writes
    assert [call(alice).status_code for call in CALLS] == [200, 200, 200]
    assert allowance().minute_requests == 4


def test_a_refused_turn_stores_nothing(alice: Client, upstream: FakeUpstream, limit: Limit) -> None:
    limit(tokens_per_day=10)
    for body in (FIRST, {"message": "Hello"}):
        error(alice.post("message/first", json=body, headers={"Idempotency-Key": "k"}), 429, "quota_exceeded")
    for model in (Chat, Message, ActiveReply, IdempotencyKey, Allowance):
        assert not model._default_manager.exists()
    limit()
    chat = alice.ask("Hello")["chat_id"]
    before = list(Message.objects.order_by("seq").values())
    limit(tokens_per_day=10)
    last = before[-1]["id"]
    for path in (f"chats/{chat}/messages", f"chats/{chat}/messages/{last}/regenerate"):
        body = {"message": "And?"} if path.endswith("messages") else {}
        error(alice.post(path, json=body, headers={"Idempotency-Key": "k"}), 429, "quota_exceeded")
    assert list(Message.objects.order_by("seq").values()) == before
    assert not ActiveReply.objects.exists()
    assert not IdempotencyKey.objects.exists()
    assert len(upstream.requests) == 1


def test_idempotent_retry_costs_nothing(alice: Client, upstream: FakeUpstream, limit: Limit) -> None:
    limit(requests_per_minute=1, tokens_per_day=5000)
    key = {"Idempotency-Key": "once"}
    made = alice.post("message/first", json=FIRST, headers=key).json()
    spent = allowance().day_tokens
    for _ in range(3):
        assert alice.post("message/first", json=FIRST, headers=key).json() == made
    error(first(alice), 429, "rate_limited")
    error(alice.post("message/first", json={"message": "other"}, headers=key), 422, "idempotency_mismatch")
    assert (allowance().day_tokens, allowance().minute_requests) == (spent, 1)
    assert len(upstream.requests) == 1


def test_busy_chat_takes_no_allowance(alice: Client, upstream: FakeUpstream, limit: Limit) -> None:
    limit(requests_per_minute=2)
    hold_replies(upstream)
    turn = begin_reply(alice)
    for _ in range(5):
        error(alice.post("message", json={"message": "x", "chat_id": turn.chat}), 409, "chat_busy")
    upstream.release()
    final(alice, turn)
    assert allowance().minute_requests == 1
    alice.ask("now", turn.chat)
    error(alice.post("message", json={"message": "x", "chat_id": turn.chat}), 429, "rate_limited")


def test_a_large_body_for_a_chat_that_does_not_exist_is_counted(
    alice: Client, upstream: FakeUpstream, limit: Limit
) -> None:
    limit(requests_per_minute=1)
    sources = [{"text": "x" * 200_000}] * 6
    body = {"message": "Hello", "chat_id": str(UUID(int=1)), "sources": sources}
    error(alice.post("message", json=body), 404, "not_found")
    error(alice.post("message", json=body), 429, "rate_limited")


# Tokens a day


def test_daily_tokens_equal_upstream_usage(alice: Client, upstream: FakeUpstream, limit: Limit) -> None:
    limit(tokens_per_day=100_000)
    spent = 0
    for call in CALLS:
        body = call(alice).json()
        usage = body["usage"] if call is summarize else body["message"]["usage"]
        spent += usage["input_tokens"] + usage["output_tokens"]
        assert (allowance().day_tokens, allowance().day_reserved) == (spent, 0)


@pytest.mark.parametrize("call", CALLS)
def test_tokens_are_reserved_before_the_upstream_is_asked(
    alice: Client, upstream: FakeUpstream, limit: Limit, call: Call
) -> None:
    limit(tokens_per_day=2500)
    lane: Lane = "complete" if call is summarize else "stream"
    upstream.hold(lane)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(call, alice)
        wait_for(lambda: upstream.held(lane))
        assert 2000 < allowance().day_reserved < 2500
        assert allowance().day_tokens == 0
        refused = call(alice)
        error(refused, 429, "quota_exceeded")
        assert int(refused.headers["retry-after"]) <= 60, "what is reserved may come back"
        assert len(upstream.requests) == 1
        upstream.release(lane)
        assert waiting.result().status_code == 200
    assert allowance().day_reserved == 0
    limit(tokens_per_day=allowance().day_tokens + 2500)
    assert call(alice).status_code == 200


def test_variant_output_limit_is_reserved(alice: Client, upstream: FakeUpstream, limit: Limit, settings: Any) -> None:
    limit(tokens_per_day=500)
    error(first(alice), 429, "quota_exceeded")
    variant = services.default_variant()
    short = type(variant)(variant.name, variant.model, max_output_tokens=100)
    settings.MODEL_VARIANTS = {variant.name: short}
    assert first(alice).status_code == 200


def test_a_reply_over_midnight_counts_for_the_day_it_began(alice: Client, upstream: FakeUpstream, limit: Limit) -> None:
    limit(tokens_per_day=100_000)
    hold_replies(upstream)
    turn = begin_reply(alice)
    # As if after another call on the next day.
    tomorrow = timezone.now().date() + timedelta(days=1)
    Allowance.objects.update(day=tomorrow, day_tokens=300, day_reserved=0)
    upstream.release()
    final(alice, turn)
    assert (allowance().day_tokens, allowance().day_reserved, allowance().open_streams) == (300, 0, 0)


# Streams


def test_answers_at_the_same_time(alice: Client, upstream: FakeUpstream, limit: Limit) -> None:
    limit(streams=2)
    hold_replies(upstream)
    turns = [begin_reply(alice), begin_reply(alice)]
    for call in (first, ask):
        refused = call(alice)
        assert error(refused, 429, "rate_limited")["details"] == {"limit": "streams", "allowed": 2}
        assert int(refused.headers["retry-after"]) <= 5
    assert len(upstream.requests) == 2
    upstream.release()
    for turn in turns:
        final(alice, turn)
    assert first(alice).status_code == 200
    assert ask(alice).status_code == 200


@pytest.mark.parametrize(("text", "status", "counted"), [("as far", "incomplete", 1), ("", "failed", 0)])
def test_replies_of_dead_process_free_their_slots(
    alice: Client, upstream: FakeUpstream, limit: Limit, text: str, status: str, counted: int
) -> None:
    """The sweep settles them: text is counted, and the reservation of an empty reply is returned."""
    limit(streams=1)
    hold_replies(upstream, after=0)
    turn = begin_reply(alice)
    error(first(alice), 429, "rate_limited")
    ActiveReply.objects.update(lease_expires_at=Now() - timedelta(seconds=1), lease_owner="gone", text=text)
    assert sweep()["replies_finished"] == 1
    left = allowance()
    assert (left.open_streams, left.day_reserved, left.minute_requests) == (0, 0, counted)
    assert (left.day_tokens > 0) == bool(text)
    upstream.release()
    assert final(alice, turn)["status"] == status
    assert first(alice).status_code == 200


def test_client_disconnect_settles_unstored_call(alice: Client, upstream: FakeUpstream, limit: Limit) -> None:
    limit(streams=1, tokens_per_day=5000)
    hold_replies(upstream)
    with alice.stream("POST", "ask", json={"messages": TALK}) as events:
        assert next(events).name == "message.created"
        assert next(events).name == "content.delta"
        assert allowance().open_streams == 1
    wait_for(lambda: not PassingCall.objects.exists())
    assert allowance().open_streams == 0
    assert 0 < allowance().day_tokens < 100, "the model was asked, and had begun to answer"
    upstream.release()
    assert ask(alice).status_code == 200


# Given back


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.promise("P22")
def test_a_failure_is_given_back(alice: Client, upstream: FakeUpstream, limit: Limit, call: Call) -> None:
    limit(requests_per_minute=1, tokens_per_day=2500, streams=1)
    lane: Lane = "complete" if call is summarize else "stream"
    upstream.behave("status?code=401", lane=lane)
    for _ in range(3):
        assert call(alice).status_code == 502
    left = allowance()
    assert (left.minute_requests, left.day_tokens, left.day_reserved, left.open_streams) == (0, 0, 0, 0)
    upstream.behave("normal", lane=lane)
    assert call(alice).status_code == 200
    limit(requests_per_minute=1)
    error(call(alice), 429, "rate_limited")


@pytest.mark.parametrize("how", ["cut?after=1600&deltas=30", "incomplete?error=max_output_tokens"])
def test_incomplete_reply_costs_its_text(alice: Client, upstream: FakeUpstream, limit: Limit, how: str) -> None:
    limit(tokens_per_day=100_000)
    upstream.behave(how, lane="stream")
    turn = begin_reply(alice)
    assert final(alice, turn)["status"] == "incomplete"
    assert allowance().day_tokens > 0
    assert (allowance().day_reserved, allowance().minute_requests) == (0, 1)


def test_cancelled_reply_costs_prompt_and_text(alice: Client, upstream: FakeUpstream, limit: Limit) -> None:
    limit(tokens_per_day=100_000)
    hold_replies(upstream)
    with open_stream(alice, "Hello") as (turn, events):
        said = next(events).data["delta"]
        assert said
        assert alice.post(f"{turn.path}/cancel").status_code == 200
    upstream.release()
    message = final(alice, turn)
    context = alice.get(f"{turn.path}/context").json()
    prompt = sum(section["tokens"] for section in context["sections"])
    assert allowance().day_tokens == prompt + message["token_count"]


def test_sweep_frees_unstored_calls_of_dead_process(
    alice: Client, upstream: FakeUpstream, limit: Limit, settings: Any
) -> None:
    limit(requests_per_minute=2, streams=1)
    assert ask(alice).status_code == 200
    user = User.objects.get(username="alice")
    call = quotas.begin_unstored(user.pk, 100)
    longest = timedelta(seconds=settings.REPLY_DEADLINES.total)
    assert PassingCall.objects.get(pk=call.pk).expires_at - timezone.now() > longest
    assert sweep()["calls_refunded"] == 0
    error(ask(alice), 429, "rate_limited")
    PassingCall.objects.update(expires_at=Now() - timedelta(seconds=1))
    assert sweep()["calls_refunded"] == 1
    assert not quotas.end_unstored(call, 50), "a process that was only slow finds it settled"
    assert (allowance().day_reserved, allowance().open_streams, allowance().minute_requests) == (0, 0, 1)


def test_chat_deleted_during_reply_keeps_its_cost(alice: Client, upstream: FakeUpstream, limit: Limit) -> None:
    limit(tokens_per_day=4000)
    hold_replies(upstream)
    turn = begin_reply(alice)
    reserved = allowance().day_reserved
    assert alice.delete(f"chats/{turn.chat}").status_code == 204
    assert (allowance().day_tokens, allowance().day_reserved, allowance().open_streams) == (reserved, 0, 0)
    upstream.release()
    error(first(alice), 429, "quota_exceeded")


def test_memory_is_not_the_users_to_pay(alice: Client, upstream: FakeUpstream, limit: Limit) -> None:
    limit(requests_per_minute=3)
    stored = make_chat(User.objects.get(username="alice"))
    add_turns(stored, [("A question.", "An answer.")] * 5)
    alice.ask("Hello", str(stored.pk))
    spent = allowance().day_tokens
    assert alice.post(f"chats/{stored.pk}/resummarize", json={"mode": "update"}).status_code == 202
    assert run_fold(stored).outcome == "done"
    assert len(upstream.calls("complete")) == 1
    assert (allowance().day_tokens, allowance().minute_requests) == (spent, 1)


# A user's own numbers, and none


def test_a_user_may_have_other_limits(alice: Client, bob: Client, upstream: FakeUpstream, limit: Limit) -> None:
    limit(requests_per_minute=1)
    Allowance.objects.create(user=User.objects.get(username="bob"), requests_per_minute=0)
    assert [first(alice).status_code for _ in range(2)] == [200, 429]
    assert [first(bob).status_code for _ in range(3)] == [200] * 3


def test_switched_off_nothing_is_counted(alice: Client, upstream: FakeUpstream, limit: Limit, settings: Any) -> None:
    limit(requests_per_minute=1, tokens_per_day=1, streams=1)
    settings.RATE_LIMITS = False
    for call in CALLS:
        assert [call(alice).status_code for _ in range(2)] == [200, 200]
    user = User.objects.get(username="alice")
    request = TurnRequest(message="Hello", variant=services.default_variant())
    begun = services.begin_turn(user, request, chat_id=None)
    assert isinstance(begun, BegunTurn)
    chat_lifecycle.delete_chat(Chat.objects.get(pk=begun.pending.chat_id))
    assert not Allowance.objects.exists()


def test_limit_switched_off_settles_reservations(
    alice: Client, upstream: FakeUpstream, limit: Limit, settings: Any
) -> None:
    limit(streams=1)
    hold_replies(upstream)
    turn = begin_reply(alice)
    settings.RATE_LIMITS = False
    other = begin_reply(alice)
    settings.RATE_LIMITS = True
    upstream.release()
    for one in (turn, other):
        final(alice, one)
    assert (allowance().open_streams, allowance().minute_requests) == (0, 1)


# Signing in

PASSWORD = "correct horse battery"


def sign_in(live: LiveServer, password: str, username: str = "carol", address: str = "127.0.0.1") -> httpx.Response:
    """Sign in through a proxy on the server's own machine, from whose header uvicorn takes the address."""
    return httpx.post(
        f"{live.url}/v1/auth/token",
        json={"username": username, "password": password},
        headers={"X-Forwarded-For": address},
        timeout=60,
    )


def test_guesses_are_refused_before_they_are_looked_at(live: LiveServer, settings: Any) -> None:
    settings.LIMIT_SIGN_INS = 3
    User.objects.create_user("carol", password=PASSWORD)
    User.objects.create_user("dave", password=PASSWORD)
    assert sign_in(live, PASSWORD).status_code == 201
    for guess in ("a", "b", "c"):
        error(sign_in(live, guess), 401, "invalid_credentials")
    refused = sign_in(live, PASSWORD)
    error(refused, 429, "rate_limited")
    assert 1 <= int(refused.headers["retry-after"]) <= 60
    assert sign_in(live, "x", "CAROL").status_code == 429
    assert sign_in(live, PASSWORD, "dave").status_code == 201
    elsewhere = sign_in(live, PASSWORD, address="203.0.113.4")
    assert elsewhere.status_code == 201, "a stranger's guesses do not keep the owner of a name out"
    Window.objects.update(since=Now() - timedelta(seconds=60))
    assert sign_in(live, PASSWORD).status_code == 201
    assert not Window.objects.filter(kind="sign_ins").filter(key__contains="carol").exists()


def test_the_addresses_of_one_ipv6_network_count_as_one(live: LiveServer, settings: Any) -> None:
    settings.LIMIT_SIGN_INS = 1
    assert sign_in(live, "x", address="2001:db8:1:2::1").status_code == 401
    assert sign_in(live, "x", address="2001:db8:1:2:ffff::9").status_code == 429
    assert sign_in(live, "x", address="2001:db8:1:3::1").status_code == 401
    assert sign_in_limits.network_of("::ffff:198.51.100.7") == "198.51.100.7"


@pytest.mark.skipif(connection.vendor == "sqlite", reason="SQLite has one writer: nothing to deadlock with")
def test_concurrent_sign_ins_from_one_address_do_not_wait(live: LiveServer, settings: Any) -> None:
    """Attempts are counted and given back in one order; otherwise PostgreSQL would detect deadlocks."""
    settings.LIMIT_SIGN_INS = 1000
    for name in ("carol", "dave"):
        User.objects.create_user(name, password=PASSWORD)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda n: sign_in(live, PASSWORD, ("carol", "dave")[n % 2]), range(48)))
    assert {answer.status_code for answer in answers} == {201}
    assert set(Window.objects.filter(kind="sign_ins").values_list("count", flat=True)) == {0}


@pytest.mark.parametrize("varies", ["address", "username"])
def test_sign_in_limits_per_name_and_address(live: LiveServer, settings: Any, varies: str) -> None:
    settings.LIMIT_SIGN_INS = 1
    guesses = [{varies: f"198.51.100.{n}"} for n in range(12)]
    assert [sign_in(live, "x", **guess).status_code for guess in guesses] == [*[401] * 10, 429, 429]
    Window.objects.update(since=Now() - timedelta(days=2))
    # One counter for the one, and two for each guess: what varies itself, and the name from the address.
    assert sweep()["windows_removed"] == 1 + 2 * 10


@pytest.mark.promise("P22")
def test_guesses_at_once_get_no_further(live: LiveServer, settings: Any) -> None:
    settings.LIMIT_SIGN_INS = 3
    User.objects.create_user("carol", password=PASSWORD)
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda n: sign_in(live, f"guess {n}").status_code, range(20)))
    assert sorted(answers) == [*[401] * 3, *[429] * 17]


def test_the_admin_is_no_way_round(live: LiveServer, settings: Any) -> None:
    settings.LIMIT_SIGN_INS = 2
    User.objects.create_superuser("carol", password=PASSWORD)
    for guess in ("a", "b"):
        error(sign_in(live, guess), 401, "invalid_credentials")
    with httpx.Client(base_url=live.url) as browser:
        browser.get("/admin/login/")
        form = {"username": "carol", "password": PASSWORD, "csrfmiddlewaretoken": browser.cookies["csrftoken"]}
        assert "Too many sign-in attempts." in browser.post("/admin/login/", data=form).text
        assert "sessionid" not in browser.cookies
