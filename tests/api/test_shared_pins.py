"""Pins that hold in several chats of a person: lifted by hand or at once, ended by what contradicts them, and gone."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command

from chatmemory.text.markers import PINS_HEADING
from conversations.models import Across, Chat, Message
from memory.across.consent import set_consent
from memory.models import ConversationBrief, Pin
from memory.pins.pins import pin_statements
from tests.api.talking import Turn, error, pins
from tests.support.exhaustive import first_of, first_row_of
from tests.support.fakes.upstream import FakeUpstream
from tests.support.invariants import check_all
from tests.support.live_server import Client

VEGETARIAN = "I'm vegetarian."
METRIC = "Always answer in metric units."


@pytest.fixture
def sharing(alice: Client, upstream: FakeUpstream) -> Client:
    """Alice, whose chats share pins; what her messages state about her holds in all of them at once."""
    consent(lifts=True)
    return alice


def consent(*, lifts: bool, across: Across = Across.ALL) -> None:
    person = User.objects.get(username="alice")
    set_consent(person, person, across=across, lifts_pins=lifts)


def chat_of(client: Client, **columns: Any) -> str:
    """Make a chat with these values in its row."""
    chat: str = client.post("chats", json={}).json()["id"]
    Chat.objects.filter(pk=chat).update(**columns)
    return chat


def shown(client: Client, chat: str) -> list[str]:
    """The pins in the next prompt of the chat, newest first."""
    told = client.post(f"chats/{chat}/context", json={"message": "And now?"}).json()
    text = next((one["text"] for one in told["sections"] if one["kind"] == "pins"), PINS_HEADING)
    return [line.removeprefix("- ") for line in text.splitlines()[1:]]


def change(client: Client, chat: str, pin: dict[str, Any], **body: Any) -> Any:
    return client.patch(f"chats/{chat}/pins/{pin['id']}", json=body)


# By hand


def test_pin_of_the_person_holds_in_their_other_chats_only(alice: Client, bob: Client, upstream: FakeUpstream) -> None:
    consent(lifts=False)
    turn, other = Turn.of(alice.ask(METRIC)), chat_of(alice)
    (one,) = pins(alice, turn.chat)
    assert (one["scope"], one["muted"], one["used"]) == ("chat", False, 0)
    assert shown(alice, other) == []
    changed = change(alice, turn.chat, one, scope="person")
    assert (changed.status_code, changed.json()) == (200, {**one, "scope": "person"})
    assert shown(alice, other) == shown(alice, turn.chat) == [METRIC]
    assert shown(alice, chat_of(alice, project="house")) == [METRIC]
    reply = alice.ask("How far is it?", other)["message"]["id"]
    assert f"{PINS_HEADING}\n- {METRIC}" in upstream.calls("stream")[-1].text
    assert shown(bob, chat_of(bob)) == []
    assert shown(alice, chat_of(alice, temporary=True)) == shown(alice, chat_of(alice, across="off")) == []
    told = alice.get(f"chats/{other}/messages/{reply}/context").json()
    assert (told["exact"], METRIC in told["sections"][0]["text"]) == (True, True)
    alice.delete(f"chats/{turn.chat}/messages/{turn.question}")
    assert shown(alice, other) == []
    told = alice.get(f"chats/{other}/messages/{reply}/context").json()
    assert (told["exact"], told["why"]) == (False, "A pin that was in it has been removed or changed.")


@pytest.mark.parametrize("hidden", [{"temporary": True}, {"across": "off"}])
def test_pin_of_a_chat_that_shares_nothing_stays_there(
    hidden: dict[str, Any], alice: Client, upstream: FakeUpstream
) -> None:
    consent(lifts=True)
    chat = chat_of(alice, **hidden)
    made = alice.post(f"chats/{chat}/pins", json={"text": METRIC, "scope": "person"})
    assert (made.status_code, made.json()["scope"]) == (201, "person")
    alice.ask(VEGETARIAN, chat)
    assert [one["scope"] for one in pins(alice, chat)] == ["chat", "person"]
    assert sorted(shown(alice, chat)) == sorted([METRIC, VEGETARIAN])
    assert shown(alice, chat_of(alice)) == []


def test_pin_of_a_project_holds_in_chats_of_that_project(alice: Client, upstream: FakeUpstream) -> None:
    consent(lifts=False, across=Across.PINS)
    chat, alone = chat_of(alice, project="house"), chat_of(alice)
    assert alice.post(f"chats/{chat}/pins", json={"text": METRIC, "scope": "project"}).status_code == 201
    assert shown(alice, chat_of(alice, project="house")) == [METRIC]
    assert shown(alice, chat_of(alice, project="garden")) == shown(alice, alone) == []
    told = error(alice.post(f"chats/{alone}/pins", json={"text": METRIC, "scope": "project"}), 409, "conflict")
    assert told["message"] == "This chat belongs to no project, so its pins cannot hold in one."
    one = alice.post(f"chats/{alone}/pins", json={"text": "Be brief."}).json()
    error(change(alice, alone, one, scope="project"), 409, "conflict")


def test_own_pins_and_others_are_sorted_by_time_and_each_shown_once(alice: Client, upstream: FakeUpstream) -> None:
    consent(lifts=False)
    here, there = chat_of(alice), chat_of(alice)
    alice.post(f"chats/{here}/pins", json={"text": "First."})
    for text in ("Second.", "First."):
        alice.post(f"chats/{there}/pins", json={"text": text, "scope": "person"})
    alice.post(f"chats/{here}/pins", json={"text": "Third."})
    assert shown(alice, here) == ["Third.", "First.", "Second."]


def test_muted_pin_is_in_no_prompt_until_it_is_unmuted(alice: Client, upstream: FakeUpstream) -> None:
    consent(lifts=False)
    chat, other = chat_of(alice), chat_of(alice)
    one = alice.post(f"chats/{chat}/pins", json={"text": METRIC, "scope": "person"}).json()
    assert change(alice, chat, one, muted=True).json()["muted"]
    assert pins(alice, chat) == [{**one, "muted": True}]
    assert shown(alice, chat) == shown(alice, other) == []
    assert ConversationBrief.objects.get(chat_id=chat).pin_tokens == 0
    assert not change(alice, chat, one, muted=False).json()["muted"]
    assert shown(alice, chat) == shown(alice, other) == [METRIC]


def test_corrected_pin_has_the_new_text_and_goes_with_its_message(alice: Client, upstream: FakeUpstream) -> None:
    turn = Turn.of(alice.ask("Call me Ana."))
    (one,) = pins(alice, turn.chat)
    told = change(alice, turn.chat, one, text="Call me Ada.").json()
    assert told == {**one, "text": "Call me Ada.", "by": "user"}
    assert alice.post(f"{turn.path}/regenerate", json={"stream": False}).status_code == 200
    assert shown(alice, turn.chat) == ["Call me Ada."]
    alice.delete(f"chats/{turn.chat}/messages/{turn.question}")
    assert not Pin.objects.exists()


def test_change_rejects_invalid_requests(alice: Client, bob: Client, upstream: FakeUpstream) -> None:
    turn = Turn.of(alice.ask(METRIC))
    (one,) = pins(alice, turn.chat)
    wrong: list[dict[str, Any]] = [{"scope": "all"}, {"text": " "}, {"muted": "yes"}, {"kind": "identity"}]
    for body in wrong:
        error(change(alice, turn.chat, one, **body), 400, "invalid_request")
    error(change(alice, chat_of(alice), one, muted=True), 404, "not_found")
    error(change(bob, turn.chat, one, muted=True), 404, "not_found")
    alice.delete(f"chats/{turn.chat}/pins/{one['id']}")
    error(change(alice, turn.chat, one, muted=True), 404, "not_found")


# At once


def test_what_a_message_states_about_the_person_is_lifted(sharing: Client) -> None:
    said = f"{VEGETARIAN} I prefer tea over coffee. {METRIC} For the rest of this chat, answer in French."
    chat = sharing.ask(f"{said}\nRemember that I have two children.")["chat_id"]
    scopes = {one["text"]: one["scope"] for one in pins(sharing, chat)}
    assert sorted(scopes.values()) == ["chat", "chat", "person", "person", "person"]
    assert sorted(shown(sharing, chat_of(sharing))) == sorted([VEGETARIAN, "I prefer tea over coffee.", METRIC])
    house = chat_of(sharing, project="house")
    sharing.ask("Always answer in German.", house)
    assert "Always answer in German." in shown(sharing, chat_of(sharing, project="house"))
    assert "Always answer in German." not in shown(sharing, chat_of(sharing))


def test_nothing_is_lifted_unless_the_person_switched_that_on(alice: Client, upstream: FakeUpstream) -> None:
    consent(lifts=False)
    first = alice.ask(VEGETARIAN)["chat_id"]
    second = alice.ask("I'm no longer vegetarian.")["chat_id"]
    assert [one["scope"] for one in pins(alice, first) + pins(alice, second)] == ["chat", "chat"]


# What contradicts


CONTRADICTIONS = [
    (METRIC, "Never answer in metric units.", ["Never answer in metric units."]),
    ("Call me Sam.", "Please call me Ada.", ["Please call me Ada."]),
    ("My pronouns are he/him.", "My pronouns are they/them.", ["My pronouns are they/them."]),
    (VEGETARIAN, "I'm no longer vegetarian.", []),
    ("I'm allergic to nuts.", "I'm not allergic to nuts anymore.", []),
    (METRIC, "Never mind the metric units.", []),
]


@pytest.mark.parametrize(("earlier", "later", "held"), first_row_of(CONTRADICTIONS, 2))
@pytest.mark.parametrize("ends", first_of(["forgotten", "edited", "deleted"]))
def test_pin_ends_by_a_message_of_another_chat_and_holds_again_without_it(
    ends: str, earlier: str, later: str, held: list[str], sharing: Client
) -> None:
    first = Turn.of(sharing.ask(earlier))
    second = Turn.of(sharing.ask(later))
    new = chat_of(sharing)
    for chat in (first.chat, second.chat, new):
        assert shown(sharing, chat) == held
    assert pins(sharing, first.chat) == []
    (ended,) = pins(sharing, first.chat, ended="true")
    assert (ended["ended_by"], ended["ended_in"]) == (second.question, second.chat)
    assert ended["ended_at"]
    check_all()
    message = f"chats/{second.chat}/messages/{second.question}"
    if ends == "forgotten":
        assert sharing.delete(message).status_code == 204
    elif ends == "edited":
        assert sharing.patch(message, json={"content": "Hello."}).status_code == 200
    else:
        assert sharing.delete(f"chats/{second.chat}").status_code == 204
    for chat in (first.chat, new):
        assert shown(sharing, chat) == [earlier]
    assert pins(sharing, first.chat)[0]["ended_by"] is None
    check_all()


def test_pin_that_still_another_message_replaced_stays_ended(sharing: Client) -> None:
    first, second, third = (Turn.of(sharing.ask(f"Call me {name}.")) for name in ("Ann", "Bea", "Cleo"))
    assert shown(sharing, first.chat) == ["Call me Cleo."]
    sharing.delete(f"chats/{second.chat}/messages/{second.question}")
    assert shown(sharing, first.chat) == ["Call me Cleo."]
    (ended,) = pins(sharing, first.chat, ended="true")
    assert ended["ended_by"] == third.question
    sharing.patch(f"chats/{first.chat}/messages/{first.question}", json={"content": "Call me Dora."})
    assert shown(sharing, second.chat) == ["Call me Cleo."], "the message is older than the third"
    sharing.delete(f"chats/{third.chat}")
    assert shown(sharing, second.chat) == ["Call me Dora."]
    check_all()


def test_pins_of_one_chat_of_a_project_or_made_by_hand_are_not_ended_from_elsewhere(sharing: Client) -> None:
    alone = chat_of(sharing)
    sharing.ask(METRIC, alone)
    change(sharing, alone, pins(sharing, alone)[0], scope="chat")
    house = chat_of(sharing, project="house")
    sharing.ask("Call me Sam.", house)
    made = chat_of(sharing)
    sharing.post(f"chats/{made}/pins", json={"text": VEGETARIAN, "scope": "person"})
    for said in ("Never answer in metric units.", "Call me Ada.", "I'm no longer vegetarian."):
        sharing.ask(said)
    for chat, text in ((alone, METRIC), (house, "Call me Sam."), (made, VEGETARIAN)):
        assert [one["text"] for one in pins(sharing, chat)] == [text]


def test_statement_of_a_project_replaces_none_of_the_person_but_may_take_it_back(sharing: Client) -> None:
    chat = sharing.ask(METRIC)["chat_id"]
    sharing.ask(VEGETARIAN, chat)
    house = chat_of(sharing, project="house")
    sharing.ask("Never answer in metric units.", house)
    sharing.ask("I'm no longer vegetarian.", house)
    assert shown(sharing, chat) == [METRIC]
    assert shown(sharing, house) == ["Never answer in metric units.", METRIC]


# What becomes of them


@pytest.mark.parametrize("gone", ["chat", "message", "pin"])
def test_pin_is_in_no_prompt_after_its_source_is_gone(gone: str, sharing: Client) -> None:
    turn, other = Turn.of(sharing.ask(VEGETARIAN)), chat_of(sharing)
    assert shown(sharing, other) == [VEGETARIAN]
    (one,) = pins(sharing, turn.chat)
    path = {"chat": "", "message": f"/messages/{turn.question}", "pin": f"/pins/{one['id']}"}[gone]
    assert sharing.delete(f"chats/{turn.chat}{path}").status_code == 204
    assert shown(sharing, other) == []


def test_edit_keeps_where_a_pin_holds_and_that_it_is_muted(sharing: Client) -> None:
    turn = Turn.of(sharing.ask(f"{VEGETARIAN} {METRIC}"))
    by_text = {one["text"]: one for one in pins(sharing, turn.chat)}
    change(sharing, turn.chat, by_text[VEGETARIAN], scope="chat")
    change(sharing, turn.chat, by_text[METRIC], muted=True)
    said = f"Hello. {VEGETARIAN} {METRIC} Call me Ada."
    sharing.patch(f"chats/{turn.chat}/messages/{turn.question}", json={"content": said})
    kept = {one["text"]: (one["scope"], one["muted"]) for one in pins(sharing, turn.chat)}
    assert kept == {VEGETARIAN: ("chat", False), METRIC: ("person", True), "Call me Ada.": ("person", False)}


def test_export_has_pins_and_imports_to_the_same(sharing: Client, tmp_path: Any) -> None:
    turn = Turn.of(sharing.ask(f"{VEGETARIAN} {METRIC} Call me Sam."))
    sharing.ask("Never answer in metric units.", turn.chat)
    sharing.ask("Call me Ada.")
    for body in ({"text": "The code word is heron."}, {"message_id": turn.reply}):
        sharing.post(f"chats/{turn.chat}/pins", json=body)
    change(sharing, turn.chat, next(one for one in pins(sharing, turn.chat) if one["text"] == VEGETARIAN), muted=True)
    file = tmp_path / "chat.json"
    with file.open("w") as out:
        call_command("export_chat", turn.chat, stdout=out)
    call_command("import_chat", str(file), user="alice")
    copy = Chat.objects.latest("pk")

    def plain(chat: Any) -> list[tuple[Any, ...]]:
        rows = Pin.objects.filter(chat=chat).order_by("seq", "start", "pk")
        names = "text kind by scope message__seq seq start created_at ended_at"
        return list(zip(rows.values_list(*names.split()), [one.muted_at is None for one in rows], strict=True))

    assert plain(copy) == plain(turn.chat)
    told = {one["text"]: one for one in pins(sharing, str(copy.pk), ended="true")}
    for text, scope, muted, ended in (
        (VEGETARIAN, "person", True, False),
        (METRIC, "person", False, True),
        ("Call me Sam.", "person", False, True),
        ("The code word is heron.", "chat", False, False),
    ):
        assert (told[text]["scope"], told[text]["muted"], bool(told[text]["ended_at"])) == (scope, muted, ended), text
    assert list(Pin.objects.filter(ended_by__chat=copy).values_list("ended_by__seq", flat=True)) == [3]
    assert [len(chat["pins"]) for chat in sharing.get("me/export").json()["chats"]] == [6, 1, 6]
    check_all()


def test_branch_of_a_chat_shares_no_copy_of_its_pins(sharing: Client) -> None:
    def complete(*messages: str) -> dict[str, Any]:
        history = [{"role": "assistant" if at % 2 else "user", "content": text} for at, text in enumerate(messages)]
        answer = sharing.post("chat/completions", json={"model": "arco", "messages": history})
        assert answer.status_code == 200, answer.text
        said: dict[str, Any] = answer.json()["choices"][0]["message"]
        return said

    first = complete(VEGETARIAN)["content"]
    complete(VEGETARIAN, first, "What can I cook?")
    complete(VEGETARIAN, first, "What can I bake?")
    branch, origin = (str(one.pk) for one in Chat.objects.order_by("-pk"))
    (one,), (copied,) = pins(sharing, origin), pins(sharing, branch)
    assert (one["scope"], copied["scope"]) == ("person", "chat")
    assert shown(sharing, branch) == [VEGETARIAN]
    change(sharing, origin, one, muted=True)
    assert shown(sharing, chat_of(sharing)) == []


def test_turn_without_a_statement_reads_no_consent(sharing: Client, django_assert_max_num_queries: Any) -> None:
    turn = Turn.of(sharing.ask("How far is it?"))
    with django_assert_max_num_queries(0):
        pin_statements(Message(pk=turn.question, role="user", content="How far is it?"))
