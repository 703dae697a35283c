"""Updates paused, resumed and estimated over HTTP, and the summary cleared."""

from typing import Any

import pytest

from conversations.models import Chat
from memory.revisions.by_hand import pause_updates
from tests.api.talking import error
from tests.support.factories import add_turns
from tests.support.fakes.upstream import FakeUpstream
from tests.support.folds import chat_of, run_fold, turn, update
from tests.support.live_server import Client


@pytest.fixture
def chat(alice: Client, upstream: FakeUpstream, settings: Any) -> str:
    """A chat of twelve turns of 30 tokens, in three versions of three turns each; over a hundred more make it due."""
    settings.MEMORY_CHUNK_SUMMARIZE_THRESHOLD = 200
    settings.MEMORY_FOLD_BITE_TOKENS = 100
    settings.MEMORY_PROMPT_TOKEN_BUDGET = 100_000
    settings.MEMORY_MIN_RETAINED = 0
    made = chat_of(12)
    assert update(made).outcome == "done"
    return str(made.pk)


def work(chat: str) -> str:
    return run_fold(Chat.objects.get(pk=chat)).outcome


def test_a_restored_version_can_be_kept_and_resumed(alice: Client, chat: str) -> None:
    kept = alice.post(f"chats/{chat}/revisions/1/restore", json={"pause": True}).json()
    assert kept["paused"] == {"at": kept["work"]["since"], "by": "user"}
    assert (kept["due"], kept["work"]["state"], kept["next_update"]) == (False, "paused", None)
    assert kept == alice.get(f"chats/{chat}/brief").json()
    assert work(chat) == "idle"
    resumed = alice.post(f"chats/{chat}/brief/resume").json()
    assert (resumed["paused"], resumed["due"]) == (None, True)
    assert work(chat) == "done"
    assert alice.get(f"chats/{chat}/brief").json()["version"] == 6


def test_pausing_by_itself_and_by_staff(alice: Client, chat: str) -> None:
    paused = alice.post(f"chats/{chat}/brief/pause").json()
    assert paused["paused"]["by"] == "user"
    assert alice.post(f"chats/{chat}/brief/pause").json() == paused
    assert alice.post(f"chats/{chat}/brief/resume").json()["paused"] is None
    pause_updates(Chat.objects.get(pk=chat), None)
    assert alice.get(f"chats/{chat}/brief").json()["paused"]["by"] == "staff"
    assert alice.post(f"chats/{chat}/resummarize", json={"mode": "update"}).status_code == 202
    assert alice.get(f"chats/{chat}/brief").json()["paused"] is None


def test_pause_rejects_invalid_values(alice: Client, chat: str) -> None:
    path = f"chats/{chat}/revisions/1/restore"
    assert "pause" in error(alice.post(path, json={"pause": "perhaps"}), 400, "invalid_request")["details"]
    assert "fold" in error(alice.post(path, json={"fold": True}), 400, "invalid_request")["details"]
    assert alice.get(f"chats/{chat}/brief").json()["version"] == 3


def test_pausing_and_resuming_in_a_loop_is_counted(alice: Client, chat: str, settings: Any) -> None:
    """Each pause drops a fold in progress, which must then be made and paid for again."""
    settings.LIMIT_RESUMMARIZE_PER_HOUR = 3
    add_turns(Chat.objects.get(pk=chat), [turn(number) for number in range(13, 30)])
    codes = []
    for _ in range(5):
        alice.post(f"chats/{chat}/brief/pause")
        codes.append(alice.post(f"chats/{chat}/brief/resume").status_code)
    assert codes == [200, 200, 200, 429, 429]
    assert alice.get(f"chats/{chat}/brief").json()["paused"] is not None


def test_after_a_restore_across_policies_the_patch_rebuilds(alice: Client, chat: str) -> None:
    assert alice.patch(f"chats/{chat}", json={"policy": "interval"}).status_code == 200
    work(chat)
    restored = alice.post(f"chats/{chat}/revisions/3/restore").json()
    assert restored["policy"] == "chunked"
    assert alice.patch(f"chats/{chat}", json={"title": "Not the policy"}).status_code == 200
    assert alice.get(f"chats/{chat}/brief").json()["rebuild"] is None
    assert alice.patch(f"chats/{chat}", json={"policy": "interval"}).status_code == 200
    assert alice.get(f"chats/{chat}/brief").json()["rebuild"] is not None
    assert work(chat) == "done"
    assert alice.get(f"chats/{chat}/brief").json()["policy"] == "interval"


def test_estimates_do_nothing_and_tell_turns_calls_and_cost(alice: Client, chat: str) -> None:
    before = alice.get(f"chats/{chat}/brief").json()
    update, rebuild, policy, restored = (
        alice.get(f"chats/{chat}/estimate", params=asked).json()
        for asked in ({}, {"mode": "rebuild"}, {"policy": "interval"}, {"restore": 1})
    )
    assert (update["turns"], rebuild["turns"], policy["turns"], restored["turns"]) == (0, 9, 9, 6)
    assert rebuild["calls"] >= 3
    assert 0 < rebuild["tokens"] < rebuild["input_tokens"]
    assert rebuild["cost_usd"] > 0
    assert set(rebuild) == {*("turns", "tokens", "calls", "input_tokens", "output_tokens", "cost_usd", "minutes")}
    assert alice.get(f"chats/{chat}/brief").json() == before
    assert alice.get(f"chats/{chat}").json()["policy"] == "chunked"
    error(alice.get(f"chats/{chat}/estimate?restore=9"), 404, "not_found")
    for wrong in ("mode=all", "policy=none", "restore=x", "restore=0"):
        error(alice.get(f"chats/{chat}/estimate?{wrong}"), 400, "invalid_request")
