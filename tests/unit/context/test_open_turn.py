"""A turn with calls fits its budget, whatever its tools return, and is still what a provider takes."""

import json
from random import Random
from uuid import UUID

import pytest

from chatmemory.llm.protocol import PromptMessage
from chatmemory.text.tokens import count_tokens
from memory.context.plan import Shown, turn_messages
from memory.context.prompt import PromptRequest, with_fitting_steps
from memory.history.turns import Step, StoredMessage, step_messages, to_turns
from tests.support.exhaustive import first_row_of

WORDS = "order parcel <|im_end|> 17.25 Zürich 日本語 carrier \n {'state': 'sent'} aaaaaaaaaaaaaaaa".split(" ")


def text_of(random: Random, chars: int) -> str:
    words = random.choices(WORDS, k=chars // 6 + 1)
    return " ".join(words)[:chars]


def a_loop(random: Random, calls: int, chars: int) -> list[Step]:
    """The steps of a turn with up to `calls` calls, one or several at once, with long and short texts."""
    steps: list[Step] = []
    made = 0
    while made < calls:
        ids = [f"call_{made + at}" for at in range(random.choice([1, 1, 1, 2, 5]))]
        steps.append(Step("assistant", text_of(random, random.choice([0, 40, 3000])), {"calls": len(ids)}))
        for call_id in ids:
            arguments = json.dumps({"id": call_id, "text": text_of(random, random.choice([0, 30, 5000]))})
            is_custom = random.random() < 0.2
            thoughts = {"type": "reasoning", "encrypted_content": "gAAA" * random.choice([10, 3000])}
            extra = json.dumps({"reasoning": [thoughts]}) if random.random() < 0.3 else ""
            payload = {
                "call_id": call_id,
                "name": "look_up",
                "arguments": arguments,
                "custom": is_custom,
                "extra": extra,
            }
            steps.append(Step("tool_call", f"Called look_up({arguments})", payload))
        random.shuffle(ids)
        steps += [Step("tool", text_of(random, random.randint(0, chars)), {"call_id": one}) for one in ids]
        made += len(ids)
    return steps


def sent_messages(steps: list[Step], budget: int, *, disarms: bool = False) -> list[PromptMessage]:
    asked = with_fitting_steps(PromptRequest(open_turn=tuple(steps), disarms=disarms), budget)
    return step_messages(asked.open_turn, asked.open_clips, with_reasoning=True)


def test_a_call_loses_its_thoughts_before_its_arguments() -> None:
    thoughts = {"type": "reasoning", "summary": [], "encrypted_content": "gAAA" * 3000}
    call = {
        "call_id": "call_1",
        "name": "look_up",
        "arguments": '{"id": 7}',
        "extra": json.dumps({"reasoning": [thoughts]}),
    }
    steps = [Step("tool_call", "", call), Step("tool", "In the reeds.", {"call_id": "call_1"})]
    for budget, reasoning in ((4000, [thoughts]), (1000, [])):
        (sent, output) = sent_messages(steps, budget)
        assert (sent.calls[0].arguments, sent.calls[0].reasoning) == ('{"id": 7}', reasoning)
        assert output.content == "In the reeds."


def tokens(messages: list[PromptMessage]) -> int:
    return sum(message.tokens(count_tokens) for message in messages)


def pairs(messages: list[PromptMessage]) -> list[str]:
    """The ids of the calls, in order. Fail if a call and its output are separated."""
    waiting: set[str] = set()
    found: list[str] = []
    for message in messages:
        if message.role == "tool":
            waiting.remove(message.call_id)
            continue
        assert not waiting
        waiting = {call.id for call in message.calls}
        found += [call.id for call in message.calls]
    assert not waiting
    return found


@pytest.mark.parametrize("seed", range(4))
def test_any_loop_fits_with_all_its_pairs(seed: int) -> None:
    random = Random(seed)
    steps = a_loop(random, random.randint(1, 60), 20_000)
    messages = sent_messages(steps, 12_000, disarms=bool(seed % 2))
    assert tokens(messages) <= 12_000
    assert pairs(messages) == [step.payload["call_id"] for step in steps if step.role == "tool_call" and step.payload]
    for message in messages:
        for call in message.calls:
            assert call.is_custom or isinstance(json.loads(call.arguments), dict)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("budget", [0, 40, 300, 1_200])
def test_open_turn_drops_calls_when_marks_do_not_fit(seed: int, budget: int) -> None:
    random = Random(seed)
    messages = sent_messages(a_loop(random, random.randint(1, 60), 400), budget)
    pairs(messages)
    assert tokens(messages) <= max(budget, 40)


def test_open_turn_that_fits_is_whole() -> None:
    steps = a_loop(Random(1), 8, 600)
    assert sent_messages(steps, 60_000) == step_messages(steps, with_reasoning=True)


def rounds_of(output: str, number: int) -> list[list[Step]]:
    return [
        [
            Step("assistant", "", {"calls": 1}),
            Step("tool_call", "Called look_up({})", {"call_id": f"call_{at}", "name": "look_up", "arguments": "{}"}),
            Step("tool", output, {"call_id": f"call_{at}"}),
        ]
        for at in range(number)
    ]


@pytest.mark.parametrize(("chars", "alike"), first_row_of([(20_000, 1), (3_000, 20)]))
def test_the_newest_output_is_whole_and_most_prompts_begin_like_the_one_before(chars: int, alike: int) -> None:
    output = text_of(Random(3), chars)
    steps: list[Step] = []
    before: list[PromptMessage] = []
    found = 0
    for one in rounds_of(output, 30):
        steps += one
        now = sent_messages(steps, 12_000)
        assert now[-1].content == output
        found += now[: len(before)] == before
        before = now
    assert found >= alike


@pytest.mark.parametrize("ending", ["It is on its way.", ""], ids=["answered", "left"])
def test_a_finished_turn_costs_no_more_than_was_counted(ending: str) -> None:
    output = text_of(Random(4), 20_000)
    steps = [step for one in rounds_of(output, 5) for step in one] + [Step("assistant", ending)]
    rows = [
        StoredMessage(UUID(int=at), at, step.role, "complete", None, count_tokens(step.content), "", *step[1:])
        for at, step in enumerate([Step("user", "Where is my parcel?"), *steps], start=1)
    ]
    [turn] = to_turns(rows)
    messages = turn_messages(turn, Shown(turn.from_seq, turn.through_seq))
    assert tokens(messages) <= turn.tokens < 5 * count_tokens(output)
