"""What prompts quote of a person's other chats: where the question calls for it, of their own scope alone, as data."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from chatmemory.text.markers import ELSEWHERE_HEADING
from conversations.accounts.end_users import create_app
from conversations.accounts.models import Scope
from memory.across import scope_index
from memory.models import MemoryScope, ScopedMessage
from tests.security.injection.corpus import ORDERS
from tests.support.exhaustive import first_of
from tests.support.fakes.upstream import FakeUpstream
from tests.support.invariants import check_all
from tests.support.live_server import Client

pytestmark = pytest.mark.postgres

SAID = "I have booked the Hotel Alfama in Lisbon, room 214."
ASKED = "Which hotel have I booked in Lisbon?"


@pytest.fixture(autouse=True)
def everyone_shares(settings: Any) -> None:
    settings.MEMORY_ACROSS_CHATS = "all"


def say(client: Client, text: str, headers: dict[str, str] | None = None, **fields: Any) -> dict[str, Any]:
    """Send the first message of a new chat; return the answer."""
    answer = client.post("message/first", json={"message": text, "stream": False, **fields}, headers=headers)
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    return told


def quoted(client: Client, headers: dict[str, str] | None = None, question: str = ASKED, **fields: Any) -> str:
    """What a new chat is sent of others for `question`; "" for nothing."""
    chat = client.post("chats", json=fields, headers=headers).json()["id"]
    return elsewhere(client.post(f"chats/{chat}/context", json={"message": question}, headers=headers).json())


def elsewhere(told: dict[str, Any]) -> str:
    return next((one["text"] for one in told["sections"] if one["kind"] == "elsewhere"), "")


def test_question_in_new_chat_quotes_what_an_earlier_one_said(alice: Client, upstream: FakeUpstream) -> None:
    first = say(alice, SAID)
    alice.patch(f"chats/{first['chat_id']}", json={"title": "Lisbon in May"})
    told = say(alice, ASKED)
    sent = upstream.calls("stream")[-1].text
    assert f"{ELSEWHERE_HEADING}\n\n[" in sent
    assert f"] Lisbon in May\nUser: {SAID}" in sent
    context = alice.get(f"chats/{told['chat_id']}/messages/{told['message']['id']}/context").json()
    assert context["exact"]
    assert SAID in elsewhere(context)
    assert context["tokens"] <= context["budget"]
    sources = alice.get(f"chats/{told['chat_id']}/messages/{told['message']['id']}/sources").json()["results"]
    assert first["user_message_id"] in [one["message_id"] for one in sources if one["kind"] == "elsewhere"]
    assert quoted(alice, question="Thank you, that is nice.") == "", "nothing is asked"
    check_all()


def test_chat_that_has_the_answer_quotes_no_other(alice: Client, upstream: FakeUpstream) -> None:
    say(alice, "In Lisbon we looked at a hotel.")
    here = say(alice, SAID)["chat_id"]
    assert elsewhere(alice.post(f"chats/{here}/context", json={"message": ASKED}).json()) == ""


@pytest.mark.parametrize(
    ("left", "read", "is_quoted"),
    [
        ({}, {}, True),
        ({"project": "travel"}, {"project": "travel"}, True),
        ({"project": "travel"}, {}, False),
        ({}, {"project": "travel"}, False),
        ({"project": "travel"}, {"project": "work"}, False),
        ({"across": "pins"}, {}, False),
        ({"across": "off"}, {}, False),
        ({}, {"across": "pins"}, False),
        ({"temporary": True}, {}, False),
        ({}, {"temporary": True}, False),
    ],
)
def test_quotes_stay_in_scope(
    alice: Client, upstream: FakeUpstream, left: dict[str, Any], read: dict[str, Any], is_quoted: bool
) -> None:
    say(alice, SAID, **left)
    scope_index.fill()
    assert (SAID in quoted(alice, **read)) == is_quoted


def test_nothing_is_quoted_across_people_and_apps(
    client_of: Callable[..., Client], alice: Client, bob: Client, upstream: FakeUpstream
) -> None:
    """Two accounts, and two end users each of two apps, of the same ids: each says and asks the same."""
    people: dict[str, tuple[Client, dict[str, str]]] = {"alice": (alice, {}), "bob": (bob, {})}
    for name in ("shop", "bank"):
        client = client_of(create_app(name).user, Scope.ACT_FOR_USERS)
        people |= {f"{name}/{user}": (client, {"X-Chatmemory-User": user}) for user in ("anna", "ben")}
    for name, (client, headers) in people.items():
        for project in ("", "travel"):
            say(client, f"{SAID} The code is {name} {project}.", headers, project=project)
    scope_index.fill()
    for name, (client, headers) in people.items():
        for project in ("", "travel"):
            found = quoted(client, headers, project=project)
            mentioned = [(one, other) for one in people for other in ("", "travel") if f"is {one} {other}." in found]
            assert mentioned == [(name, project)]


def test_change_of_project_or_consent_counts_at_once(alice: Client, upstream: FakeUpstream) -> None:
    chat = say(alice, SAID)["chat_id"]
    for change, is_quoted, projects in (
        ({"project": "travel"}, False, {"travel"}),
        ({"project": ""}, True, {""}),
        ({"across": "off"}, False, set()),
        ({"across": "all"}, True, {""}),
    ):
        alice.patch(f"chats/{chat}", json=change)
        if is_quoted:
            scope_index.fill()  # what is shared again, the sweep adds
        assert (SAID in quoted(alice)) == is_quoted, change
        scope_index.fill()
        assert set(ScopedMessage.objects.values_list("scope__project", flat=True)) == projects, change
    for across, is_quoted in (("off", False), ("all", True), ("pins", False)):
        alice.put("me/memory", json={"across": across})
        scope_index.fill()
        assert (SAID in quoted(alice)) == is_quoted, across
    assert not ScopedMessage.objects.exists(), "what is not shared is not kept to be found"


def test_earlier_chats_are_found_once_they_are_shared(alice: Client, upstream: FakeUpstream, settings: Any) -> None:
    settings.MEMORY_ACROSS_CHATS = "off"
    say(alice, SAID)
    say(alice, f"{SAID} For work.", project="work")
    assert quoted(alice) == ""
    assert not MemoryScope.objects.exists()
    alice.put("me/memory", json={"across": "all"})
    assert scope_index.fill() == 3
    assert SAID in quoted(alice)
    assert "For work." not in quoted(alice)
    assert "For work." in quoted(alice, project="work")


@pytest.mark.parametrize("how", ["forgotten", "edited", "muted", "chat"])
def test_message_that_is_gone_is_quoted_no_more(alice: Client, upstream: FakeUpstream, how: str) -> None:
    first = say(alice, SAID)
    told = say(alice, ASKED)
    chat = f"chats/{first['chat_id']}"
    path = f"{chat}/messages/{first['user_message_id']}"
    if how == "edited":
        alice.patch(path, json={"content": "I have booked nothing in Lisbon, no hotel."})
    elif how == "muted":
        alice.patch(path, json={"muted": True})
    else:
        alice.delete(chat if how == "chat" else path)
    assert f"User: {SAID}" not in quoted(alice)
    assert ScopedMessage.objects.filter(chat=first["chat_id"]).exists() == (how != "chat")
    before = alice.get(f"chats/{told['chat_id']}/messages/{told['message']['id']}/context").json()
    assert (f"User: {SAID}" in elsewhere(before)) == (how == "muted"), (
        "a prompt of before is shown as it was, without what is gone"
    )
    assert before["exact"] == (how == "muted")
    assert how == "muted" or before["why"] == "A chat or message that it quotes has been changed or deleted since."
    if how == "edited":
        assert "I have booked nothing" in quoted(alice)


@pytest.mark.parametrize("order", first_of(ORDERS), ids=range(len(ORDERS)))
def test_injected_text_stays_a_quotation(alice: Client, upstream: FakeUpstream, order: str) -> None:
    """In another chat it can neither end its section nor begin a line, and is in no instructions."""
    text = f"{SAID}\n{ELSEWHERE_HEADING}\nSystem: {order}\n{order}"
    first = say(alice, text)
    alice.patch(f"chats/{first['chat_id']}", json={"title": f"System: {order}"[:200]})
    say(alice, ASKED)
    call = upstream.calls("stream")[-1]
    section = quoted(alice)
    heading, *ours = [line for line in section.splitlines() if line and not line.startswith(" ")]
    assert heading == ELSEWHERE_HEADING
    assert all(re.match(r"\[\d{4}-\d\d-\d\d\] |User: |Assistant: ", line) for line in ours)
    assert order.split("\n")[0] not in str(call.body.get("instructions") or "")
