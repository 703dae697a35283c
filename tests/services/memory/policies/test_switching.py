"""A chat that changes its policy or options: the old memory is used until the originals have been read again.

For switches between any two policies, with concurrent changes. How each policy folds is tested separately.
"""

from collections.abc import Callable
from itertools import permutations
from typing import Any

import pytest

from chatmemory.llm.protocol import Prompt
from conversations.chat_lifecycle import update_chat
from conversations.message_changes import edit_message
from conversations.models import Chat, Message
from memory.briefs import unfolded
from memory.folding.request import request_resummarize
from memory.models import RevisionKind
from memory.policies import POLICIES
from tests.processes.prompts import code, codes
from tests.support.factories import add_turn, add_turns, brief_of, make_chat
from tests.support.fakes.scripted import TellingModel, tell
from tests.support.folds import assert_whole, noted, revisions, run_fold, waiting_chat

pytestmark = [pytest.mark.usefixtures("sound"), pytest.mark.slow]

PAIRS = list(permutations(POLICIES, 2))
NEIGHBOURS = list(zip(POLICIES, [*list(POLICIES)[1:], *list(POLICIES)[:1]], strict=True))
"""Pairs in which each policy is once the old one and once the new one."""


@pytest.fixture(autouse=True)
def usual(settings: Any) -> None:
    """The default limits, except for smaller batches, so that a rebuild takes several."""
    settings.MEMORY_CHUNK_SUMMARIZE_THRESHOLD = 6000
    settings.MEMORY_FOLD_BITE_TOKENS = 1500
    settings.MEMORY_PROMPT_TOKEN_BUDGET = 3000


def folded_chat(policy: str) -> Chat:
    """A chat of 20 turns, all folded except those in its policy's window."""
    return waiting_chat(policy, waiting=0)


def go_on(chat: Chat, count: int = 2) -> None:
    """Add some more turns."""
    chat.refresh_from_db(fields=["last_seq"])
    last = chat.last_seq // 2
    for said in noted(last + 1, last + count):
        add_turn(chat, *said)


def assert_switched(chat: Chat, policy: str) -> None:
    """Assert that the memory is that policy's, rebuilt from the first message, and that nothing waits."""
    brief = brief_of(chat)
    assert (brief.policy, brief.requested, brief.rebuild, brief.due) == (policy, "", None, False)
    assert revisions(chat)[-1].policy == policy
    rebuilt = [row for row in revisions(chat) if row.kind == RevisionKind.REBUILD][-1]
    assert (rebuilt.policy, rebuilt.from_seq, rebuilt.degraded) == (policy, 1, False)
    assert_whole(chat)


def shown_to(model: TellingModel, calls: int) -> list[str]:
    """The codes of the new turns in the calls from index `calls` on, each once."""
    asked = [prompt.messages[0].content for prompt in model.prompts[calls:]]
    new = [text.partition("=== NEW_TURNS ===")[2] or text.partition("## Conversation:")[2] for text in asked]
    return list(dict.fromkeys(found for text in new for found in sorted(codes(text))))


def memory_of(chat: Chat) -> tuple[Any, ...]:
    """What is remembered, and through which message."""
    brief = brief_of(chat)
    return brief.policy, brief.global_summary, brief.state, brief.folded_through_seq, brief.token_count


@pytest.mark.parametrize(("old", "new"), PAIRS)
def test_the_old_memory_serves_and_the_new_one_is_made_of_the_originals(
    old: str, new: str, telling: TellingModel
) -> None:
    chat = folded_chat(old)
    before, calls = memory_of(chat), len(telling.prompts)
    update_chat(chat, {"policy": new})
    assert memory_of(chat) == before
    assert_whole(chat)
    go_on(chat)
    assert memory_of(chat) == before
    assert_whole(chat)

    assert run_fold(chat).outcome == "done"
    assert_switched(chat, new)
    folded = brief_of(chat).folded_through_seq // 2
    assert set(shown_to(telling, calls)) >= {code(number) for number in range(1, folded + 1)}
    go_on(chat, 12)
    run_fold(chat)
    assert brief_of(chat).policy == new
    assert_whole(chat)


def work_off(chat: Chat) -> int:
    """Run a chat's tasks until nothing is left, and return how many answers were dropped."""
    lost = 0
    for _ in range(10):
        report = run_fold(chat)
        lost += report.lost
        if report.outcome != "more":
            break
    assert report.outcome == "done"
    return lost


def meanwhile(telling: TellingModel, act: Callable[[], object], *, call: int = 0) -> None:
    """Run `act` during a call of the summarizer, after `call` earlier calls."""

    def during(prompt: Prompt) -> str:
        act()
        return tell(prompt)

    telling.lines = [*[tell] * call, during]


@pytest.mark.parametrize(("old", "new"), NEIGHBOURS)
def test_the_chat_goes_on_while_the_rebuild_is_under_way(old: str, new: str, telling: TellingModel) -> None:
    chat = folded_chat(old)
    before = memory_of(chat)
    update_chat(chat, {"policy": new})
    seen = []

    def turns_come() -> None:
        go_on(chat)
        seen.append((memory_of(chat), brief_of(chat).rebuild is not None))
        assert_whole(chat)

    meanwhile(telling, turns_come, call=1)
    work_off(chat)
    assert seen == [(before, True)]
    assert_switched(chat, new)


@pytest.mark.parametrize(("old", "new"), NEIGHBOURS)
def test_a_switch_during_a_fold(old: str, new: str, telling: TellingModel) -> None:
    """The fold is not published, because its epoch is over; what is due is folded all the same."""
    chat = folded_chat(old)
    go_on(chat, 6)
    request_resummarize(chat, "update")
    meanwhile(telling, lambda: update_chat(chat, {"policy": new}))
    assert work_off(chat) == 1
    assert_switched(chat, new)


@pytest.mark.parametrize(("old", "new"), NEIGHBOURS)
def test_another_switch_during_the_rebuild_begins_again(old: str, new: str, telling: TellingModel) -> None:
    chat = folded_chat(old)
    before = memory_of(chat)
    update_chat(chat, {"policy": new})
    meanwhile(telling, lambda: update_chat(chat, {"policy": old}), call=1)
    work_off(chat)
    assert new not in {row.policy for row in revisions(chat)}
    assert memory_of(chat)[0] == before[0]
    assert_switched(chat, old)


@pytest.mark.parametrize(("old", "new"), NEIGHBOURS)
def test_an_edit_during_the_rebuild(old: str, new: str, telling: TellingModel) -> None:
    """Nothing in the new memory comes from the message as it was before the edit."""
    chat = folded_chat(old)
    update_chat(chat, {"policy": new})
    gone, instead = code(2), "ZZ-9999"

    def edit() -> None:
        for row in Message.objects.filter(chat=chat, seq__in=(3, 4)):
            edit_message(chat, row.pk, row.content.replace(gone, instead))

    meanwhile(telling, edit, call=1)
    work_off(chat)
    assert_switched(chat, new)
    brief = brief_of(chat)
    assert gone not in f"{brief.global_summary} {brief.state}"
    assert any(instead in prompt.messages[0].content for prompt in telling.prompts), "it was never read"
    assert brief.folded_through_seq >= 4


@pytest.mark.parametrize(("old", "new"), NEIGHBOURS)
def test_a_short_chat_only_changes_its_policy(old: str, new: str, telling: TellingModel) -> None:
    chat = make_chat(policy=old)
    add_turns(chat, noted(1, 1))
    update_chat(chat, {"policy": new})
    assert run_fold(chat).outcome == "done"
    brief = brief_of(chat)
    assert (brief.policy, brief.version, brief.requested) == (new, 0, "")
    assert telling.prompts == []
    assert_whole(chat)


@pytest.mark.parametrize(
    ("policy", "options", "turns"),
    [
        ("chunked", {"k_raw_turns": 8}, 8),
        ("interval", {"window_turns": 6}, 6),
        ("hierarchical", {"recent_messages": 15}, 8),
        ("card", {"window_turns": 2}, 2),
    ],
)
def test_a_wider_window_takes_turns_back(
    policy: str, options: dict[str, Any], turns: int, telling: TellingModel
) -> None:
    """Turns that belong in the window were folded: memory is rebuilt without them and the old one used until then."""
    chat = folded_chat(policy)
    before = memory_of(chat)
    update_chat(chat, {"options": options})
    assert (memory_of(chat), brief_of(chat).requested) == (before, "rebuild")
    assert_whole(chat)
    run_fold(chat)
    assert unfolded(brief_of(chat)).turns == turns
    assert_switched(chat, policy)


def test_a_window_that_only_waits_for_more_turns_costs_nothing(telling: TellingModel) -> None:
    chat = make_chat(policy="interval")
    add_turns(chat, noted(1, 5))
    update_chat(chat, {"options": {"window_turns": 9}})
    assert (brief_of(chat).requested, telling.prompts) == ("", [])
    go_on(chat, 12)
    run_fold(chat)
    assert unfolded(brief_of(chat)).turns == 9 + (17 - 9) % 4
    assert_whole(chat)


def test_a_narrower_window_is_folded_with_the_next_fold(telling: TellingModel) -> None:
    chat = folded_chat("hierarchical")
    update_chat(chat, {"options": {"recent_messages": 4}})
    assert brief_of(chat).requested == ""
    go_on(chat, 7)
    run_fold(chat)
    assert unfolded(brief_of(chat)).turns < 5, "not all of what was the window"
    assert {row.kind for row in revisions(chat)} == {RevisionKind.FOLD}


def test_a_fold_under_way_keeps_out_of_the_wider_window(telling: TellingModel) -> None:
    chat = make_chat(policy="interval")
    add_turns(chat, noted(1, 8))

    meanwhile(telling, lambda: update_chat(chat, {"options": {"window_turns": 6}}))
    run_fold(chat)
    assert unfolded(brief_of(chat)).turns >= 6
    assert_whole(chat)
