"""Versions of a chat's memory over HTTP: read one, compare two, make an older one current."""

import time
from typing import Any
from uuid import UUID

import pytest

from conversations.models import Chat
from memory.folding.fold import fold
from memory.folding.request import request_resummarize
from memory.models import SummaryRevision
from tests.api.talking import error, hold_replies, open_stream
from tests.processes.prompts import code
from tests.support.exhaustive import first_of
from tests.support.factories import add_turns
from tests.support.fakes.behaviours import lorem
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Client

REVISION_KEYS = (
    "version parent kind degraded global_summary state from_seq through_seq turns tokens_before tokens_after "
    "input_tokens output_tokens cost_usd model prompt_hash source_hash duration_ms retained created_at "
    "soft_faults forgotten_at focus custom_instructions"
).split()
"""The fields that the contract lists, and those added since."""


def fold_chat(chat_id: str) -> str:
    """Request a fold of everything beyond the window, and return the chat after it."""
    chat = Chat.objects.get(pk=chat_id)
    request_resummarize(chat, "update")
    assert fold(chat.key, until=time.monotonic() + 60).outcome == "done"
    return chat_id


def turns(first: int, last: int) -> list[tuple[str, str]]:
    """Return turns of about 240 tokens with a code each."""
    return [(f"Note {code(n)}: {lorem(80)}", f"{code(n)} is noted. {lorem(80)}") for n in range(first, last + 1)]


@pytest.fixture
def chat(alice: Client, upstream: FakeUpstream, settings: Any) -> str:
    """A chat whose memory has two versions, of 5 turns and of 9. Its window has three more."""
    settings.MEMORY_FOLD_BITE_TOKENS = 6000
    chat_id: str = alice.post("chats", json={}).json()["id"]
    stored = Chat.objects.get(pk=chat_id)
    add_turns(stored, turns(1, 8))
    fold_chat(chat_id)
    add_turns(stored, turns(9, 12))
    return fold_chat(chat_id)


def revisions(client: Client, chat: str) -> list[dict[str, Any]]:
    """Return all versions, newest first."""
    found: list[dict[str, Any]] = client.get(f"chats/{chat}/revisions").json()["results"]
    return found


def test_a_version_tells_all_there_is_to_tell(alice: Client, chat: str) -> None:
    second, first = revisions(alice, chat)
    assert alice.get(f"chats/{chat}/revisions/2").json() == second
    assert sorted(second) == sorted(REVISION_KEYS)
    assert (first["from_seq"], first["through_seq"], first["parent"]) == (1, 10, None)
    assert (second["from_seq"], second["through_seq"], second["parent"]) == (11, 18, 1)
    assert second["kind"] == "fold"
    assert len(second["source_hash"]) == 64
    assert second["prompt_hash"] == first["prompt_hash"] != ""
    assert second["input_tokens"] > 500
    assert second["retained"]["share"] > 0.9
    assert (second["soft_faults"], second["forgotten_at"]) == ([], None)


def test_the_difference_from_one_version_to_another(alice: Client, chat: str) -> None:
    first, second = (alice.get(f"chats/{chat}/revisions/{n}").json()["global_summary"] for n in (1, 2))
    found = alice.get(f"chats/{chat}/revisions/2/diff").json()
    assert sorted(found) == ["against", "against_policy", "gained", "lost", "pieces", "policy", "version"]
    assert (found["version"], found["against"]) == (2, 1)
    assert {piece["op"] for piece in found["pieces"]} == {"equal", "insert", "delete"}
    older = "".join(piece["text"] for piece in found["pieces"] if piece["op"] != "insert")
    newer = "".join(piece["text"] for piece in found["pieces"] if piece["op"] != "delete")
    assert older.endswith(first)
    assert newer.endswith(second)
    assert found["gained"] == [code(n) for n in range(6, 10)]
    assert found["lost"] == []
    back = alice.get(f"chats/{chat}/revisions/1/diff?against=2").json()
    assert (back["version"], back["against"], back["lost"]) == (1, 2, found["gained"])
    same = alice.get(f"chats/{chat}/revisions/2/diff?against=2").json()
    assert [piece["op"] for piece in same["pieces"]] == ["equal"]
    begun = alice.get(f"chats/{chat}/revisions/1/diff").json()
    assert begun["against"] is None
    assert [piece["op"] for piece in begun["pieces"]] == ["insert"]


@pytest.mark.parametrize("against", first_of(["", "x", "0", "-1", "1.5", "99999999999999999999", "%00", "\ud83d"]))
def test_diff_rejects_unknown_version(alice: Client, chat: str, against: str) -> None:
    answer = alice.get(f"chats/{chat}/revisions/2/diff", params={"against": against.encode(errors="replace")})
    assert "against" in error(answer, 400, "invalid_request")["details"]


def test_versions_that_do_not_exist(alice: Client, bob: Client, chat: str) -> None:
    for version in ("3", "0", "99999999999999999999999"):
        path = f"chats/{chat}/revisions/{version}"
        error(alice.get(path), 404, "not_found")
        error(alice.get(f"{path}/diff"), 404, "not_found")
        error(alice.post(f"{path}/restore"), 404, "not_found")
    error(alice.get(f"chats/{chat}/revisions/2/diff?against=3"), 404, "not_found")
    error(alice.post(f"chats/{chat}/revisions/-1/restore"), 404, "not_found")
    for answer in (bob.get(f"chats/{chat}/revisions/1/diff"), bob.post(f"chats/{chat}/revisions/1/restore")):
        error(answer, 404, "not_found")
    assert len(revisions(alice, chat)) == 2


def test_an_older_version_is_restored(alice: Client, chat: str) -> None:
    first = alice.get(f"chats/{chat}/revisions/1").json()
    answer = alice.post(f"chats/{chat}/revisions/1/restore")
    assert answer.status_code == 200
    brief = answer.json()
    assert brief == alice.get(f"chats/{chat}/brief").json()
    assert (brief["version"], brief["brief"]["global_summary"]) == (3, first["global_summary"])
    last = revisions(alice, chat)[0]
    assert (last["kind"], last["parent"], last["turns"], last["cost_usd"]) == ("restore", 1, 0, 0)
    stored = SummaryRevision.objects.get(chat_id=UUID(chat), version=3)
    assert (stored.created_by and stored.created_by.username) == "alice"


def test_running_reply_survives_memory_change(alice: Client, upstream: FakeUpstream, chat: str) -> None:
    hold_replies(upstream)
    with open_stream(alice, "And now?", chat) as (turn, events):
        next(events)
        assert alice.post(f"chats/{chat}/revisions/1/restore").status_code == 200
        upstream.release()
        assert list(events)[-1].name == "message.completed"
    past = alice.get(f"{turn.path}/context").json()
    assert past["verified"]
