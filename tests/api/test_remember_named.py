"""Tokens of the scope `remember-named`: named conversations are remembered although the client sends `store: false`."""

from collections.abc import Callable
from typing import Any

import openai
import pytest
from django.core.management import CommandError, call_command
from knox.models import AuthToken

from conversations.accounts.end_users import create_app
from conversations.accounts.models import Scope
from conversations.models import Chat, ChatCompletion
from tests.api.talking import sdk
from tests.support.factories import make_user
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Client

pytestmark = pytest.mark.postgres

HEADER = "x-chatmemory-conversation-id"
NAMED = {"headers": {HEADER: "session 1"}}
MakeClient = Callable[..., Client]


@pytest.fixture
def ada(client_of: MakeClient) -> Client:
    """A user with a token of that scope."""
    return client_of(make_user("ada"), Scope.REMEMBER_NAMED)


def decision(client: Client, *texts: str, headers: dict[str, str] | None = None, **body: Any) -> str:
    """Ask with `store: false`, these texts being the messages of the user and of the assistant in turn."""
    sides = ("user", "assistant")
    messages = [{"role": sides[at % 2], "content": text} for at, text in enumerate(texts)]
    body = {"model": "arco", "store": False, "messages": messages, **body}
    answer = client.post("chat/completions", json=body, headers=headers)
    assert answer.status_code == 200, answer.text
    return str(answer.headers["x-chatmemory-conversation"])


def test_a_named_conversation_is_remembered(ada: Client, upstream: FakeUpstream) -> None:
    assert decision(ada, "My dog is called Rex.", **NAMED) == "new"
    assert decision(ada, "What is my dog called?", **NAMED) == "continued"
    assert "Rex" in upstream.calls("stream")[-1].text
    assert decision(ada, "Good morning", metadata={"session_id": "session 2"}) == "new"
    assert len(ada.get("chats").json()["results"]) == 2


def test_unnamed_continued_or_side_requests_are_not_remembered(ada: Client, upstream: FakeUpstream) -> None:
    found = [
        decision(ada, "It has no name."),
        decision(ada, "Suggest a title", headers=NAMED["headers"] | {"x-chatmemory-remember": "false"}),
        decision(ada, "Suggest tags", headers=NAMED["headers"] | {"x-openwebui-task": "tags_generation"}),
        decision(ada, "Go on", "Once upon a", **NAMED),
        decision(ada, **NAMED, messages=[{"role": "system", "content": "Write a poem."}]),
    ]
    assert found == ["not stored"] * len(found)
    assert not Chat.objects.exists()
    assert not ChatCompletion.objects.exists()


@pytest.mark.parametrize("scopes", [(), (Scope.CHAT,)])
def test_other_tokens_remember_nothing(client_of: MakeClient, upstream: FakeUpstream, scopes: tuple[str, ...]) -> None:
    assert decision(client_of(make_user("ada"), *scopes), "My dog is called Rex.", **NAMED) == "not stored"
    assert not Chat.objects.exists()


def test_the_response_object_is_not_kept(ada: Client, upstream: FakeUpstream) -> None:
    with sdk(ada) as ask:
        create, named = ask.responses.with_raw_response.create, {"session-id": "s-1"}
        unnamed = create(model="arco", input="Hello.", store=False)
        assert unnamed.headers["x-chatmemory-conversation"] == "not stored"
        raw = create(model="arco", input="Hello.", store=False, extra_headers=named)
        made, chat = raw.parse(), raw.headers["x-chatmemory-conversation-id"]
        assert made.to_dict()["store"] is False
        with pytest.raises(openai.NotFoundError):
            ask.responses.retrieve(made.id)
        with pytest.raises(openai.BadRequestError, match="not found"):
            ask.responses.create(model="arco", input="Go on.", previous_response_id=made.id)
        again = create(model="arco", input="Again.", store=False, extra_headers=named)
        assert again.headers["x-chatmemory-conversation-id"] == chat
    texts = [one["content"] for one in ada.get(f"chats/{chat}/messages").json()["results"]]
    assert sorted(texts) == ["Again.", "Hello.", "You said: Again.", "You said: Hello."]


def test_an_apps_end_users_are_kept_apart(client_of: MakeClient, upstream: FakeUpstream) -> None:
    shop = client_of(create_app("shop").user, Scope.ACT_FOR_USERS, Scope.REMEMBER_NAMED)
    anna, ben = ({**NAMED["headers"], "X-Chatmemory-User": name} for name in ("anna", "ben"))
    assert decision(shop, "My dog is called Rex.", headers=anna) == "new"
    assert decision(shop, "Hello.", headers=ben) == "new"
    assert decision(shop, "What is my dog called?", headers=anna) == "continued"
    assert "Rex" in upstream.calls("stream")[-1].text


def test_it_is_a_scope_beside_another_that_may_write(ada: Client) -> None:
    assert ada.get("me").json()["token"]["scopes"] == ["chat", "remember-named"]
    create_app("shop")
    for scopes in (["read-only", "remember-named"], ["act-for-users", "read-only", "remember-named"]):
        with pytest.raises(CommandError, match="cannot remember"):
            call_command("create_token", "shop", scope=scopes)
    assert AuthToken.objects.count() == 1
