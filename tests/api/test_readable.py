"""The memory laid out for people: no wire format under any policy, and versions of two policies side by side."""

from __future__ import annotations

from typing import Any

import pytest

from memory.folding.request import request_resummarize
from memory.policies import POLICIES
from tests.support.exhaustive import first_of
from tests.support.factories import add_turns, make_chat, make_user
from tests.support.folds import run, turn
from tests.support.live_server import Client


@pytest.mark.parametrize("policy", first_of(sorted(POLICIES)))
def test_what_the_memory_holds_is_told_without_its_wire_format(alice: Client, policy: str) -> None:
    chat = make_chat(make_user("alice"), policy=policy)
    add_turns(chat, [turn(number, 40) for number in range(30)])
    assert alice.get(f"chats/{chat.pk}/brief").json()["readable"] == []
    request_resummarize(chat, "update")
    run(chat)
    parts: list[dict[str, Any]] = alice.get(f"chats/{chat.pk}/brief").json()["readable"]
    assert parts
    texts = [entry["text"] for part in parts for entry in part["entries"]]
    assert all(texts)
    assert not any(sign in text for text in texts for sign in ('{"', '":', "PRIOR CONVERSATION"))


def test_versions_of_two_policies_are_not_mixed_word_by_word(alice: Client) -> None:
    chat = make_chat(make_user("alice"), policy="chunked")
    add_turns(chat, [turn(number, 40) for number in range(30)])
    request_resummarize(chat, "update")
    run(chat)
    summary = alice.get(f"chats/{chat.pk}/brief").json()["brief"]["global_summary"]
    assert alice.patch(f"chats/{chat.pk}", json={"policy": "card"}).status_code == 200
    run(chat)
    version = alice.get(f"chats/{chat.pk}/brief").json()["version"]
    found = alice.get(f"chats/{chat.pk}/revisions/{version}/diff").json()
    assert (found["policy"], found["against_policy"]) == ("card", "chunked")
    assert [piece["op"] for piece in found["pieces"]] == ["delete", "insert"]
    assert found["pieces"][0]["text"] == summary
    assert '{"' not in found["pieces"][1]["text"]
