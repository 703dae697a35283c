"""Options of a chat over HTTP: every number of memory and of the policy, for every policy, and unknown options."""

from itertools import cycle
from typing import Any

import pytest
from django_q.models import OrmQ

from conversations.models import Chat
from memory.models import ConversationBrief
from memory.policies import POLICIES
from memory.policies.protocol import bounds_for
from tests.api.talking import error
from tests.support.exhaustive import first_of, first_row_of
from tests.support.factories import add_turns, make_chat, make_user
from tests.support.fakes.upstream import FakeUpstream
from tests.support.folds import run_fold, update
from tests.support.live_server import Client

pytestmark = pytest.mark.nightly

WORDS = "The crane on quay four lifted thirty crates of pears before the tide turned at noon"


def numbered_turn(number: int) -> tuple[str, str]:
    """Return a turn of about 140 tokens."""
    return f"Note {number} is PN-{number + 4000}. {WORDS}. {WORDS}.", f"Noted {number}. " + f"{WORDS}. " * 5


def chat_of(policy: str, turns: int = 8, **fields: Any) -> Chat:
    chat = make_chat(make_user("alice"), policy=policy, **fields)
    add_turns(chat, [numbered_turn(number) for number in range(1, turns + 1)])
    forget_tasks(chat)
    return chat


def folded_chat(policy: str) -> Chat:
    """Make a chat with a summary and with nothing left to do."""
    chat = chat_of(policy, 40)
    update(chat)
    forget_tasks(chat)
    assert brief_values(chat)["version"]
    return chat


def forget_tasks(chat: Chat) -> None:
    OrmQ.objects.all().delete()
    ConversationBrief.objects.filter(pk=chat.pk).update(queued_at=None)


def brief_values(chat: Chat) -> dict[str, Any]:
    return {**ConversationBrief.objects.filter(pk=chat.pk).values().get()}


def context(client: Client, chat: Chat, message: str = "And now?", **asked: Any) -> dict[str, Any]:
    answer = client.post(f"chats/{chat.pk}/context", json={"message": message, **asked})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def choose(client: Client, chat: Chat, **options: Any) -> None:
    answer = client.patch(f"chats/{chat.pk}", json={"options": options})
    assert (answer.status_code, answer.json().get("options")) == (200, options), answer.text


def section(found: dict[str, Any], kind: str) -> dict[str, Any] | None:
    return next((one for one in found["sections"] if one["kind"] == kind), None)


def tokens(found: dict[str, Any]) -> int:
    return sum(one["tokens"] for one in found["sections"])


VALUES: tuple[Any, ...] = (True, 600, 50, 20, 0.1, "text", "auto", "prompt", "x" * 500)
ODD: tuple[Any, ...] = (None, [1], -1, "x" * 501, 10**400)
"""Values of which some are valid for each option, and values that none may have."""


# What is accepted, and what is refused


@pytest.mark.parametrize("policy", first_of(sorted(POLICIES)))
def test_options_that_do_not_fit_are_refused(alice: Client, policy: str) -> None:
    chat = chat_of(policy, 1)
    before, was = brief_values(chat), alice.get(f"chats/{chat.pk}").json()
    for (name, bounds), value in zip(bounds_for(POLICIES[policy]).items(), cycle(ODD), strict=False):
        refused = alice.patch(f"chats/{chat.pk}", json={"title": "New", "options": {name: value}})
        details = error(refused, 400, "invalid_request")["details"]
        assert details == {"options": [f"{name} must be {bounds.allowed}"]}, (name, value)
    assert (brief_values(chat), alice.get(f"chats/{chat.pk}").json()) == (before, was)
    assert not OrmQ.objects.exists()


@pytest.mark.parametrize("policy", first_of(sorted(POLICIES)))
def test_each_option_is_taken_and_has_nothing_made_anew(alice: Client, policy: str) -> None:
    chat = folded_chat(policy)
    before = brief_values(chat)
    for name, bounds in bounds_for(POLICIES[policy]).items():
        value = next(filter(bounds.allows, VALUES))
        if name in ("k_raw_turns", "window_turns", "recent_messages"):
            value = 1
        chosen = {name: value} | ({"budget": 50_000} if name == "summary_token_cap" else {})
        chosen = {"budget": 2000} if name == "budget" else chosen
        choose(alice, chat, **chosen)
        after = brief_values(chat)
        assert (after["options"], after["requested"], after["epoch"]) == (chosen, "", before["epoch"]), name
        for kept in ("version", "state", "global_summary"):
            assert after[kept] == before[kept], (name, kept)
        assert after["due"] == OrmQ.objects.exists(), f"{name}: a fold that is due now, and no rebuild"
        assert context(alice, chat)["unrepresented"] == 0, name
        # Restore the chat for the next option.
        ConversationBrief.objects.filter(pk=chat.pk).update(**before)
        Chat.objects.filter(pk=chat.pk).update(options={})
        OrmQ.objects.all().delete()


def test_options_are_checked_against_default_policy(alice: Client, settings: Any) -> None:
    wanted = {"options": {"token_cap": 100}}
    (told,) = error(alice.post("chats", json=wanted), 400, "invalid_request")["details"]["options"]
    assert "has no option 'token_cap'" in told
    settings.MEMORY_POLICY = "interval"
    assert alice.post("chats", json=wanted).json()["policy"] == "interval"


def test_options_of_another_policy_have_no_effect(alice: Client) -> None:
    """Changing only the policy keeps the options; those unknown to the new policy are kept for a change back."""
    body = {"policy": "interval", "options": {"every_turns": 8, "budget": 900}}
    chat = alice.post("chats", json=body).json()
    path = f"chats/{chat['id']}"
    assert alice.patch(path, json={"policy": "card"}).json()["options"] == chat["options"]
    tweaked = {**chat["options"], "budget": 950}
    assert alice.patch(path, json={"options": tweaked}).json()["options"] == tweaked
    other = error(alice.patch(path, json={"options": {**tweaked, "every_turns": 9}}), 400, "invalid_request")
    assert "has no option 'every_turns'" in other["details"]["options"][0]
    assert alice.patch(path, json={"policy": "interval"}).json()["options"] == tweaked


# What takes effect, in the very next context


@pytest.mark.parametrize("policy", first_of(sorted(POLICIES)))
def test_budgets_recall_and_turns_as_text(alice: Client, policy: str) -> None:
    chat, question = folded_chat(policy), "What was note 3, PN-4003?"
    choose(alice, chat, budget=700, recall="off")
    found = context(alice, chat, question)
    assert (found["budget"], found["tokens"] <= 700, section(found, "recall")) == (700, True, None)
    assert context(alice, chat, budget=650)["budget"] == 650, "what is asked for in a preview goes before"
    choose(alice, chat, recall="auto", recall_share=0)
    assert not section(context(alice, chat, question), "recall")
    choose(alice, chat, recall="auto", recall_share=0.5, turns_as="text", sources_token_budget=60)
    found = context(alice, chat, question, sources=[{"title": "Tides", "text": WORDS * 40}])
    window, cut = section(found, "window"), section(found, "sources")
    assert section(found, "recall")
    assert window
    assert "User: Note" in window["text"]
    assert cut
    assert (cut["clipped"], cut["tokens"] <= 60) == (True, True)


DUE = [
    ("chunked", {"threshold": 700, "k_raw_turns": 5, "summary_token_cap": 60}),
    ("progressive", {"threshold": 700, "data_tokens": 50}),
    ("hierarchical", {"trigger_messages": 10, "narrative_tokens": 60, "facts_tokens": 60}),
    ("interval", {"every_turns": 3, "token_cap": 60}),
    ("card", {"budget": 420, "min_fold_tokens": 100}),
]


@pytest.mark.parametrize(("policy", "options"), first_row_of(DUE, 2))
def test_when_a_chat_is_folded(alice: Client, upstream: FakeUpstream, policy: str, options: dict[str, int]) -> None:
    """A lower threshold has the chat folded now, with the new caps; a higher one makes it no longer due."""
    chat = chat_of(policy, 6)
    was_due = brief_values(chat)["due"]
    choose(alice, chat, **options)
    after = brief_values(chat)
    assert (after["due"], after["requested"], OrmQ.objects.count()) == (True, "", 1)
    run_fold(chat)
    brief = alice.get(f"chats/{chat.pk}/brief").json()
    assert (brief["version"] > 0, brief["due"]) == (True, False)
    assert brief["token_count"] <= options.get("summary_token_cap", options.get("token_cap", 10_000))
    if policy in ("chunked", "progressive"):
        add_turns(chat, [numbered_turn(number) for number in range(20, 26)])
        assert brief_values(chat)["due"]
        choose(alice, chat, threshold=50_000, budget=50_000)
        assert not brief_values(chat)["due"]
    assert not was_due


# A budget for the whole prompt

LONG = f"Answer in the voice of a harbour master. {WORDS}. {WORDS}."


@pytest.mark.parametrize("policy", first_of(sorted(POLICIES)))
@pytest.mark.parametrize("turns_as", ["messages", "text"])
def test_the_budget_can_be_for_the_whole_prompt(alice: Client, policy: str, turns_as: str) -> None:
    chat = folded_chat(policy)
    Chat.objects.filter(pk=chat.pk).update(instructions=LONG)
    choose(alice, chat, budget=1200, turns_as=turns_as)
    sources = [{"title": "Tides", "text": f"{WORDS}. " * 60}]
    for question in ("And now?", WORDS * 12):
        assert tokens(context(alice, chat, question, sources=sources)) > 1200
    choose(alice, chat, budget=1200, turns_as=turns_as, budget_for="prompt")
    for question in ("", "And now?", WORDS * 12):
        for given in ([], sources):
            found = context(alice, chat, question, sources=given)
            assert tokens(found) <= 1200
            assert found["tokens"] <= found["budget"] < 1200
            assert found["prompt"][-1]["content"].endswith(question)


def test_the_fold_comes_in_time_for_the_whole_prompts_budget(alice: Client) -> None:
    """Instructions take room that lines would need, so the chat is due earlier."""
    chat = chat_of("chunked", 14, instructions=f"{WORDS}. " * 60)
    choose(alice, chat, budget=1800, min_fold_tokens=100, budget_for="memory")
    assert not brief_values(chat)["due"]
    choose(alice, chat, budget=1800, min_fold_tokens=100, budget_for="prompt")
    assert brief_values(chat)["due"]


@pytest.mark.parametrize(
    ("policy", "options", "unit", "threshold"),
    first_row_of(
        [
            ("chunked", {"threshold": 1700}, "tokens", 1700),
            ("progressive", {"threshold": 1701}, "tokens", 1701),
            ("interval", {"every_turns": 6, "window_turns": 5}, "turns", 11),
            ("hierarchical", {"trigger_messages": 23}, "turns", 12),
            ("hierarchical", {"trigger_messages": 4, "recent_messages": 19}, "turns", 11),
        ]
    ),
)
def test_the_brief_tells_how_far_the_next_update_is(
    alice: Client, policy: str, options: dict[str, int], unit: str, threshold: int
) -> None:
    """The reported condition of the next update is the engine's own: when it is met an update is due, never before."""
    chat = chat_of(policy, 1)
    choose(alice, chat, **options)
    told: list[dict[str, Any]] = []
    while not (brief := alice.get(f"chats/{chat.pk}/brief").json())["due"]:
        told.append(brief["next_update"])
        assert not is_over(brief["next_update"])
        assert len(told) < 60
        add_turns(chat, [numbered_turn(len(told) + 1)])
    assert is_over(brief["next_update"])
    assert {(one["unit"], one["threshold"]) for one in [*told, brief["next_update"]]} == {(unit, threshold)}
    has = [one["has"] for one in told]
    assert has == sorted(set(has))


def is_over(progress: dict[str, Any]) -> bool:
    return bool(progress["has"] >= progress["threshold"] + (progress["unit"] == "tokens"))


def test_no_number_starts_an_update_of_cards(alice: Client) -> None:
    assert alice.get(f"chats/{chat_of('card', 3).pk}/brief").json()["next_update"] is None
