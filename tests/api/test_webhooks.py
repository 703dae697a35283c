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
from conversations.accounts import api_tokens
from conversations.accounts.end_users import create_app
from conversations.accounts.models import App, Scope
from conversations.models import Chat
from conversations.webhooks import delivery, outbox
from conversations.webhooks.models import WebhookEvent, WebhookEventType, WebhookState
from memory.folding.fold import fold
from memory.folding.request import request_resummarize
from memory.worker.sweep import sweep
from tests.support.docs import snippet
from tests.support.exhaustive import first_of
from tests.support.factories import add_turns
from tests.support.fakes.receiver import Receiver
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Client, LiveServer
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
def app_client(live: LiveServer) -> Iterator[Callable[..., tuple[App, Client]]]:
    """Return a function that makes an app, and a client with a token of its account."""
    made: list[Client] = []

    def make(name: str = "shop", scope: Scope = Scope.ACT_FOR_USERS) -> tuple[App, Client]:
        app = create_app(name, requires_end_user=False)
        issued = api_tokens.issue(app.user, None, scopes=[scope])
        assert issued is not None
        made.append(Client(live.url, issued[1]))
        return app, made[-1]

    yield make
    for client in made:
        client.http.close()


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
    app_client: Callable[..., tuple[App, Client]], receiver: Receiver, upstream: FakeUpstream
) -> None:
    _, client = app_client()
    client.http.headers.update(USER)
    ids = [client.ask("Not told, because there is no webhook yet.")["message"]["chat_id"]]
    own = Client(client.base, client.token)
    receiver.secret = own.put("webhook", json={"url": receiver.url}).json()["secret"]
    answer = client.ask("My order AB-1234 has not arrived.", ids[0])
    add_turns(Chat.objects.get(pk=ids[0]), [(f"Order AB-{number}", "Noted.") for number in range(8)])
    call_command("resummarize", ids[0], sync=True)
    assert client.delete(f"chats/{ids[0]}").status_code == 204
    with delivering():
        wait_for(lambda: "chat.deleted" in receiver.types)
    assert receiver.types[0] == "reply.completed"
    assert receiver.types[-1] == "chat.deleted"
    assert "memory.updated" in receiver.types
    assert len({event["id"] for event in receiver.received}) == len(receiver.received)
    assert {event["data"]["end_user"] for event in receiver.received} == {"maria"}
    assert {event["data"]["chat_id"] for event in receiver.received} == set(ids)
    reply = receiver.received[0]["data"]
    assert (reply["message_id"], reply["status"]) == (answer["message"]["id"], "complete")
    update = next(one["data"] for one in receiver.received if one["type"] == "memory.updated")
    assert update["tokens_before"] > 0
    assert update["tokens_after"] > 0
    assert update["counted_with"] == "o200k_base"
    assert update["links"]["difference"] == f"/v1/chats/{ids[0]}/revisions/{update['version']}/diff"
    assert "AB-" not in str(receiver.received)
    assert set(states()) == {"delivered"}
    own.http.close()


def test_chats_of_others_and_unwanted_events_are_not_stored(
    app_client: Callable[..., tuple[App, Client]], alice: Client, receiver: Receiver, upstream: FakeUpstream
) -> None:
    app, client = app_client()
    receiver.serve(app, "chat.deleted")
    _, other = app_client("other")
    for one in (client, alice, other):
        chat = one.ask("Hello")["message"]["chat_id"]
        assert one.delete(f"chats/{chat}").status_code == 204
    assert [(one.app_id, one.type, one.end_user) for one in WebhookEvent.objects.all()] == [
        (app.pk, "chat.deleted", None)
    ]


def test_webhook_reports_given_up_summarizer_once(
    app_client: Callable[..., tuple[App, Client]], receiver: Receiver, upstream: FakeUpstream, settings: Any
) -> None:
    settings.MEMORY_FOLD_ATTEMPTS, settings.MEMORY_FOLD_BACKOFF_SECONDS = 2, 0.01
    app, client = app_client()
    receiver.serve(app, "memory.failed")
    chat = client.ask("Hello")["message"]["chat_id"]
    add_turns(Chat.objects.get(pk=chat), [("And then?", "Nothing.")] * 6)
    upstream.behave("status?code=400", lane="complete")
    for _ in range(4):
        request_resummarize(Chat.objects.get(pk=chat), "update")
        fold(Chat.objects.get(pk=chat).key, until=time.monotonic() + 60)
        time.sleep(0.05)
    event = WebhookEvent.objects.get()
    assert (event.type, event.figures["code"], event.figures["attempts"]) == (
        "memory.failed",
        "upstream_error",
        2,
    )


def test_the_secret_is_shown_once_and_replaced_on_request(
    app_client: Callable[..., tuple[App, Client]], receiver: Receiver
) -> None:
    _, client = app_client()
    assert client.get("webhook").status_code == 404
    first = client.put("webhook", json={"url": receiver.url, "events": ["chat.deleted"]}).json()
    assert first["secret"].startswith("whsec_")
    assert first["events"] == ["chat.deleted"]
    assert client.get("webhook").json() == {**first, "secret": None}
    assert client.put("webhook", json={"url": receiver.url}).json()["secret"] is None
    again = client.put("webhook", json={"url": receiver.url, "new_secret": True}).json()
    assert again["secret"] not in (None, first["secret"])
    assert again["events"] == WebhookEventType.values
    assert client.delete("webhook").status_code == 204
    assert client.get("webhook").status_code == 404


@pytest.mark.parametrize("scope", [Scope.CHAT, Scope.READ_ONLY])
def test_webhooks_require_end_user_scope(
    app_client: Callable[..., tuple[App, Client]], alice: Client, scope: Scope
) -> None:
    _, client = app_client(scope=scope)
    _, acting = app_client("other")
    for one in (client, alice):
        for method in ("get", "put", "delete"):
            assert one.http.request(method, "/v1/webhook").status_code == 403
    assert acting.get("webhook", headers=USER).status_code == 403


@pytest.mark.parametrize(
    "body",
    first_of(
        [
            {"url": "https://127.0.0.1/"},
            {"url": "https://169.254.169.254/latest/meta-data"},
            {"url": "http://example.com"},
            {"url": "https://example.com", "events": ["chat.created"]},
            {"url": "https://example.com", "events": []},
            {"url": 7},
            {},
        ],
        2,
    ),
)
def test_webhook_rejects_invalid_fields(app_client: Callable[..., tuple[App, Client]], body: dict[str, Any]) -> None:
    _, client = app_client()
    answer = client.put("webhook", json=body)
    assert answer.status_code == 400
    (named,) = answer.json()["error"]["details"]
    assert named.startswith("events" if "events" in body else "url")
    assert client.get("webhook").status_code == 404


def test_the_order_of_a_chat_holds_under_retries_and_with_two_workers(
    app_client: Callable[..., tuple[App, Client]], receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "FIRST_WAIT_SECONDS", 0.05)
    app, _ = app_client()
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


def test_webhook_hanging_receiver_delays_no_others(
    app_client: Callable[..., tuple[App, Client]], receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "CALL_SECONDS", 1.0)
    slow, _ = app_client("slow")
    quick, _ = app_client("quick")
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
def test_private_addresses_are_never_connected_to(
    app_client: Callable[..., tuple[App, Client]], monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    resolve = socket.getaddrinfo

    def resolved(host: Any, *rest: Any, **options: Any) -> Any:
        return resolve("127.0.0.1" if host == "internal.example" else host, *rest, **options)

    monkeypatch.setattr(socket, "getaddrinfo", resolved)
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    app, _ = app_client()
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


def test_a_redirect_is_a_failure_and_not_followed(
    app_client: Callable[..., tuple[App, Client]], receiver: Receiver
) -> None:
    app, _ = app_client()
    receiver.serve(app)
    with Receiver(secret=receiver.secret) as target:
        receiver.answer, receiver.location = (lambda event: 307), target.url
        add(app, 1)
        with delivering():
            wait_for(WebhookEvent.objects.exclude(error="").exists)
    assert target.received == []
    assert WebhookEvent.objects.get().error == "It answered with status 307."


def test_a_status_of_success_is_a_delivery_even_if_the_answer_never_ends(
    app_client: Callable[..., tuple[App, Client]], settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "CALL_SECONDS", 1.0)
    settings.WEBHOOK_ALLOW_PRIVATE = True
    app, _ = app_client()
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
    app_client: Callable[..., tuple[App, Client]], receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    app, client = app_client()
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
    shown = client.get("webhook").json()
    assert (shown["waiting"], shown["given_up"]) == (0, 1)
    sweep()
    assert WebhookEvent.objects.count() == 2
    WebhookEvent.objects.update(ended_at=Now() - timedelta(days=7, seconds=1))
    assert sweep()["webhook_events_removed"] == 2


def test_webhook_delivery_of_dead_worker_is_repeated(
    app_client: Callable[..., tuple[App, Client]], receiver: Receiver
) -> None:
    app, _ = app_client()
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


def test_webhook_events_wait_behind_failure_of_their_chat(
    app_client: Callable[..., tuple[App, Client]],
) -> None:
    """Deliveries do not scan, each second, all events of a receiver that is gone."""
    app, _ = app_client()
    add(app, 1, 2)
    add(app, 3, chat=OTHER_CHAT)
    (first,) = [event for event in outbox.take({}) if event.chat_id == CHAT]
    outbox.record_failure(first, "It is gone.")
    assert not WebhookEvent.objects.filter(chat_id=CHAT, not_before__lte=Now()).exists()
    hurry()
    assert {event.pk for event in outbox.take({}) if event.chat_id == CHAT} == {first.pk}


def test_the_commands_of_the_docs_work(app_client: Callable[..., tuple[App, Client]], settings: Any) -> None:
    """The URL is set with curl, and the receiver in Python tells a signed event from another."""
    app, client = app_client()
    env = {**os.environ, "TOKEN": client.token, "NO_PROXY": "127.0.0.1", "PORT": str(free_port())}
    put = subprocess.run(
        ["bash", "-c", snippet("docs/webhooks.md", "bash", client.base)],
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
