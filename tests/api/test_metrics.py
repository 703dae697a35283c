"""`/metrics`: who may read it, and that each metric changes with what it counts."""

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.db import OperationalError, connection
from django.db.models.functions import Now
from django.utils import timezone
from django_q.models import OrmQ

from chatmemory.database.ids import new_id
from chatmemory.llm import registry
from chatmemory.llm.protocol import UpstreamError
from conversations.accounts.end_users import create_app
from conversations.models import Chat, Message
from conversations.replies import finish
from conversations.retention import due
from conversations.webhooks import outbox
from conversations.webhooks.models import WebhookEvent
from memory import probes
from memory.folding.fold import fold
from memory.models import ConversationBrief, Worker
from memory.policies import POLICIES
from tests.api.talking import Turn, begin_reply, error, say
from tests.support.exhaustive import first_row_of
from tests.support.factories import add_turns, brief_of, make_chat, make_user
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Client, LiveServer
from tests.support.metrics import NAMES, TOKEN, Scrape
from tests.support.waiting import wait_for

Change = Callable[..., float]


@pytest.fixture
def scraped(live: LiveServer, settings: Any) -> Callable[[], Scrape]:
    settings.METRICS_TOKEN = TOKEN
    return lambda: Scrape.of(live.url)


@pytest.fixture
def change(scraped: Callable[[], Scrape]) -> Change:
    """Return a function that tells by how much a sample has changed in this test."""
    before = scraped()
    return lambda name, **labels: scraped()(name, **labels) - before(name, **labels)


def test_every_metric_is_asserted_below_and_in_the_documentation() -> None:
    here, page = Path(__file__).read_text(), Path("docs/monitoring.md").read_text()
    assert len(NAMES) == len(set(NAMES)) >= 20
    assert [name for name in NAMES if f'"{name}' not in here] == []
    assert [name for name in NAMES if f"`{name.removeprefix('chatmemory_')}`" not in page] == []


def test_metrics_require_the_token(live: LiveServer, alice: Client, settings: Any) -> None:
    def get(authorization: str = "", **headers: str) -> httpx.Response:
        given = {"Authorization": authorization} if authorization else {}
        return httpx.get(f"{live.url}/metrics", headers={**given, **headers})

    settings.METRICS_TOKEN = ""
    for authorization in ("", "Bearer", "Bearer None"):
        error(get(authorization), 404, "not_found")
    settings.METRICS_TOKEN = TOKEN
    for authorization in ("", "Bearer", f"Bearer {TOKEN}x", f"Basic {TOKEN}", f"Bearer {alice.token}", TOKEN):
        refused = error(get(authorization), 401, "not_authenticated")
        assert TOKEN not in str(refused)
    assert get("Bearer x").headers["www-authenticate"] == "Bearer"
    by_address = get(f"Bearer {TOKEN}", Host="10.0.0.7:8000")
    assert by_address.status_code == 200, "Prometheus asks by a pod's address"
    settings.SECURE_SSL_REDIRECT = True
    assert get(f"Bearer {TOKEN}").status_code == 200
    assert alice.get("schema").text.count("/metrics") == 0


def test_requests(change: Change, alice: Client, live: LiveServer) -> None:
    alice.get(f"chats/{new_id()}")
    alice.get(f"chats/{new_id()}")
    route = "v1/chats/<uuid:chat_id>"
    name = "chatmemory_request_seconds_count"
    assert change(name, method="GET", route=route, status="4xx") == 2
    assert change("chatmemory_request_seconds_sum", route=route) > 0
    httpx.request("BREW", f"{live.url}/a/path/of/nobody")
    httpx.get(f"{live.url}/healthz?{'x' * 40_000}")
    assert change(name, method="other", route="", status="4xx") == 1
    assert change(name, method="GET", route="", status="4xx") == 1, "refused by its head"


def test_a_reply_from_its_request_to_its_end(change: Change, alice: Client, upstream: FakeUpstream) -> None:
    upstream.behave("normal?hold_after=1")
    upstream.hold()
    with alice.stream("POST", "message/first", json={"message": "Hello"}) as events:
        assert next(event for event in events if event.name == "content.delta")
        assert change("chatmemory_open_streams") == 1
        upstream.release()
        final = [*events][-1].data["message"]
    wait_for(lambda: change("chatmemory_open_streams") == 0, "an end")
    assert change("chatmemory_time_to_first_token_seconds_count", variant="arco") == 1
    assert change("chatmemory_overhead_seconds_count") == 1
    first, own = (change(f"chatmemory_{name}_seconds_sum") for name in ("time_to_first_token", "overhead"))
    assert first >= own > 0
    assert change("chatmemory_replies_total", status="complete", variant="arco") == 1
    for kind in ("input", "cached", "output"):
        assert change("chatmemory_tokens_total", type=kind) == final["usage"][f"{kind}_tokens"]
    shown = alice.get(f"chats/{final['chat_id']}/messages/{final['id']}/context").json()
    assert change("chatmemory_prompts_total", missing="nothing") == 1
    for section in shown["sections"]:
        assert change("chatmemory_prompt_tokens_total", section=section["kind"]) == section["tokens"]
    assert shown["sections"]


def test_a_reply_that_is_not_stored(change: Change, alice: Client, upstream: FakeUpstream) -> None:
    body = {"messages": [{"role": "user", "content": "Hello"}], "stream": False, "model_variant": "arco-pro"}
    assert alice.post("ask", json=body).status_code == 200
    assert change("chatmemory_replies_total", status="complete", variant="arco-pro") == 1
    assert change("chatmemory_prompts_total") == 0


def test_metrics_count_resumed_reply_once(change: Change, alice: Client, upstream: FakeUpstream) -> None:
    asked: Any = {"json": {"message": "Hello"}, "headers": {"Idempotency-Key": "k"}}
    first, again = (alice.events("POST", "message/first", **asked) for _ in range(2))
    turn = Turn.of(first[0].data)
    resumed = alice.events("GET", f"{turn.path}/stream", headers={"Last-Event-ID": "2"})
    assert first[-1].data == again[-1].data == resumed[-1].data
    wait_for(lambda: change("chatmemory_open_streams") == 0, "the end of all streams")
    for name in "prompts_total overhead_seconds_count time_to_first_token_seconds_count replies_total".split():
        assert change(f"chatmemory_{name}") == 1, name


def test_a_reply_that_is_cancelled_and_one_of_a_fallback(
    change: Change, alice: Client, upstream: FakeUpstream, settings: Any
) -> None:
    upstream.hold()
    assert alice.post(f"{begin_reply(alice).path}/cancel").status_code == 200
    upstream.release()
    variants = settings.MODEL_VARIANTS
    fails = replace(variants["arco"], fallback=variants["arco-pro"])
    settings.MODEL_VARIANTS = {**variants, "arco": fails}
    upstream.script("stream", "drop")
    say(alice)
    for status, variant in (("cancelled", "arco"), ("complete", "arco-pro")):
        assert change("chatmemory_replies_total", status=status, variant=variant) == 1
    assert change("chatmemory_time_to_first_token_seconds_count", variant="arco-pro") == 1
    assert change("chatmemory_time_to_first_token_seconds_count", variant="arco") == 0
    for labels in ({}, {"kind": "unreachable"}):
        assert change("chatmemory_upstream_errors_total", **labels) == 1
    wait_for(lambda: change("chatmemory_open_streams") == 0, "the end of all streams")


def test_a_prompt_that_left_turns_out(change: Change, alice: Client, upstream: FakeUpstream) -> None:
    chat = make_chat(make_user())
    add_turns(chat, [(f"Word {number} " * 40, "Noted. " * 40) for number in range(300)])
    alice.ask("And now?", str(chat.pk))
    assert change("chatmemory_prompts_total", missing="left_out") == 1
    alice.ask("word " * 30_000, str(make_chat(make_user()).pk))
    assert change("chatmemory_prompts_total", missing="nothing") == 1, "a question is always whole"


@pytest.mark.parametrize(
    ("how", "kind"),
    first_row_of(
        [
            ("status?code=500", "status_5xx"),
            ("status?code=429", "rate_limited"),
            ("status?code=401", "key_rejected"),
            ("status?code=404", "status_4xx"),
            ("cut?after=0", "invalid_response"),
            ("drop", "unreachable"),
        ],
        2,
    ),
)
def test_failures_of_the_upstream(how: str, kind: str, change: Change, alice: Client, upstream: FakeUpstream) -> None:
    upstream.script("stream", how)
    alice.post("message/first", json={"message": "Hello", "stream": False})
    assert change("chatmemory_upstream_errors_total", kind=kind, call="reply") == 1
    assert change("chatmemory_replies_total", status="failed") == 1


def test_a_search_for_earlier_turns(change: Change, alice: Client, upstream: FakeUpstream) -> None:
    chat = make_chat(make_user())
    noise = [(f"Desk {number} was moved to the other side of the hall.", "Noted.") for number in range(200)]
    add_turns(chat, [("The lighthouse opens on 31 July.", "Noted."), *noise])
    for question in ("When does the lighthouse open?", "Thanks."):
        alice.post(f"chats/{chat.pk}/context", json={"message": question})
    for result in ("found", "nothing"):
        assert change("chatmemory_recall_seconds_count", result=result) == 1, result


def test_folds(change: Change, scraped: Callable[[], Scrape], upstream: FakeUpstream) -> None:
    chat = make_chat(make_user())
    add_turns(chat, [(f"Remember T{number}. " * 20, "Noted. " * 20) for number in range(60)])
    policy = chat.policy
    assert scraped()("chatmemory_due_chats") == 1
    upstream.script("complete", "status?code=503", "status?code=400")
    assert fold(chat.key, until=time.monotonic() + 60).outcome == "waiting"
    assert change("chatmemory_upstream_retries_total", kind="status_5xx") == 1
    assert change("chatmemory_folds_total", policy=policy, result="failed") == 1
    assert change("chatmemory_upstream_errors_total", kind="status_4xx", call="summary") == 1
    ConversationBrief.objects.update(next_attempt_at=None)
    upstream.hold("complete")
    thread = threading.Thread(target=lambda: _folded(chat))
    thread.start()
    wait_for(lambda: change("chatmemory_running_folds") == 1, "a fold that runs")
    upstream.release("complete")
    thread.join(60)
    assert change("chatmemory_running_folds") == 0
    version = brief_of(chat).version
    results = {one: change("chatmemory_folds_total", result=one) for one in ("published", "finished", "lost")}
    assert (results["published"] + results["finished"], results["lost"]) == (version, 0)
    assert change("chatmemory_fold_seconds_count") == version + 1
    assert change("chatmemory_retained_share_count") == version
    assert scraped()("chatmemory_due_chats") == 0


def _folded(chat: Chat) -> None:
    try:
        fold(chat.key, until=time.monotonic() + 60)
    finally:
        connection.close()


def test_metrics_count_erasures_of_retention(change: Change, alice: Client, upstream: FakeUpstream) -> None:
    alice.post("message/first", json={"message": "Hello", "temporary": True, "stream": False})
    Chat.objects.update(last_message_at=timezone.now() - timedelta(days=2))
    assert due.erase_due() == 1
    assert change("chatmemory_retention_erased_total") == 1


def test_webhooks(change: Change, scraped: Callable[[], Scrape]) -> None:
    def add(**fields: Any) -> WebhookEvent:
        made = WebhookEvent.objects.create(
            event_id=new_id(), app=app, chat_id=new_id(), type="reply.completed", figures={}, **fields
        )
        made.refresh_from_db()
        return made

    app = create_app("shop")
    outbox.record_delivery(add())
    outbox.record_failure(add(), "It answered with status 500.")
    outbox.record_failure(add(created_at=Now() - timedelta(days=2)), "It answered with status 500.")
    for result in ("delivered", "failed", "given_up"):
        assert change("chatmemory_webhooks_total", result=result) == 1
    assert scraped()("chatmemory_webhooks_waiting") == 1


def test_embeddings_that_fail(change: Change, upstream: FakeUpstream, settings: Any) -> None:
    settings.MEMORY_EMBEDDINGS_MODEL = "unknown"
    embedder = registry.embedder()
    with pytest.raises(UpstreamError):
        embedder.run(embedder.embed(["x"], timeout=0))
    assert change("chatmemory_upstream_errors_total", kind="upstream_timeout", call="embeddings") == 1


def test_the_queue_and_its_workers(scraped: Callable[[], Scrape]) -> None:
    Worker.objects.create(pk="alive", seen_at=timezone.now())
    Worker.objects.create(pk="gone", seen_at=timezone.now() - timedelta(minutes=1))
    for seconds in (90, 30, -100):
        lock = timezone.now() - timedelta(seconds=seconds)
        OrmQ.objects.create(key="chatmemory", payload="x", lock=lock)
    found = scraped()
    assert found("chatmemory_workers") == 1
    assert 90 <= found("chatmemory_queue_age_seconds") < 120
    assert found("chatmemory_database_up") == 1
    assert [family.name for family in found.families if not family.documentation] == []


def test_without_its_database_it_tells_the_rest(scraped: Callable[[], Scrape], monkeypatch: pytest.MonkeyPatch) -> None:
    def away() -> float:
        raise OperationalError

    monkeypatch.setitem(probes.STORED, "chatmemory_due_chats", ("Due.", away))
    found = scraped()
    assert found("chatmemory_database_up") == 0
    assert "chatmemory_workers" not in found.text
    assert found("chatmemory_request_seconds_count") > 0


@pytest.mark.skipif("postgres" not in connection.settings_dict["ENGINE"], reason="SQLite has no pool")
def test_the_pool_of_connections(change: Change, scraped: Callable[[], Scrape], alice: Client) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    alice.get("chats")
    found = scraped()
    assert found("chatmemory_database_pool_size") >= found("chatmemory_database_pool_in_use") >= 1
    assert found("chatmemory_database_pool_waiting") == 0
    before = change("chatmemory_database_pool_in_use")
    connection.close()
    assert change("chatmemory_database_pool_in_use") == before - 1


def test_labels_are_of_a_few_words(scraped: Callable[[], Scrape], alice: Client, upstream: FakeUpstream) -> None:
    of_other_tests = {value for name, value in scraped().labels if name == "variant"}
    turn = alice.ask("A heron in the reeds")["message"]
    alice.post("message", json={"chat_id": turn["chat_id"], "message": "x", "model_variant": "mine"})
    finish.count(Message(status="complete", model_variant="of last year"), None)
    found = scraped()
    assert found("chatmemory_replies_total", variant="removed") > 0
    for secret in (turn["chat_id"], turn["id"], "alice", "heron", "mine", "last year"):
        assert secret not in found.text
    variants = {value for name, value in found.labels if name == "variant"}
    assert variants - of_other_tests <= {"arco", "arco-pro", "deep-dive", "removed"}
    assert {value for name, value in found.labels if name == "policy"} <= set(POLICIES)
    assert {name for name, _ in found.labels if name not in ("generation", "version", "implementation")} <= {
        *("method", "route", "status", "variant", "type", "kind", "call", "missing", "section", "result"),
        "counted_by",
        *("policy", "major", "minor", "patchlevel"),
    }
