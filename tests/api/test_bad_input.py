"""Bad input: each is answered with an error of the common form, or stored harmlessly, and nothing is lost."""

import gzip
import json
import re
from itertools import product
from typing import Any
from uuid import UUID

import pytest

from conversations.models import ActiveReply, Chat, Message
from tests.api.talking import error, messages
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Client

NUL, LONE = "a\0b", "a\ud800b"
FIRST = "message/first"


def raw(client: Client, path: str, body: str | bytes, **headers: str) -> Any:
    """POST exactly these bytes as JSON."""
    content = body.encode() if isinstance(body, str) else body
    return client.post(path, content=content, headers={"Content-Type": "application/json", **headers})


def nothing_was_kept() -> bool:
    return not (Chat.objects.exists() or Message.objects.exists() or ActiveReply.objects.exists())


def test_the_message_names_the_fields_that_are_wrong(alice: Client) -> None:
    for path, body, told in (
        ("message", {"message": "Hello."}, "chat_id: This field is required."),
        (FIRST, {"mesage": "x"}, "mesage: Unknown field. Did you mean message? message: This field is required."),
        (FIRST, {"message": "x" * 200_001}, "message: This has 200,001 characters; at most 200,000 are allowed."),
        ("chats", {"retain_days": 40_000}, "retain_days: This must be at most 36,500."),
    ):
        assert error(alice.post(path, json=body), 400, "invalid_request")["message"] == told
    long = error(alice.post("chats", json={"o" * 5000: 1}), 400, "invalid_request")
    assert len(long["message"]) == 300


FIELDS: list[tuple[str, dict[str, Any]]] = [
    ("model_variant", {"model_variant": "gpt-17"}),
    ("model_variant", {"model_variant": LONE}),
    ("policy", {"policy": "none"}),
    ("unknown", {"unknown": 1}),
    ("messages", {"messages": []}),
    ("message", {"message": ""}),
    ("message", {"message": " \n\t "}),
    ("message", {"message": 5}),
    ("message", {"message": "x" * 200_001}),
    ("instructions", {"instructions": "x" * 20_001}),
    ("stream", {"stream": "perhaps"}),
    ("stream", {"stream": 0}),
    ("sources", {"sources": "x"}),
    ("sources.0", {"sources": ["x"]}),
    ("sources", {"sources": ["x"] * 201}),
    ("sources.1.url", {"sources": [{"text": "x"}, {"text": "x", "url": "y"}]}),
    ("sources.0.text", {"sources": [{"text": "x" * 200_001}]}),
    ("sources.0.title", {"sources": [{"text": "x", "title": LONE}]}),
    ("metadata", {"metadata": []}),
    ("metadata", {"metadata": {NUL: 1}}),
    ("metadata", {"metadata": {"a": [{"b": LONE}]}}),
    ("a?b", {LONE: 1}),
]


def test_a_wrong_field_is_named_and_nothing_is_kept(alice: Client, upstream: FakeUpstream) -> None:
    for field, wrong in FIELDS:
        body = json.dumps({"message": "Hello", **wrong})
        details = error(raw(alice, FIRST, body), 400, "invalid_request")["details"]
        assert field in details, body[:100]
        assert all(isinstance(text, str) for texts in details.values() for text in texts)
    assert nothing_was_kept()
    assert upstream.requests == []


def test_many_unknown_fields_are_named_in_part(alice: Client, upstream: FakeUpstream) -> None:
    body = json.dumps({"message": "x", **{f"f{n}": 1 for n in range(100_000)}})
    assert 1 <= len(error(raw(alice, FIRST, body), 400, "invalid_request")["details"]) < 100


BODIES: list[str | bytes] = [
    "",
    "{",
    '{"message": NaN}',
    '{"message": "x", "metadata": {"a": NaN}}',
    '{"message": "x", "metadata": {"a": 1e999}}',
    "[]",
    b"\xff\xfe\x00",
    b'{"message": "\xff"}',
    '{"message": "x"}'.encode("utf-16"),
]


def test_a_body_that_is_no_json_object(alice: Client, upstream: FakeUpstream) -> None:
    for body in BODIES:
        error(raw(alice, FIRST, body), 400, "invalid_request")
    assert nothing_was_kept()


def test_compressed_body_is_refused_with_what_to_send(alice: Client, upstream: FakeUpstream) -> None:
    body = gzip.compress(b'{"message": "x"}')
    for path in (FIRST, "chat/completions", "responses"):
        answer = raw(alice, path, body, **{"Content-Encoding": "gzip"})
        assert "without `Content-Encoding`" in answer.json()["error"]["message"]
        assert answer.status_code == 400
    assert nothing_was_kept()


def test_metadata_of_any_depth_is_kept_or_refused(alice: Client, upstream: FakeUpstream) -> None:
    for depth in (50, 120, 500, 990):
        nested = '{"message": "x", "stream": false, "metadata": {"a": %s}}' % ("[" * depth + "]" * depth)
        answer = raw(alice, FIRST, nested)
        if depth <= 50:
            assert answer.status_code == 200
            assert messages(alice, answer.json()["chat_id"])[0]["metadata"] == json.loads(nested)["metadata"]
        else:
            error(answer, 400, "invalid_request")


def test_a_charset_is_no_way_in(alice: Client, upstream: FakeUpstream) -> None:
    for charset in ("utf-8", "utf-16", "rot13", "zlib", "nonsense"):
        kind = {"Content-Type": f"application/json; charset={charset}"}
        answer = alice.post(FIRST, content=b'{"message": "x", "stream": false}', headers=kind)
        assert answer.status_code == 200, "JSON is UTF-8, whatever is said about it"
        assert alice.get("chats?search=%ff%00x", headers=kind).status_code == 200


def test_another_content_type(alice: Client, upstream: FakeUpstream) -> None:
    for kind in ("text/plain", "multipart/form-data; boundary=x", "nonsense"):
        answer = alice.post(FIRST, content=b'{"message": "x"}', headers={"Content-Type": kind})
        told = error(answer, 415, "unsupported_media_type")
        assert "Send `Content-Type: application/json`." in told["message"]
    assert nothing_was_kept()


def test_accept_header_unsupported_returns_406(alice: Client, upstream: FakeUpstream) -> None:
    for accept in ("text/html", "image/png", "application/xml"):
        headers = {"Accept": accept}
        error(alice.post(FIRST, json={"message": "x"}, headers=headers), 406, "not_acceptable")
        error(alice.get("chats", headers=headers), 406, "not_acceptable")
    assert nothing_was_kept()


def test_a_method_that_is_not_there(alice: Client) -> None:
    for method in ("GET", "PUT", "PATCH", "DELETE"):
        answer = alice.http.request(method, f"/v1/{FIRST}", json={"message": "x"})
        told = error(answer, 405, "method_not_allowed")
        assert told["message"].endswith("Allowed here: POST.")
        assert "POST" in answer.headers["allow"]
    for method, path in product(("TRACE", "PROPFIND", "DISPATCH"), (FIRST, "chats")):
        answer = alice.http.request(method, f"/v1/{path}")
        assert answer.status_code in (400, 405), answer.text  # 400: the HTTP parser itself refuses
    assert nothing_was_kept()


LARGE = b'{"message": "' + b"x" * 5_000_000 + b'"}'


def test_a_body_that_is_too_large(alice: Client, upstream: FakeUpstream) -> None:
    error(raw(alice, FIRST, LARGE), 413, "too_large")

    def pieces() -> Any:
        for start in range(0, len(LARGE), 65536):
            yield LARGE[start : start + 65536]

    unannounced = alice.http.post(f"/v1/{FIRST}", content=pieces(), headers={"Content-Type": "application/json"})
    error(unannounced, 413, "too_large")
    assert re.fullmatch(r"[0-9a-f]{32}", unannounced.headers["x-request-id"])
    named = raw(alice, FIRST, LARGE, **{"X-Request-ID": "mine-0001"})
    assert named.headers["x-request-id"] == "mine-0001"
    assert nothing_was_kept()
    alice.ask("The next one works.")


@pytest.mark.exhaustive
def test_a_long_message_within_the_limit_is_kept(alice: Client, upstream: FakeUpstream) -> None:
    for long in ("x" * 200_000, "a" + " " * 199_999, "^" * 200_000, "\u0301" * 200_000, "😀" * 200_000):
        answer = alice.ask(long)
        assert messages(alice, answer["chat_id"])[0]["content"] == long
        assert answer["message"]["status"] == "complete"


def test_strange_text_is_text(alice: Client, upstream: FakeUpstream) -> None:
    disarmed = {"<|endoftext|>": "<|endoftext| >", "<|im_start|>": "<|im_start| >"}  # on their way to the model
    others = [
        "\ufeff",
        "\u200b\u202e",
        "\x01\x1b[31m",
        "\ufffe\uffff",
        "<script>alert(1)</script>",
        "' OR 1=1; -- \x7f",
    ]
    for text in (*disarmed, *others):
        metadata = {"path": "C:\\u0000\\x", "": text, "__proto__": {"a": 10**40}, "é": "<script>", "n": -0.0}
        question, reply = messages(alice, alice.ask(f"{text} and more", metadata=metadata)["chat_id"])
        assert (question["content"], question["metadata"]) == (f"{text} and more", metadata)
        assert reply["content"] == f"You said: {disarmed.get(text, text)} and more"


def test_invalid_id_returns_404(alice: Client, upstream: FakeUpstream) -> None:
    for bad in ("x", "%00", "..", "01a1fbb8-da27-7442-9df0-b5db372875f", "é"):
        for path in (f"chats/{bad}", f"chats/{bad}/messages", f"chats/{bad}/brief"):
            error(alice.get(path), 404, "not_found")
        refused = alice.post("message", json={"message": "x", "chat_id": bad})
        assert "chat_id" in error(refused, 400, "invalid_request")["details"]


def test_an_unknown_path_names_the_documentation(alice: Client) -> None:
    for path in ("", "conversations", "chats/", f"chats/{UUID(int=0)}/briefs", "message/second"):
        for answer in (alice.get(path), alice.post(path, json={"input": "x"}), alice.delete(path)):
            assert "see /v1/docs" in error(answer, 404, "not_found")["message"]


def test_queries_that_make_no_sense(alice: Client, upstream: FakeUpstream) -> None:
    chat = alice.ask("x")["chat_id"]
    alice.ask("y")
    lists = ("chats", f"chats/{chat}/messages")
    cursors = "x %00 cD14 cD0tMQ== cD0lMDA= bz0xMDAwMDAwMDAwMDAw é cD05OTk5OTk5OTk5OTk5OTk5OTk5OTk5 cD1lbGVwaGFudA=="
    for cursor in cursors.split():
        for path in lists:
            answer = alice.get(f"{path}?cursor={cursor}")
            if answer.status_code != 200:  # some are cursors of another list, or past its end
                assert "cursor" in error(answer, 400, "invalid_request")["details"]
    for path in lists:
        for limit in ("", "x", "-1", "0", "201", "100000", "99999999999999999999", "%00"):
            told = error(alice.get(f"{path}?limit={limit}"), 400, "invalid_request")
            assert told["details"]["limit"] == ["This must be a whole number from 1 to 200."]
        assert alice.get(f"{path}?limit=200").status_code == 200
        told = error(alice.get(f"{path}?sort=title"), 400, "invalid_request")
        assert told["message"].startswith("sort: Unknown parameter. Known: cursor, limit, ")
    error(alice.get(f"chats/{chat}/messages?order=sideways"), 400, "invalid_request")
    for since in ("", "x", "9999-99-99", "0001-01-01T00:00:00+14:00", "%00"):
        error(alice.get(f"usage?since={since}"), 400, "invalid_request")
    error(alice.get(f"chats/{chat}/revisions/99999999999999999999999"), 404, "not_found")
    wrong: dict[str, list[dict[str, Any]]] = {
        "resummarize": [{"mode": LONE}, {"mode": "x"}, {}, {"mode": ["update"]}, {"mode": "update", "x": 1}],
        "context": [
            *({"budget": wrong} for wrong in (-1, "5", True, "1e999", 10**30)),
            *({"message": NUL}, {"policy": LONE}),
        ],
    }
    for path, bodies in wrong.items():
        for body in bodies:
            error(raw(alice, f"chats/{chat}/{path}", json.dumps(body)), 400, "invalid_request")


def test_wrong_fields_of_a_chat(alice: Client) -> None:
    chat = alice.post("chats", json={"title": "mine"}).json()
    wrong: list[Any] = [NUL, LONE, None, 10**400, [], {NUL: LONE}, "x" * 20_001]
    for field, value in product(("title", "instructions", "policy", "options", "metadata"), wrong):
        body = json.dumps({field: value})
        assert field in error(raw(alice, "chats", body), 400, "invalid_request")["details"]
        answer = alice.patch(f"chats/{chat['id']}", content=body, headers={"Content-Type": "application/json"})
        assert field in error(answer, 400, "invalid_request")["details"]
    assert alice.get(f"chats/{chat['id']}").json() == chat
