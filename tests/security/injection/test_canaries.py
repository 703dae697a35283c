"""One user's words are never sent to a model, or shown, for another user: many chats folded at once in one process."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from conversations.models import Chat
from memory.folding.request import request_resummarize
from memory.policies import POLICIES
from tests.support.exhaustive import effort
from tests.support.factories import add_turns, brief_of
from tests.support.fakes.behaviours import lorem
from tests.support.fakes.upstream import FakeUpstream
from tests.support.folds import run, together
from tests.support.live_server import Client

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

CANARY = re.compile(r"Z[A-H]-\d{4}")
USERS = "ABCDEF"


def canary(user: str, number: int) -> str:
    """Return a code that only this user says; the fake summarizer keeps it."""
    return f"Z{user}-{number:04d}"


def owners(text: str) -> set[str]:
    """Return the users whose canaries are in a text."""
    return {code[1] for code in CANARY.findall(text)}


def started(client: Client, user: str, policy: str) -> Chat:
    """Make a chat full of its owner's canaries: in turns, title, instructions and metadata."""
    own = canary(user, 1)
    body = {"policy": policy, "title": own, "instructions": f"Be brief, {own}.", "metadata": {"a": own}}
    chat = Chat.objects.get(pk=client.post("chats", json=body).json()["id"])
    add_turns(
        chat,
        [
            (f"{canary(user, at)} {lorem(40)}", f"{canary(user, at)} noted. {lorem(40)}")
            for at in range(2, 14)
        ],
    )
    request_resummarize(chat, "update")
    return chat


@pytest.mark.promise("P24")
@pytest.mark.parametrize("policy", POLICIES)
def test_a_canary_of_one_user_is_in_no_prompt_of_another(
    policy: str,
    user_client: Callable[[str], Client],
    upstream: FakeUpstream,
    settings: Any,
    sound: None,
) -> None:
    settings.MEMORY_LIMITS = replace(
        settings.MEMORY_LIMITS, bite_tokens=400, threshold=600, prompt_budget=1200
    )
    upstream.behave("normal", pattern=CANARY.pattern)
    clients = {user: user_client(f"user-{user}") for user in USERS}
    chats = {user: started(client, user, policy) for user, client in clients.items()}
    answers: dict[str, str] = {}

    def folded(user: str) -> Callable[[], None]:
        def fold() -> None:
            run(chats[user])

        return fold

    def asked(user: str) -> Callable[[], None]:
        def ask() -> None:
            sources = [{"title": canary(user, 20), "text": canary(user, 21)}]
            body = {
                "message": f"What of {canary(user, 22)}?",
                "chat_id": str(chats[user].pk),
                "sources": sources,
            }
            answers[user] = (
                answers.get(user, "") + clients[user].post("message", json={**body, "stream": False}).text
            )

        return ask

    for _ in range(effort(1, 10)):
        together(*(act(user) for user in USERS for act in (folded, asked)))

    assert len(upstream.requests) >= 2 * len(USERS)
    for request in upstream.requests:
        assert len(owners(request.raw.decode("utf-8", "replace") + json.dumps(request.body))) == 1
    for user, client in clients.items():
        brief = brief_of(chats[user])
        assert owners(json.dumps([brief.global_summary, brief.state])) == {user}
        shown = [
            answers[user],
            client.get("chats").text,
            client.get(f"chats/{chats[user].pk}/context?message=x").text,
        ]
        shown += [
            client.get(f"chats/{chats[user].pk}/{part}").text for part in ("brief", "revisions", "messages")
        ]
        for text in shown:
            assert owners(text) <= {user}
