"""Images and files in the messages of OpenAI clients: stored once, sent, marked, forgotten."""

import base64
import json
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, suppress
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.utils import timezone
from openai import OpenAI

from chatmemory import http_protocol
from chatmemory.api import async_view
from chatmemory.llm.attachments import PIECE_BYTES, read_data_url
from conversations import attachments
from conversations.interchange.read import read_chats
from conversations.interchange.rows import export_chat, import_chat
from conversations.models import AttachmentPiece, Chat, Message, StoredAttachment
from tests.api.histories import send
from tests.api.talking import hold_replies, sdk
from tests.support.exhaustive import first_of
from tests.support.fakes.upstream import FakeUpstream
from tests.support.images import data_url, png
from tests.support.live_server import Client, LiveServer
from tests.support.waiting import wait_for

pytestmark = pytest.mark.postgres

PHOTO = png(640, 480, 7)
LARGE = PHOTO + b"x" * 3_000_000
OTHER = png(800, 600, 9)
REPORT = b"%PDF-1.4 quarterly figures"
MARK = f"[image: 640×480 PNG, {len(PHOTO) / 1000:.0f} kB]"


def image(data: bytes = PHOTO, **fields: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": data_url(data), **fields}}


def file(data: bytes = REPORT, name: str = "report.pdf") -> dict[str, Any]:
    return {"type": "file", "file": {"filename": name, "file_data": data_url(data, "application/pdf")}}


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


class PictureTalk:
    """A client that sends its whole history each time, including images."""

    def __init__(self, ask: OpenAI) -> None:
        self.ask = ask
        self.messages: list[Any] = []
        self.decisions: list[str] = []

    def turn(self, *parts: dict[str, Any]) -> str:
        self.messages.append({"role": "user", "content": list(parts)})
        raw = self.ask.chat.completions.with_raw_response.create(model="arco", messages=self.messages)
        self.decisions.append(raw.headers["x-chatmemory-conversation"])
        said = str(raw.parse().choices[0].message.content)
        self.messages.append({"role": "assistant", "content": said})
        return said


def sent_with(upstream: FakeUpstream) -> list[tuple[str, bytes]]:
    """Return the images and files of the last request, as the model's server received them."""
    found: list[tuple[str, bytes]] = []
    body = upstream.requests[-1].body
    for item in body.get("messages") or body["input"]:
        for part in item["content"] if isinstance(item.get("content"), list) else []:
            value = part.get("image_url") or part.get("file") or part.get("file_data")
            url = value if isinstance(value, str) else (value or {}).get("url") or (value or {}).get("file_data")
            if url:
                found.append(read_data_url(url) or (url, b""))
    return found


@pytest.mark.parametrize("style", ["responses", "chat"])
def test_the_model_gets_the_bytes_and_memory_a_mark(
    ask: OpenAI, alice: Client, upstream: FakeUpstream, settings: Any, style: str
) -> None:
    settings.OPENAI_API_STYLE = style
    talk = PictureTalk(ask)
    talk.turn(text("What is this?"), image(detail="low"), file())
    assert sent_with(upstream) == [("image/png", PHOTO), ("application/pdf", REPORT)]
    question = Message.objects.get(seq=1)
    assert question.content == f"What is this?\n\n{MARK}\n\n[file: report.pdf, 26 B]"
    path = f"chats/{question.chat_id}"
    told = alice.get(f"{path}/messages/{question.pk}").json()
    assert [one["kind"] for one in told["attachments"]] == ["image", "file"]
    assert PHOTO not in json.dumps(told).encode()
    photo, report = (alice.get(f"{path}/attachments/{one['sha256']}") for one in told["attachments"])
    assert (photo.content, photo.headers["content-type"]) == (PHOTO, "image/png")
    assert (report.content, report.headers["content-type"]) == (REPORT, "application/octet-stream")
    assert report.headers["content-disposition"] == "attachment"


@pytest.mark.parametrize("label", ["image/jpg", "image/jpeg", "image/svg+xml", "image/png;charset=utf-8"])
def test_image_labelled_as_another_type_reaches_the_model_with_its_own(
    alice: Client, upstream: FakeUpstream, label: str
) -> None:
    send(alice, [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": data_url(PHOTO, label)}}]}])
    assert sent_with(upstream) == [("image/png", PHOTO)]


def test_detail_of_an_image_reaches_the_model(alice: Client, upstream: FakeUpstream, settings: Any) -> None:
    settings.OPENAI_API_STYLE = "chat"
    for detail in ("low", "original"):
        send(alice, [{"role": "user", "content": [image(detail=detail)]}])
        assert image(detail=detail) in upstream.requests[-1].body["messages"][-1]["content"]


def test_another_image_with_the_same_words_is_another_history(ask: OpenAI, upstream: FakeUpstream) -> None:
    talk = PictureTalk(ask)
    talk.turn(text("What is this?"), image(png(640, 480, 1)))
    first = talk.messages[:]
    other = PictureTalk(ask)
    other.messages = [{"role": "user", "content": [text("What is this?"), image(png(640, 480, 2))]}, first[1]]
    other.turn(text("Go on"))
    assert other.decisions == ["imported"]
    assert sent_with(upstream) == [("image/png", png(640, 480, 2))]
    talk.turn(text("Go on"))
    assert talk.decisions == ["new", "continued"]


def test_recent_images_are_sent_again_and_older_ones_as_their_mark(
    ask: OpenAI, alice: Client, upstream: FakeUpstream, settings: Any
) -> None:
    settings.ATTACHMENTS_SENT_AGAIN = 2
    talk = PictureTalk(ask)
    for shade in (1, 2, 3):
        talk.turn(text(f"Picture {shade}"), image(png(64, 64, shade)))
    talk.turn(text("Which of them is the darkest?"))
    assert [data for _, data in sent_with(upstream)] == [png(64, 64, 2), png(64, 64, 3)]
    assert upstream.requests[-1].text.count("[image: 64×64 PNG") == 6  # in replies, too
    reply = Message.objects.order_by("-seq")[0]
    told = alice.get(f"chats/{reply.chat_id}/messages/{reply.pk}/context").json()
    assert told["verified"] is True, told
    section = next(one for one in told["sections"] if one["kind"] == "attachments")
    assert section["tokens"] == 2 * 255
    parts = next(one["content"] for one in told["prompt"] if isinstance(one["content"], list))
    assert parts[1]["image_url"]["url"].startswith("sha256:")
    assert told["tokens"] <= told["budget"]


def test_without_its_bytes_an_image_is_its_mark_and_the_prompt_is_still_verified(
    ask: OpenAI, alice: Client, upstream: FakeUpstream, settings: Any
) -> None:
    talk = PictureTalk(ask)
    talk.turn(text("What is this?"), image())
    reply = Message.objects.order_by("-seq")[0]
    settings.ATTACHMENTS_KEEP_DAYS = 30
    assert attachments.remove_old() == 0
    StoredAttachment.objects.update(sent_at=timezone.now() - timedelta(days=31))
    assert attachments.remove_old() == 1
    talk.turn(text("What was it?"))
    assert sent_with(upstream) == []
    assert MARK in upstream.requests[-1].text
    assert talk.decisions[-1] == "continued"
    path = f"chats/{reply.chat_id}"
    assert alice.get(f"{path}/messages/{reply.pk}/context").json()["verified"] is True
    sha256 = Message.objects.get(seq=1).payload["attachments"][0]["sha256"]  # type: ignore[index]
    assert alice.get(f"{path}/attachments/{sha256}").status_code == 404


def test_the_oldest_bytes_go_when_a_user_has_too_many(ask: OpenAI, upstream: FakeUpstream, settings: Any) -> None:
    settings.ATTACHMENTS_MAX_BYTES_PER_USER = len(PHOTO) + 10
    talk = PictureTalk(ask)
    talk.turn(image())
    assert sent_with(upstream) == [("image/png", PHOTO)]
    talk.turn(image(OTHER))
    assert [one.size for one in StoredAttachment.objects.all()] == [len(OTHER)]
    assert sent_with(upstream) == [("image/png", OTHER)]


def test_attachments_are_readable_by_owner_only(
    ask: OpenAI, alice: Client, bob: Client, upstream: FakeUpstream
) -> None:
    PictureTalk(ask).turn(image())
    stored = StoredAttachment.objects.get()
    chat = Chat.objects.get()
    assert bob.get(f"chats/{chat.pk}/attachments/{stored.sha256}").status_code == 404
    mine = alice.post("chats", json={}).json()
    assert alice.get(f"chats/{mine['id']}/attachments/{stored.sha256}").status_code == 404
    assert alice.get(f"chats/{chat.pk}/attachments/{'0' * 64}").status_code == 404
    with sdk(bob) as other:
        PictureTalk(other).turn(image())
    assert StoredAttachment.objects.count() == 2  # one per message


def test_forgetting_takes_the_bytes_with_it(ask: OpenAI, alice: Client, upstream: FakeUpstream) -> None:
    talk = PictureTalk(ask)
    talk.turn(image())
    talk.turn(image(), image(OTHER))
    chat = Chat.objects.get()
    first, second = Message.objects.filter(role="user").order_by("seq")
    assert alice.delete(f"chats/{chat.pk}/messages/{first.pk}").status_code == 204
    assert StoredAttachment.objects.count() == 2  # the second message has the same image
    edited = alice.patch(f"chats/{chat.pk}/messages/{second.pk}", json={"content": f"Only {MARK}"})
    assert [one["width"] for one in edited.json()["attachments"]] == [640]
    assert [one.size for one in StoredAttachment.objects.all()] == [len(PHOTO)]
    assert alice.delete(f"chats/{chat.pk}").status_code == 204
    assert not StoredAttachment.objects.exists()


def test_large_ones_are_kept_and_read_in_pieces(ask: OpenAI, alice: Client, upstream: FakeUpstream) -> None:
    large = PHOTO + bytes(range(256)) * 10_000
    PictureTalk(ask).turn(text("What is this?"), image(large))
    chat, stored = Chat.objects.get(), StoredAttachment.objects.get()
    assert max(len(piece.data) for piece in AttachmentPiece.objects.all()) <= PIECE_BYTES < stored.size
    answer = alice.get(f"chats/{chat.pk}/attachments/{stored.sha256}")
    assert answer.content == large
    assert answer.headers["content-length"] == str(len(large))
    assert answer.headers["cache-control"] == "no-store"
    (told,) = alice.get("me/export").json()["chats"][0]["messages"][0]["attachments"]
    assert base64.b64decode(told["data"]) == large
    alice.delete(f"chats/{chat.pk}")
    assert not AttachmentPiece.objects.exists()


def test_large_requests_share_a_budget_of_memory(
    ask: OpenAI, alice: Client, upstream: FakeUpstream, live: LiveServer, monkeypatch: Any
) -> None:
    monkeypatch.setattr(async_view, "WAIT_SECONDS", 0.2)
    body = {"model": "arco", "messages": [{"role": "user", "content": [image(LARGE)]}]}
    budget = AsyncExitStack()
    live.run(budget.enter_async_context(async_view._memory.hold(async_view.BUDGET_BYTES)))
    refused = alice.post("chat/completions", json=body)
    assert (refused.status_code, refused.json()["error"]["reason"]) == (503, "unavailable")
    assert refused.headers["retry-after-ms"] == "5000"
    alice.ask("A small one")
    live.run(budget.aclose())
    assert alice.post("chat/completions", json=body).status_code == 200


@pytest.mark.parametrize("store", first_of([True, False]))
def test_body_budget_is_free_while_model_answers(alice: Client, upstream: FakeUpstream, store: bool) -> None:
    hold_replies(upstream, deltas=0)
    messages = [{"role": "user", "content": [image(LARGE)]}]
    body = {"model": "arco", "store": store, "messages": messages}
    with ThreadPoolExecutor(2) as pool:
        answers = [pool.submit(alice.post, "chat/completions", json=body) for _ in range(2)]
        wait_for(lambda: len(upstream.requests) == 2)
        assert async_view._memory.held == 0
        upstream.release()
        assert [one.result().status_code for one in answers] == [200, 200]
    assert [data for _, data in sent_with(upstream)] == [LARGE]
    assert StoredAttachment.objects.exists() is store


@pytest.mark.exhaustive
def test_attachment_reader_that_stalls_is_disconnected(
    ask: OpenAI, alice: Client, upstream: FakeUpstream, live: LiveServer, settings: Any, monkeypatch: Any
) -> None:
    """Until then it counts as one of the user's limited number of readers."""
    settings.LIMIT_READERS = 1
    monkeypatch.setattr(http_protocol, "UNREAD_SECONDS", 1.0)
    large = PHOTO + b"x" * 15_000_000
    PictureTalk(ask).turn(text("What is this?"), image(large))
    path = f"/v1/chats/{Chat.objects.get().pk}/attachments/{StoredAttachment.objects.get().sha256}"
    where = urlsplit(live.url)
    with socket.socket() as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.connect((where.hostname, where.port))
        deaf.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {alice.token}\r\n\r\n".encode())
        assert deaf.recv(12) == b"HTTP/1.1 200"
        refused = alice.get(path)
        assert refused.status_code == 429
        assert refused.json()["error"]["details"] == {"limit": "readers", "allowed": 1}
        assert wait_for(lambda: (answer := alice.get(path)).status_code == 200 and answer).content == large
        deaf.settimeout(10)
        with suppress(ConnectionResetError):
            while deaf.recv(65536):
                pass


def test_a_branch_refers_to_the_same_bytes_until_the_last_of_them_goes(
    ask: OpenAI, alice: Client, upstream: FakeUpstream
) -> None:
    talk = PictureTalk(ask)
    talk.turn(text("What is this?"), image())
    talk.turn(text("Thank you"))
    edited = PictureTalk(ask)
    edited.messages = talk.messages[:2]
    edited.turn(text("Say more"))
    assert edited.decisions == ["branched"]
    assert StoredAttachment.objects.count() == 1
    first, second = Chat.objects.order_by("pk")
    alice.delete(f"chats/{first.pk}")
    assert sent_with(upstream) == [("image/png", PHOTO)]
    assert StoredAttachment.objects.count() == 1
    alice.delete(f"chats/{second.pk}")
    assert not StoredAttachment.objects.exists()


@pytest.mark.exhaustive
def test_large_ones_arrive_whole_and_few_bytes_are_sent_again(
    ask: OpenAI, alice: Client, upstream: FakeUpstream
) -> None:
    images = [PHOTO + bytes([number]) * size for number, size in enumerate((100_000, 4_000_000, 5_000_000))]
    talk = PictureTalk(ask)
    for number, data in enumerate(images):
        talk.turn(text(f"Picture {number}"), image(data))
        assert sent_with(upstream)[-1] == ("image/png", data)
    talk.turn(text("And who took them?"))
    assert sent_with(upstream) == [("image/png", images[2])]  # with the one before, it would be more than 8 MiB
    assert upstream.requests[-1].text.count("[image: 640×480 PNG, 4.0 MB]")
    reply = Message.objects.order_by("-seq")[0]
    assert alice.get(f"chats/{reply.chat_id}/messages/{reply.pk}/context").json()["verified"] is True


def test_links_are_passed_on_and_never_fetched(ask: OpenAI, upstream: FakeUpstream) -> None:
    url = "https://example.com/cat.png"
    PictureTalk(ask).turn(text("What is this?"), {"type": "image_url", "image_url": {"url": url}})
    assert sent_with(upstream) == [(url, b"")]
    assert f"[image: {url}]" in Message.objects.get(seq=1).content
    assert not StoredAttachment.objects.exists()


def test_a_new_answer_sees_the_image_again(ask: OpenAI, alice: Client, upstream: FakeUpstream) -> None:
    PictureTalk(ask).turn(text("What is this?"), image())
    reply = Message.objects.get(seq=2)
    alice.post(f"chats/{reply.chat_id}/messages/{reply.pk}/regenerate", json={"stream": False})
    assert sent_with(upstream) == [("image/png", PHOTO)]


def test_files_of_chats_have_the_bytes(ask: OpenAI, upstream: FakeUpstream) -> None:
    PictureTalk(ask).turn(text("What is this?"), image(), file())
    chat = Chat.objects.get()
    written = "".join(export_chat(chat))
    chat_again = import_chat(chat.owner, read_chats(written)[0])
    first, second = (one.messages.get(seq=1) for one in (chat, chat_again))
    assert (second.content, second.payload) == (first.content, first.payload)
    assert StoredAttachment.objects.get(size=len(PHOTO)).messages.count() == 2


def test_the_built_in_model_says_that_it_reads_none(alice: Client, settings: Any) -> None:
    settings.OPENAI_API_KEY = settings.OPENAI_BASE_URL = ""
    body = {"model": "arco", "messages": [{"role": "user", "content": [text("Look"), image()]}]}
    answer = alice.post("chat/completions", json=body)
    assert answer.status_code == 400
    assert "built-in model" in answer.json()["error"]["message"]
