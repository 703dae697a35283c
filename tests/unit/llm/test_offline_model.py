"""The built-in model repeats what it was shown, and keeps the important facts when it summarizes."""

import asyncio
import json
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatmemory.llm.offline import (
    CARD_CLOSE,
    CARD_OPEN,
    FOUND,
    INTRODUCTION,
    LONGEST_SENTENCE,
    NOTHING,
    OfflineModel,
    on_question,
    sentences,
)
from chatmemory.llm.protocol import (
    ChatModel,
    Completion,
    Deadlines,
    Delta,
    Prompt,
    PromptMessage,
    Reply,
    Role,
    Schema,
    Variant,
)
from chatmemory.text.markers import LINES_HEADING, SUMMARY_HEADING
from chatmemory.text.tokens import count_tokens, load
from memory.policies.answers import summarizer_input
from memory.policies.card import IN_REPLY
from memory.policies.card import SCHEMA as CARD
from memory.policies.hierarchical import Fact, facts_input
from tests.unit.context.makers import make_turn

VARIANT = Variant("offline", "offline")

load()  # Load the encoding here once, not within the deadline of the property test that runs first.

ANY_TEXT = st.text(st.characters(exclude_categories=()))
SAYINGS = st.lists(
    st.sampled_from(
        [
            "Hi there. ",
            "I prefer dark mode. ",
            "Code A1B2. ",
            "My order number is #1234. ",
            "Let's go with the blue one! ",
            "Sections: Intro, Methods and Results\n",
            "See https://example.com/a_(b), please. ",
            "ask Anya Garcia\n",
            "$5 for 2 kg, at most 30 days. ",
            "Is it late? ",
            'He said "no" \\ twice. ',
            "Please forget the coupon. ",
            "[user]: x\n",
            "User: x\n",
            "=== NEW_TURNS ===\n",
            "- key: value\n",
            "中文。",
            "?",
        ]
    ),
    max_size=30,
).map("".join)


def turns_input(existing: str, *pairs: tuple[str, str]) -> str:
    return summarizer_input(existing, [make_turn(0, *pair) for pair in pairs])


def ask(content: str, answer_tokens: int = 0, schema: Schema | None = None) -> str:
    """Return the built-in model's answer to `content`."""
    return complete(Prompt((PromptMessage("user", content),), schema=schema, answer_tokens=answer_tokens)).text


CARD_BEFORE = "Conversation context: "
CHATTER = "I am glad to help you with that today, just let me know what you would like to do next. "


def prompt_of(*contents: str) -> Prompt:
    """Make a prompt in which user and assistant alternate, the user last."""
    roles: tuple[Role, Role] = ("user", "assistant")
    count = len(contents)
    return Prompt(tuple(PromptMessage(roles[(count - 1 - i) % 2], text) for i, text in enumerate(contents)))


def complete(prompt: Prompt) -> Completion:
    return OfflineModel(pause=0).complete(prompt, VARIANT, timeout=1)


def summarize(existing: str, *pairs: tuple[str, str], tokens: int = 500) -> str:
    return ask(turns_input(existing, *pairs), tokens)


def stream(prompt: Prompt, variant: Variant = VARIANT) -> tuple[list[Delta], Reply]:
    async def collect() -> list[Delta | Reply]:
        model: ChatModel = OfflineModel(pause=0)
        return [event async for event in model.stream(prompt, variant, Deadlines())]

    *deltas, reply = asyncio.run(collect())
    assert isinstance(reply, Reply)
    return [delta for delta in deltas if isinstance(delta, Delta)], reply


BORN = f"{SUMMARY_HEADING}\nMei Lee was born on 1989-12-13. The weather was fine."
HEADINGS = f"{LINES_HEADING}\nUser: {INTRODUCTION} Bicycle."
LESSONS = CARD_BEFORE + '{"g":"Learn vibrato","d":["Lessons are on Monday"],"c":[],"oq":[],"t":[],"lc":""}'


@pytest.mark.parametrize(
    ("contents", "answer"),
    [
        (
            (BORN, "Understood.", "My bicycle is green.", "Noted.", "When was Mei Lee born?"),
            "Mei Lee was born on 1989-12-13.",
        ),
        ((LESSONS, "Understood.", "When are lessons?"), "Lessons are on Monday"),
        (("我的订单号是12345。", "好的。", "订单号?"), "我的订单号是12345。"),
        (("My bicycle is green.", "Noted.", "How tall is K2?"), ""),
        ((), ""),
        # Neither headings, nor its own answers, nor the question.
        ((f"{SUMMARY_HEADING}\nIt rained.", "Yes.", "Any relevant background?"), ""),
        ((HEADINGS, f"{FOUND}\n- A bicycle.", "Is my bicycle green?", "Yes.", "Is my bicycle green?"), ""),
    ],
)
def test_offline_model_quotes_matches_or_explains_its_setup(contents: tuple[str, ...], answer: str) -> None:
    assert complete(prompt_of(*contents)).text == (f"{FOUND}\n- {answer}" if answer else NOTHING)
    assert "OPENAI_API_KEY" in NOTHING


def test_offline_summary_has_no_headings_of_its_input() -> None:
    summary = summarize("", ("My order is #1234.", "#1234 ships today"), ("And #5678?", "#5678 is late"))
    assert not re.search("Turn|===", summary)


def test_the_stream_is_the_answer_word_by_word_and_ends_complete() -> None:
    prompt = prompt_of("My code is A1B2.", "Noted.", "What is my code?")
    deltas, reply = stream(prompt)
    text = "".join(delta.text for delta in deltas)
    assert text == complete(prompt).text
    assert len(deltas) == len(text.split())
    assert reply.status == "complete"
    assert reply.model == "offline"
    assert reply.usage == complete(prompt).usage
    assert reply.usage is not None
    assert reply.usage.output_tokens == count_tokens(text)
    assert reply.usage.input_tokens > count_tokens("My code is A1B2.Noted.What is my code?")


@given(st.lists(st.one_of(ANY_TEXT, SAYINGS), min_size=1, max_size=4))
def test_any_prompt_gets_one_honest_answer(contents: list[str]) -> None:
    answer = complete(prompt_of(*contents))
    assert answer.text
    assert answer == complete(prompt_of(*contents))


@given(SAYINGS, st.lists(st.tuples(SAYINGS, SAYINGS), max_size=4), st.integers(20, 80))
def test_offline_summary_within_limit_and_facts(existing: str, said: list[tuple[str, str]], limit: int) -> None:
    summary = summarize(existing, *said, tokens=limit)
    if sentences(existing) or any(sentences(text) for each in said for text in each):
        assert summary
        assert count_tokens(summary) <= limit


def test_facts_come_before_chatter() -> None:
    said = [(CHATTER * 5, CHATTER * 20)] * 20
    said[7] = "My reservation is 3RK2T9. " + CHATTER, CHATTER * 20 + "It costs $1,240 on 2024-05-18."
    summary = summarize("", *said, tokens=60)
    assert "3RK2T9" in summary
    assert "2024-05-18" in summary
    assert summary.index("3RK2T9") < summary.index("2024-05-18")


def test_offline_summary_survives_many_folds() -> None:
    summary = ""
    for fold in range(30):
        summary = summarize(summary, (f"Please remember code KX{fold:02}Z. {CHATTER}", CHATTER * 20))
    assert all(f"KX{fold:02}Z" in summary for fold in range(30))
    assert count_tokens(summary) <= 500


def objects(**properties: Any) -> Schema:
    return Schema("somebodys", {"type": "object", "properties": properties})


FACT = {"type": "object", "properties": {"key": {"type": "string"}, "value": {"type": "string"}}}
TEXT, TEXTS, FACTS = (
    {"type": "string"},
    {"type": "array", "items": {"type": "string"}},
    {"type": "array", "items": FACT},
)
ANY_OBJECT = objects(summary=TEXT, notes=TEXTS, facts=FACTS, entities=TEXTS, source_urls=TEXTS, removed=TEXTS)


def test_offline_model_fills_any_schema() -> None:
    said = ("My order number is #1234. See https://example.com/a, says Mei Lee.", "It ships on 2026-03-01.")
    found = json.loads(ask(turns_input("The room is 45B.", said), 300, ANY_OBJECT))
    assert found["source_urls"] == ["https://example.com/a"]
    assert found["removed"] == []
    assert {"The room is 45B.", "It ships on 2026-03-01."} <= set(found["notes"])
    assert {"key": "order_number", "value": "My order number is #1234."} in found["facts"]
    inner = json.loads(ask(turns_input("", said), 300, objects(data=ANY_OBJECT.schema, summary=TEXT)))
    assert "#1234" in inner["summary"]
    assert inner["data"]["notes"]


def test_no_new_fact_takes_the_key_of_a_known_one() -> None:
    turns = [make_turn(0, "My order number is #5678. And my order number is #9.")]
    text = facts_input([Fact("order_number", "#1234")], turns)
    keys = [fact["key"] for fact in json.loads(ask(text, 200, objects(facts=FACTS)))["facts"]]
    assert keys == ["order_number_2", "order_number_3"]
    assert "{" not in summarize('{"g":"Plan a trip"}', ("It is on 2024-05-18.", "Noted."))  # JSON is not quoted


@given(SAYINGS, st.lists(st.tuples(SAYINGS, SAYINGS), max_size=4), st.integers(150, 400))
def test_an_object_keeps_to_its_limit(existing: str, said: list[tuple[str, str]], limit: int) -> None:
    for schema in (ANY_OBJECT, CARD):
        answer = ask(turns_input(existing, *said), limit, schema)
        assert set(json.loads(answer)) == set(schema.schema["properties"])
        assert count_tokens(answer) <= limit


def with_card(*contents: str) -> Prompt:
    return replace(prompt_of(*contents), instructions=IN_REPLY.format(cap=120))


CARD_PROMPT = (
    CARD_BEFORE + '{"g":"Plan a trip","d":["The user is mia_38."],"c":[],"oq":[],"t":[],"lc":""}',
    "Understood.",
    "My reservation is 3RK2T9.",
    f"{NOTHING}",
    "What is my reservation?",
)


def test_a_reply_ends_with_the_card_that_the_instructions_ask_for() -> None:
    deltas, _ = stream(with_card(*CARD_PROMPT))
    text, _, block = "".join(delta.text for delta in deltas).partition("\n\n" + CARD_OPEN)
    assert text == f"{FOUND}\n- My reservation is 3RK2T9."
    assert block.endswith(CARD_CLOSE)
    card = json.loads(block.removesuffix(CARD_CLOSE))
    assert card["goal"] == "Plan a trip"
    assert card["decisions"] == ["The user is mia_38.", "My reservation is 3RK2T9."]
    assert card["open_q"] == []
    assert INTRODUCTION not in block
    assert len(deltas) > 10
    deltas, _ = stream(with_card(*CARD_PROMPT), Variant("offline", "offline", max_output_tokens=100))
    text = "".join(delta.text for delta in deltas)
    assert text.endswith(CARD_CLOSE), "it has its room within an output limit"
    assert count_tokens(text) <= 101  # joined, the two may cost one more


@given(st.lists(st.one_of(ANY_TEXT, SAYINGS, SAYINGS.map(CARD_BEFORE.__add__)), max_size=4))
def test_any_prompt_that_asks_for_a_card_gets_one(contents: list[str]) -> None:
    deltas, _ = stream(with_card(*contents))
    block = "".join(delta.text for delta in deltas).rpartition(CARD_OPEN)[2]
    assert set(json.loads(block.removesuffix(CARD_CLOSE))) >= {"goal", "decisions", "open_q", "techniques"}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("One. Two! Three?", ["One.", "Two!", "Three?"]),
        (
            "First here. Second there!\n- Third\n2. **Fourth**",
            ["First here.", "Second there!", "Third", "Fourth"],
        ),
        ("Born 1989-12-13. Fine.", ["Born 1989-12-13.", "Fine."]),  # not the number of a list item
        ("- One. - Two. - - Three.", ["One.", "Two.", "Three."]),  # an earlier memory, as one paragraph
        ("你好。再见。", ["你好。", "再见。"]),
        (" \n\n ", []),
        ("a\tb" * 198 + " AB-CDEF", ["a\tb" * 198, "AB-CDEF"]),
    ],
)
def test_sentences_are_found(text: str, found: list[str]) -> None:
    assert sentences(text) == found


def test_the_rarest_shared_word_finds_the_best_sentence() -> None:
    texts = ["The flight is late.", "The flight to Lima is full.", "A flight is a flight.", "Is Lima nice?"]
    assert on_question(texts, "which flight goes to Lima", 1) == ["The flight to Lima is full."]
    assert on_question(texts, "nothing shared", 3) == []
    told = ["Lima is a city.", "Lima is at 12.05 S, 77.04 W."]
    assert on_question(told, "Where is Lima?", 1) == told[1:]
    long = "Lima " + "is a city and " * 100
    assert count_tokens(on_question([long], "Lima", 1)[0]) <= LONGEST_SENTENCE


def test_offline_model_prefers_the_newest_value() -> None:
    summary = "- Concert now: Friday 10 July, 19:00"
    recalled = "- Concert: Saturday 11 July, 16:30\n\n- Concert now: Friday 10 July, 19:00\n- Dinner before it: 17:00"
    assert on_question([summary, recalled], "When is our concert?", 1) == ["Concert now: Friday 10 July, 19:00"]
