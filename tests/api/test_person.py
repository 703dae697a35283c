"""What a person's chats share over HTTP: which project they are of, who decides, and what is remembered."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth.models import User
from knox.models import AuthToken

from conversations.accounts.end_users import create_app
from conversations.accounts.models import App, Scope
from conversations.models import Chat, Message
from memory.across.consent import level_of
from memory.models import Consent, ContextRecord, MemoryScope, Pin, ScopedMessage
from memory.usage import daily
from tests.api.talking import Turn, sdk
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Client

pytestmark = pytest.mark.postgres

ANNA, BEN = ({"X-Chatmemory-User": name} for name in ("anna", "ben"))
METRIC = "Always answer in metric units."
DECISION = ("across", "decided_by", "lifts_pins")


def memory(client: Client, path: str = "me", **options: Any) -> dict[str, Any]:
    answer = client.get(f"{path}/memory", **options)
    assert answer.status_code == 200, answer.text
    remembered: dict[str, Any] = answer.json()
    return remembered


def decided(client: Client, path: str = "me", **options: Any) -> tuple[Any, ...]:
    return tuple(memory(client, path, **options)[name] for name in DECISION)


def quote_elsewhere(turn: Turn) -> None:
    """Put the question of `turn` where other chats of its scope find it."""
    question = Message.objects.get(pk=turn.question)
    scope, _ = MemoryScope.objects.get_or_create(owner_id=question.owner_id, project=question.chat.project)
    ScopedMessage.objects.create(scope=scope, number=question.seq, chat=question.chat, seq=question.seq, terms="x")


# Projects


def test_project_is_given_at_first_message_changed_and_found(alice: Client, upstream: FakeUpstream) -> None:
    first = {"message": "Hello", "stream": False, "project": "  Thesis\n 2 ", "across": "pins"}
    thesis = alice.post("message/first", json=first, headers={"Idempotency-Key": "a"}).json()["chat_id"]
    told = alice.get(f"chats/{thesis}").json()
    assert (told["project"], told["across"]) == ("Thesis  2", "pins")
    other = alice.post("message/first", json={**first, "project": "Garden"}, headers={"Idempotency-Key": "a"})
    assert other.status_code == 422, "a key names one request"
    plain = alice.ask("Hi")["chat_id"]
    assert {"project": "", "across": "all"}.items() <= alice.get(f"chats/{plain}").json().items()

    def found(project: str) -> list[str]:
        return [one["id"] for one in alice.get("chats", params={"project": project}).json()["results"]]

    assert (found("Thesis  2"), found(""), found("Garden")) == ([thesis], [plain], [])
    assert alice.patch(f"chats/{plain}", json={"project": "Garden", "across": "off"}).status_code == 200
    assert (found("Garden"), found("")) == ([plain], [])
    assert alice.delete("chats", params={"project": "Garden"}).json()["count"] == 1
    for wrong in ({"project": "x" * 101}, {"project": 7}, {"across": "some"}, {"across": ""}):
        assert alice.post("chats", json=wrong).status_code == 400, wrong
        assert alice.post("message/first", json={**first, **wrong}).status_code == 400, wrong


def test_changed_sharing_is_told_to_memory(alice: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    chat = alice.post("chats", json={}).json()["id"]
    told: list[UUID] = []
    monkeypatch.setattr("conversations.chat_lifecycle.sharing_changed", lambda one: told.append(one.pk))
    for change in ({"title": "New"}, {"project": ""}, {"project": "Garden"}, {"across": "off"}, {"across": "off"}):
        alice.patch(f"chats/{chat}", json=change)
    assert told == [UUID(chat)] * 2


def test_openai_client_names_a_project_and_each_has_its_own_conversations(
    alice: Client, upstream: FakeUpstream
) -> None:
    def ask(path: str, project: str, **body: Any) -> Any:
        answer = alice.post(path, json={"model": "arco", **body}, headers={"X-Chatmemory-Project": project.encode()})
        assert answer.status_code == 200, answer.text
        return answer.json()

    hello = {"role": "user", "content": "Hello."}
    said = ask("chat/completions", "", messages=[hello])["choices"][0]["message"]
    history = [hello, {"role": "assistant", "content": said["content"]}, {"role": "user", "content": "And then?"}]
    for project in ("", "Büro", "Garden"):
        said = ask("chat/completions", project, messages=history)["choices"][0]["message"]
        ask("responses", project, input="Alone")
        assert alice.get("chats").json()["results"][0]["project"] == project
    goes_on = [*history, {"role": "assistant", "content": said["content"]}, {"role": "user", "content": "More."}]
    ask("chat/completions", "Garden", messages=goes_on)
    talks = Chat.objects.filter(title="Hello.").order_by("pk")
    assert [(one.project, one.last_seq) for one in talks] == [("", 4), ("Büro", 4), ("Garden", 6)]
    long = alice.post("responses", json={"model": "arco", "input": "x"}, headers={"X-Chatmemory-Project": "x" * 101})
    assert (long.status_code, long.json()["error"]["param"]) == (400, "x-chatmemory-project")


def test_branch_and_import_keep_project_and_sharing(alice: Client, upstream: FakeUpstream) -> None:
    with sdk(alice) as client:
        named = {"x-chatmemory-project": "Garden"}
        history: list[Any] = [{"role": "user", "content": "One."}]
        for text in ("Two.", "Three."):
            reply = client.chat.completions.create(model="arco", messages=history, extra_headers=named)
            history += [{"role": "assistant", "content": reply.choices[0].message.content}]
            history += [{"role": "user", "content": text}]
        Chat.objects.update(across="pins")
        client.chat.completions.create(
            model="arco", messages=[*history[:2], {"role": "user", "content": "Other."}], extra_headers=named
        )
    chats = Chat.objects.all()
    assert [(one.project, one.across) for one in chats] == [("Garden", "pins")] * 2
    exported = alice.get("me/export").json()["chats"]
    assert {(one["project"], one["across"]) for one in exported} == {("Garden", "pins")}


# Who decides


def test_wrong_choice_is_told_the_right_ones(alice: Client) -> None:
    for call, path in ((alice.put, "me/memory"), (alice.post, "chats")):
        answer = call(path, json={"across": "some"})
        assert (answer.status_code, answer.json()["error"]["message"]) == (400, "across: Choose one of off, pins, all.")


def test_person_comes_before_app_and_app_before_server(shop: Client, settings: Any) -> None:
    chat = Chat.objects.get(pk=shop.post("chats", json={}, headers=ANNA).json()["id"])
    steps: list[tuple[str, Any, tuple[Any, ...]]] = [
        ("server", "off", ("off", "server", False)),
        ("server", "pins", ("pins", "server", False)),
        ("app", "all", ("all", "app", False)),
        ("by the app", {"across": "pins", "lifts_pins": True}, ("pins", "app", True)),
        ("by the person", {"across": "all", "lifts_pins": False}, ("all", "person", False)),
        ("server", "off", ("all", "person", False)),
        ("app", "off", ("all", "person", False)),
    ]
    for who, what, expected in steps:
        if who == "server":
            settings.MEMORY_ACROSS_CHATS = what
        elif who == "app":
            App.objects.update(across=what)
        else:
            path, options = ("users/anna", {}) if who == "by the app" else ("me", {"headers": ANNA})
            answer = shop.put(f"{path}/memory", json=what, **options)
            assert answer.status_code == 200, answer.text
            assert tuple(answer.json()[name] for name in DECISION) == expected
        assert decided(shop, "users/anna") == decided(shop, headers=ANNA) == expected, who
        assert level_of(Chat.objects.select_related("app", "owner__consent").get(pk=chat.pk)) == expected[0]
    for across, level in (("pins", "pins"), ("off", "off"), ("all", "all")):
        shop.patch(f"chats/{chat.pk}", json={"across": across}, headers=ANNA)
        assert level_of(Chat.objects.get(pk=chat.pk)) == level, "a chat shares less, never more"
    assert decided(shop, headers=BEN) == ("off", "app", False), "a person decides for no other"
    consent = Consent.objects.get()
    assert memory(shop, headers=ANNA)["given_at"]
    assert consent.given_by is not None
    assert (consent.user.username, consent.given_by.username) == ("shop/anna", "shop/anna")


def test_sharing_is_decided_by_the_person_or_their_app_alone(
    alice: Client, shop: Client, client_of: Callable[..., Client]
) -> None:
    off = {"across": "off", "lifts_pins": False}
    shop.post("chats", json={}, headers=ANNA)
    user = User.objects.get(username="alice")
    reader, plain = client_of(user, Scope.READ_ONLY), client_of(user)
    other = client_of(create_app("bank").user, Scope.ACT_FOR_USERS)
    assert reader.put("me/memory", json=off).status_code == 403
    assert decided(reader) == ("off", "server", False)
    for client, status in ((other, 404), (plain, 403), (reader, 403)):
        assert client.get("users/anna/memory").status_code == status
        assert client.put("users/anna/memory", json=off).status_code == (status if client is other else 403)
    assert shop.put("users/anna/memory", json=off, headers=ANNA).status_code == 403, "the header may be the person's"
    assert shop.put("me/memory", json=off, headers=BEN).status_code == 404, "only a POST makes an end user"
    for wrong in ({}, {"across": "some"}, {"across": "off", "lifts_pins": 1}, {**off, "x": 1}):
        assert alice.put("me/memory", json=wrong).status_code == 400, wrong
    assert not Consent.objects.exists()


# What is remembered


def test_lines_and_quoted_messages_are_shown_with_their_use(alice: Client, bob: Client, upstream: FakeUpstream) -> None:
    home = Turn.of(alice.ask(f"{METRIC} My cat is Mia. {'x' * 400}", project="Home"))
    alice.patch(f"chats/{home.chat}", json={"title": "Cats"})
    quote_elsewhere(home)
    alice.post(f"chats/{home.chat}/pins", json={"text": "only here"})
    ended, _off, temporary = (
        Turn.of(alice.ask("Call me Ada.", **more)) for more in ({}, {"across": "off"}, {"temporary": True})
    )
    Pin.objects.exclude(text="only here").update(scope="person")
    alice.delete(f"chats/{ended.chat}/pins/{alice.get(f'chats/{ended.chat}/pins').json()['results'][0]['id']}")
    pin = Pin.objects.get(text=METRIC)
    assert memory(alice)["quoted"] == [], "what no prompt has quoted is not shown"

    elsewhere = [[home.chat, [[1, 0, 5], [1, 9, 12]]]]
    record = ContextRecord.objects.get(reply=UUID(temporary.reply))
    record.plan |= {"elsewhere": elsewhere, "pins": [[str(pin.pk), None]]}
    record.save(update_fields=["plan"])
    for _ in range(2):
        daily.count_replies(1)

    told = memory(alice)
    (line,), (quoted,) = told["results"], told["quoted"]
    same = {"chat_id": home.chat, "chat_title": "Cats", "message_id": home.question, "muted": False}
    of_pin = {"id": str(pin.pk), "text": METRIC, "scope": "person", "project": "Home", "by": "rule", "used": 1}
    assert {**same, **of_pin}.items() <= line.items()
    assert {**same, "role": "user", "used": 1}.items() <= quoted.items()
    assert (len(quoted["text"]), line["said_at"]) == (300, quoted["said_at"])
    assert memory(bob)["results"] == memory(bob)["quoted"] == []
    assert alice.delete(f"chats/{home.chat}/messages/{home.question}").status_code == 204
    assert memory(alice)["results"] == memory(alice)["quoted"] == [], "both go with their message"


def test_quoted_message_is_shown_once_prompts_had_it(alice: Client, upstream: FakeUpstream) -> None:
    assert alice.put("me/memory", json={"across": "all"}).status_code == 200
    said = Turn.of(alice.ask("The gate code of my allotment is QX-4471."))
    Turn.of(alice.ask("What was the gate code of my allotment?"))
    assert "QX-4471" in upstream.calls("stream")[-1].text
    daily.count_replies(1)
    (quoted,) = memory(alice)["quoted"]
    assert (quoted["message_id"], quoted["used"]) == (said.question, 1)


def test_counting_uses_costs_no_query_without_shared_pins(
    alice: Client, upstream: FakeUpstream, django_assert_max_num_queries: Any
) -> None:
    alice.ask(METRIC)
    alice.ask("And now?", alice.get("chats").json()["results"][0]["id"])
    with django_assert_max_num_queries(100) as queries:
        daily.count_replies(1)
    assert not [one for one in queries.captured_queries if one["sql"].startswith("UPDATE") and "used" in one["sql"]]
    assert Pin.objects.get().used == 0


def test_lines_come_in_pages_newest_first(alice: Client) -> None:
    chat = alice.post("chats", json={"project": "Thesis"}).json()["id"]
    for number in range(3):
        alice.post(f"chats/{chat}/pins", json={"text": f"pin {number}"})
    Pin.objects.update(scope="project")
    first = memory(alice, params={"limit": 2})
    rest = alice.http.get(first["next"]).json()
    assert [one["text"] for one in (*first["results"], *rest["results"])] == ["pin 2", "pin 1", "pin 0"]
    assert alice.get("me/memory?search=x").status_code == 400


def test_account_export_and_erasure_have_it_all(alice: Client, upstream: FakeUpstream) -> None:
    assert alice.put("me/memory", json={"across": "all", "lifts_pins": True}).status_code == 200
    alice.ask("My cat is Mia.", project="Home")
    assert ScopedMessage.objects.exists()
    exported = alice.get("me/export").json()
    assert {"across": "all", "lifts_pins": True, "by": "alice"}.items() <= exported["consent"].items()
    assert exported["consent"]["given_at"]
    assert [(one["project"], one["across"]) for one in exported["chats"]] == [("Home", "all")]
    user = User.objects.get(username="alice")
    assert alice.erase(confirm=user.username).status_code == 204
    assert not any(model._base_manager.exists() for model in (User, AuthToken, Consent, MemoryScope, ScopedMessage))
