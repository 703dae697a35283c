"""Versions of two policies over HTTP, laid out side by side."""

from memory.folding.request import request_resummarize
from tests.support.factories import add_turns, make_chat, make_user
from tests.support.folds import run, turn
from tests.support.live_server import Client


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
