"""Webhooks of apps, over real HTTP: what is told, in which order, how often, and where nothing is ever sent."""

import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import httpx
import pytest
from django.core.management import call_command
from django.db.models.functions import Now

from chatmemory.database.ids import new_id
from conversations.accounts.end_users import create_app
from conversations.accounts.models import App, Scope
from conversations.models import Chat
from conversations.webhooks import delivery, outbox
from conversations.webhooks.models import WebhookEvent, WebhookEventType, WebhookState
from memory.worker.sweep import sweep
from tests.support.docs import snippet
from tests.support.factories import add_turns
from tests.support.fakes.receiver import Receiver
from tests.support.fakes.upstream import FakeUpstream
from tests.support.folds import update
from tests.support.live_server import Client
from tests.support.ports import free_port
from tests.support.processes import ROOT
from tests.support.waiting import wait_for

pytestmark = pytest.mark.postgres

USER = {"X-Chatmemory-User": "maria"}
CHAT, OTHER_CHAT = new_id(), new_id()


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "POLL_SECONDS", 0.05)


@pytest.fixture
def receiver(settings: Any) -> Iterator[Receiver]:
    settings.WEBHOOK_ALLOW_PRIVATE = True
    with Receiver() as running:
        yield running
        assert running.faults == []


@contextmanager
def delivering(workers: int = 1) -> Iterator[None]:
    stopped = threading.Event()
    threads = [delivery.start(stopped) for _ in range(workers)]
    yield
    stopped.set()
    for thread in threads:
        thread.join(20)


def add(app: App, *numbers: int, chat: Any = CHAT) -> None:
    """Store events, as facts of a chat do."""
    for number in numbers:
        WebhookEvent.objects.create(
            event_id=new_id(), app=app, chat_id=chat, type="reply.completed", figures={"number": number}
        )


def states() -> list[str]:
    return list(WebhookEvent.objects.order_by("pk").values_list("state", flat=True))


def hurry() -> None:
    """Move the next attempts into the past."""
    WebhookEvent.objects.filter(state="waiting").update(not_before=Now() - timedelta(seconds=1))


def is_delivered_now() -> bool:
    """Whether all is delivered; hurries, if not."""
    hurry()
    return set(states()) == {"delivered"}


def numbers(receiver: Receiver) -> list[int]:
    return [event["data"]["number"] for event in receiver.received]


def test_webhook_events_are_signed_and_ordered(
    app: App, shop: Client, client_of: Callable[..., Client], receiver: Receiver, upstream: FakeUpstream
) -> None:
    shop.http.headers.update(USER)
    chat = shop.ask("Not told, because there is no webhook yet.")["message"]["chat_id"]
    own = client_of(app.user, Scope.ACT_FOR_USERS)
    receiver.secret = own.put("webhook", json={"url": receiver.url}).json()["secret"]
    answer = shop.ask("My order AB-1234 has not arrived.", chat)
    add_turns(Chat.objects.get(pk=chat), [(f"Order AB-{number}", "Noted.") for number in range(8)])
    call_command("resummarize", chat, sync=True)
    assert shop.delete(f"chats/{chat}").status_code == 204
    with delivering():
        wait_for(lambda: "chat.deleted" in receiver.types)
    assert receiver.types[0] == "reply.completed"
    assert receiver.types[-1] == "chat.deleted"
    assert "memory.updated" in receiver.types
    assert len({event["id"] for event in receiver.received}) == len(receiver.received)
    assert {event["data"]["end_user"] for event in receiver.received} == {"maria"}
    assert {event["data"]["chat_id"] for event in receiver.received} == {chat}
    reply = receiver.received[0]["data"]
    assert (reply["message_id"], reply["status"]) == (answer["message"]["id"], "complete")
    update = next(one["data"] for one in receiver.received if one["type"] == "memory.updated")
    assert update["tokens_before"] > 0
    assert update["tokens_after"] > 0
    assert update["counted_with"] == "o200k_base"
    assert update["links"]["difference"] == f"/v1/chats/{chat}/revisions/{update['version']}/diff"
    assert "AB-" not in str(receiver.received)
    assert set(states()) == {"delivered"}


def test_chats_of_others_and_unwanted_events_are_not_stored(
    app: App,
    shop: Client,
    alice: Client,
    client_of: Callable[..., Client],
    receiver: Receiver,
    upstream: FakeUpstream,
) -> None:
    receiver.serve(app, "chat.deleted")
    other = client_of(create_app("other", requires_end_user=False).user, Scope.ACT_FOR_USERS)
    for one in (shop, alice, other):
        chat = one.ask("Hello")["message"]["chat_id"]
        assert one.delete(f"chats/{chat}").status_code == 204
    (event,) = WebhookEvent.objects.all()
    assert (event.app_id, event.type, event.end_user) == (app.pk, "chat.deleted", None)


def test_webhook_reports_given_up_summarizer_once(
    app: App, shop: Client, receiver: Receiver, upstream: FakeUpstream, settings: Any
) -> None:
    settings.MEMORY_FOLD_ATTEMPTS, settings.MEMORY_FOLD_BACKOFF_SECONDS = 2, 0.01
    receiver.serve(app, "memory.failed")
    chat = shop.ask("Hello")["message"]["chat_id"]
    add_turns(Chat.objects.get(pk=chat), [("And then?", "Nothing.")] * 6)
    upstream.behave("status?code=400", lane="complete")
    for _ in range(4):
        update(Chat.objects.get(pk=chat))
        time.sleep(0.05)
    event = WebhookEvent.objects.get()
    told = event.type, event.figures["code"], event.figures["attempts"]
    assert told == ("memory.failed", "upstream_error", 2)


def test_the_secret_is_shown_once_and_replaced_on_request(shop: Client, receiver: Receiver) -> None:
    assert shop.get("webhook").status_code == 404
    first = shop.put("webhook", json={"url": receiver.url, "events": ["chat.deleted"]}).json()
    assert first["secret"].startswith("whsec_")
    assert first["events"] == ["chat.deleted"]
    assert shop.get("webhook").json() == {**first, "secret": None}
    assert shop.put("webhook", json={"url": receiver.url}).json()["secret"] is None
    again = shop.put("webhook", json={"url": receiver.url, "new_secret": True}).json()
    assert again["secret"] not in (None, first["secret"])
    assert again["events"] == WebhookEventType.values
    assert shop.delete("webhook").status_code == 204
    assert shop.get("webhook").status_code == 404


def test_webhooks_require_end_user_scope(
    app: App, shop: Client, alice: Client, client_of: Callable[..., Client]
) -> None:
    for one in (alice, *(client_of(app.user, scope) for scope in (Scope.CHAT, Scope.READ_ONLY))):
        for method in ("get", "put", "delete"):
            assert one.http.request(method, "/v1/webhook").status_code == 403
    assert shop.get("webhook", headers=USER).status_code == 403


def test_webhook_rejects_invalid_fields(shop: Client) -> None:
    bodies: list[dict[str, Any]] = [
        *({"url": url} for url in ("https://127.0.0.1/", "https://169.254.169.254/x", "http://example.com", 7)),
        *({"url": "https://example.com", "events": events} for events in (["chat.created"], [])),
        {},
    ]
    for body in bodies:
        answer = shop.put("webhook", json=body)
        assert answer.status_code == 400
        (named,) = answer.json()["error"]["details"]
        assert named.startswith("events" if "events" in body else "url")
    assert shop.get("webhook").status_code == 404


def test_the_order_of_a_chat_holds_under_retries_and_with_two_workers(
    app: App, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "FIRST_WAIT_SECONDS", 0.05)
    receiver.serve(app)
    fails = {2: 3, 5: 1}

    def answer(event: dict[str, Any]) -> int:
        number = event["data"]["number"]
        fails[number] = fails.get(number, 0) - 1
        return 500 if fails[number] >= 0 else 200

    receiver.answer = answer
    add(app, *range(8))
    add(app, *range(10, 18), chat=OTHER_CHAT)
    with delivering(workers=2):
        wait_for(lambda: set(states()) == {"delivered"})
    assert [one for one in numbers(receiver) if one < 10] == [0, 1, 2, 2, 2, 2, 3, 4, 5, 5, 6, 7]
    assert [one for one in numbers(receiver) if one >= 10] == list(range(10, 18))
    assert len({event["id"] for event in receiver.received}) == 16


def test_webhook_hanging_receiver_delays_no_others(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "CALL_SECONDS", 1.0)
    slow, quick = create_app("slow"), create_app("quick")
    done = threading.Event()
    with Receiver(answer=lambda event: 200 if done.wait(20) else 500) as hanging:
        hanging.serve(slow)
        receiver.serve(quick)
        for number in range(20):
            add(slow, number, chat=new_id())
        add(quick, 1, 2, 3)
        with delivering():
            wait_for(lambda: numbers(receiver) == [1, 2, 3])
            assert len(hanging.received) <= outbox.MAX_OF_APP
            errors = WebhookEvent.objects.filter(app=slow).exclude(error="").values_list("error", flat=True)
            wait_for(errors.exists)
            done.set()
    assert set(errors) == {"It did not answer within 1 seconds."}


@pytest.mark.parametrize("url", ["https://127.0.0.1:{}/", "https://internal.example:{}/", "https://0x7f.1:{}/"])
def test_private_addresses_are_never_connected_to(app: App, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    resolve = socket.getaddrinfo

    def resolved(host: Any, *rest: Any, **options: Any) -> Any:
        return resolve("127.0.0.1" if host == "internal.example" else host, *rest, **options)

    monkeypatch.setattr(socket, "getaddrinfo", resolved)
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    with socket.create_server(("127.0.0.1", 0)) as trap:
        App.objects.update(
            webhook_url=url.format(trap.getsockname()[1]), webhook_events="x", webhook_secret="whsec_c2VjcmV0"
        )
        add(app, 1)
        with delivering():
            wait_for(WebhookEvent.objects.exclude(error="").exists)
        trap.settimeout(0)
        with pytest.raises(BlockingIOError):
            trap.accept()
    assert "private network" in WebhookEvent.objects.get().error


def test_a_redirect_is_a_failure_and_not_followed(app: App, receiver: Receiver) -> None:
    receiver.serve(app)
    with Receiver(secret=receiver.secret) as target:
        receiver.answer, receiver.location = (lambda event: 307), target.url
        add(app, 1)
        with delivering():
            wait_for(WebhookEvent.objects.exclude(error="").exists)
    assert target.received == []
    assert WebhookEvent.objects.get().error == "It answered with status 307."


def test_a_status_of_success_is_a_delivery_even_if_the_answer_never_ends(
    app: App, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "CALL_SECONDS", 1.0)
    settings.WEBHOOK_ALLOW_PRIVATE = True
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
        App.objects.update(webhook_url=url, webhook_secret="whsec_c2VjcmV0")
        add(app, 1)
        with delivering():
            connection, _ = server.accept()
            with connection:
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n")
                wait_for(lambda: states() == ["delivered"] or WebhookEvent.objects.get().error)
    assert states() == ["delivered"]


def test_events_are_given_up_after_a_day_and_removed_after_a_week(
    app: App, shop: Client, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    receiver.serve(app)
    receiver.answer = lambda event: 500
    add(app, 1, 2)
    with delivering():
        wait_for(lambda: numbers(receiver) == [1])
        wait_for(WebhookEvent.objects.exclude(error="").exists)
        WebhookEvent.objects.filter(figures__number=1).update(created_at=Now() - timedelta(days=1, seconds=1))
        hurry()
        wait_for(lambda: states()[0] == WebhookState.GIVEN_UP)
        receiver.answer = lambda event: 200
        wait_for(lambda: states() == ["given up", "delivered"])
    assert numbers(receiver)[:3] == [1, 1, 2]
    assert "webhook event given up" in caplog.text
    shown = shop.get("webhook").json()
    assert (shown["waiting"], shown["given_up"]) == (0, 1)
    sweep()
    assert WebhookEvent.objects.count() == 2
    WebhookEvent.objects.update(ended_at=Now() - timedelta(days=7, seconds=1))
    assert sweep()["webhook_events_removed"] == 2


def test_webhook_delivery_of_dead_worker_is_repeated(app: App, receiver: Receiver) -> None:
    receiver.serve(app)
    add(app, 1)
    (taken,) = outbox.take({})
    assert outbox.take({}) == []
    hurry()
    (again,) = outbox.take({})
    outbox.record_delivery(taken)  # by the first worker, which was only slow: the second one decides
    assert states() == ["waiting"]
    outbox.record_delivery(again)
    assert states() == ["delivered"]


def test_webhook_events_wait_behind_failure_of_their_chat(app: App) -> None:
    """Deliveries do not scan, each second, all events of a receiver that is gone."""
    add(app, 1, 2)
    add(app, 3, chat=OTHER_CHAT)
    (first,) = [event for event in outbox.take({}) if event.chat_id == CHAT]
    outbox.record_failure(first, "It is gone.")
    assert not WebhookEvent.objects.filter(chat_id=CHAT, not_before__lte=Now()).exists()
    hurry()
    assert {event.pk for event in outbox.take({}) if event.chat_id == CHAT} == {first.pk}


def test_the_commands_of_the_docs_work(app: App, shop: Client, settings: Any) -> None:
    """The URL is set with curl, and the receiver in Python tells a signed event from another."""
    env = {**os.environ, "TOKEN": shop.token, "NO_PROXY": "127.0.0.1", "PORT": str(free_port())}
    put = subprocess.run(
        ["bash", "-c", snippet("docs/webhooks.md", "bash", shop.base)],
        env=env,
        capture_output=True,
        check=True,
    )
    secret = json.loads(put.stdout)["secret"]
    app.refresh_from_db()
    assert app.webhook_events == "memory.updated chat.deleted"
    (program,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs/webhooks.md").read_text(), re.DOTALL)
    settings.WEBHOOK_ALLOW_PRIVATE = True
    url = f"http://127.0.0.1:{env['PORT']}/hook"
    App.objects.update(webhook_url=url)
    add(app, 1)
    (event,) = WebhookEvent.objects.all()
    with subprocess.Popen(
        [sys.executable, "-c", program], env={**env, "SECRET": secret}, stdout=subprocess.PIPE, text=True
    ) as running:
        try:
            with delivering():
                wait_for(is_delivered_now, "a delivery to the program")
            assert httpx.post(url, content=b"{}").status_code == 400
        finally:
            running.kill()
        assert running.stdout is not None
        assert running.stdout.read().startswith(f"{event.event_id} reply.completed {{'chat_id': '{CHAT}'")
