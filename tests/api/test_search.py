"""Search in all of one's own messages, and in no one else's."""

from typing import Any

import pytest

from conversations.models import Chat
from tests.api.talking import MESSAGE_KEYS, error
from tests.support.exhaustive import first_of, first_row_of
from tests.support.factories import add_turn, add_turns, make_chat, make_user
from tests.support.folds import WORDS
from tests.support.live_server import Client

pytestmark = pytest.mark.postgres


def chat_of(name: str, *turns: tuple[str, str | None]) -> Chat:
    chat = make_chat(make_user(name))
    add_turns(chat, turns)
    return chat


def results(client: Client, q: str, **query: Any) -> list[dict[str, Any]]:
    answer = client.post("search", json={"q": q, **query})
    assert answer.status_code == 200, answer.text
    body = answer.json()
    assert set(body) == {"results", "next", "previous"}
    found: list[dict[str, Any]] = body["results"]
    for one in found:
        assert set(one) == {"chat_id", "message", "snippet"}
        assert set(one["message"]) == set(MESSAGE_KEYS)
        assert one["chat_id"] == one["message"]["chat_id"]
    return found


def marked(hit: dict[str, Any]) -> list[str]:
    text = hit["snippet"]["text"]
    return [text[start:end] for start, end in hit["snippet"]["matches"]]


def test_the_best_message_of_all_chats_comes_first(alice: Client) -> None:
    chat_of("alice", ("My dentist is in Rome", "Noted."), ("Is the appointment fixed?", "No."))
    best = chat_of("alice", ("The dentist appointments are on 12 May.", "Good luck!"))
    found = results(alice, "dentist appointment")
    assert (found[0]["chat_id"], found[0]["message"]["seq"]) == (str(best.pk), 1)
    assert len(found) == 3
    assert marked(found[0]) == ["dentist", "appointments"]


def test_a_long_message_is_shown_by_the_passage_that_matches(alice: Client) -> None:
    chat = make_chat(make_user("alice"))
    add_turn(chat, "Tell me", f"{WORDS * 30}. The ferry to Zanzibar leaves from pier 44. {WORDS * 30}")
    (hit,) = results(alice, "ferries to Zanzibar")
    assert "ferry to Zanzibar leaves from pier 44." in hit["snippet"]["text"]
    assert len(hit["snippet"]["text"]) < 400
    assert marked(hit) == ["ferry", "Zanzibar"]


@pytest.mark.parametrize(
    ("said", "asked", "match"),
    first_row_of(
        [
            ("我的护照号码是E1234567。", "护照", ["护照"]),
            ("駅前のカフェは九時に開きます。", "カフェ", ["カフェ"]),
            ("내 여권 번호는 M1234입니다", "여권", ["여권"]),
            ("Мы летим в Казань", "Казани", ["Казань"]),
            ("رقم الحجز هو 5521", "الحجز 5521", ["الحجز", "5521"]),
            ("Der Schlüssel liegt bei Müllers", "schluessel müller", ["Müllers"]),
            ("see /srv/app/main.py:42", "main.py", ["/srv/app/main.py:42"[1:]]),
            ("on 2024-05-03 we met", "May 3rd, 2024", ["2024-05-03"]),
        ],
        2,
    ),
)
def test_search_finds_in_many_scripts(alice: Client, said: str, asked: str, match: list[str]) -> None:
    chat_of("alice", ("Something else entirely", "Yes."), (said, "OK"))
    found = results(alice, asked)
    assert found[0]["message"]["content"] == said
    assert marked(found[0]) == match


@pytest.mark.parametrize(
    "q",
    first_of(
        [
            "the of and what",
            "🙂🙂",
            '"quoted" AND (zeppelin OR NOT *) NEAR/3 ^a:b -c + {x} \\',
            "'; DROP TABLE conversations_message; --",
            "a" * 2000,
            "zeppelin & | ! <-> :* ''",
            "\u200b\ufeff\u202e x",
            "%s %(x)s {0}",
            "- - -",
        ],
        3,
    ),
)
def test_search_with_odd_queries_succeeds(alice: Client, q: str) -> None:
    chat_of("alice", ("A zeppelin", "Yes."))
    answer = alice.post("search", json={"q": q})
    assert answer.status_code == 200, answer.text
    assert len(answer.json()["results"]) == ("zeppelin" in q)


@pytest.mark.parametrize("q", ["", "   ", "a" * 100_000, "a\0b"])
def test_search_rejects_invalid_queries(alice: Client, q: str) -> None:
    assert "q" in error(alice.post("search", json={"q": q}), 400, "invalid_request")["details"]
    assert "q" in error(alice.post("search", json={}), 400, "invalid_request")["details"]
    assert "limit" in error(alice.post("search", json={"q": "x", "limit": 0}), 400, "invalid_request")["details"]


def test_search_respects_limit(alice: Client) -> None:
    chat_of("alice", *[(f"zeppelin {number}", "Yes.") for number in range(60)])
    assert len(results(alice, "zeppelin")) == 20
    assert len(results(alice, "zeppelin", limit=50)) == 50
    assert results(alice, "zeppelin 7", limit=1)[0]["message"]["content"] == "zeppelin 7"
