"""Prompts, bills, rows, the table and the picture, with numbers small enough to count by hand."""

import json
from decimal import Decimal
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from chatmemory.llm.protocol import Price, Prompt, PromptMessage, Usage, Variant
from chatmemory.text.spans import SpanIndex
from memory.lab.conversation import Conversation, Exchange, KnownFact
from memory.lab.measures import (
    Outcome,
    Run,
    TurnMeasure,
    billed,
    everything,
    has,
    outcome_to_json,
    prompt_tokens,
    shared_prefix,
    spans_of,
)
from memory.lab.report import COLUMNS, as_rich, draw, note_on, rows_of

PRICE = Price(input=Decimal(1), cached=Decimal("0.1"), output=Decimal(10))
REPLIES = Variant("arco", "big", price=PRICE)
SUMMARIZER = Variant("summarizer", "small", price=PRICE)
UNPRICED = Variant("arco", "mystery")
TALK = Conversation(
    "A talk",
    "Be brief.",
    (Exchange("My code is QX7.", "Noted, QX7."), Exchange("And now?", "Nothing.")),
    (KnownFact("QX7", ("QX7",), (0,)),),
)


def turn(memory: int = 0, prompt: int = 100, prefix: int = 0, **more: Any) -> TurnMeasure:
    values = {"budget": 3000, "reply": 10, "before": 0, "unrepresented": 0, **more}
    return TurnMeasure(memory=memory, prompt=prompt, prefix=prefix, **values)


def run_of(*turns: TurnMeasure, named: int = 0, held: int = 0) -> Run:
    return Run("A talk", "chunked", turns, named, held)


def outcome_of(run: Run, replies: Variant = REPLIES, summarizer: Variant = SUMMARIZER) -> Outcome:
    return Outcome((TALK,), {run.policy: [run]}, replies, summarizer, is_offline=False)


MESSAGES = st.lists(
    st.builds(PromptMessage, st.sampled_from(["user", "assistant"]), st.text("ab \n", max_size=9)), max_size=5
)


def prompt(*texts: str, instructions: str = "") -> Prompt:
    return Prompt(tuple(PromptMessage("user", text) for text in texts), instructions)


def test_tokens_of_all_that_is_sent() -> None:
    assert prompt_tokens(prompt("one", "two")) == 10  # one token and four of overhead per message
    assert prompt_tokens(prompt("one", instructions="two")) == 10
    assert prompt_tokens(prompt()) == 0


def test_the_common_beginning_of_two_prompts() -> None:
    assert shared_prefix(prompt("one", "two"), prompt("one", "two", "three")) == 10
    assert shared_prefix(prompt("one", "two"), prompt("one", "one")) == 5
    assert shared_prefix(prompt("one two"), prompt("one one")) == 2  # "one" and the space
    assert shared_prefix(prompt("one", instructions="two"), prompt("one")) == 0  # instructions come first
    assert shared_prefix(prompt("one"), Prompt((PromptMessage("assistant", "one"),))) == 0


@given(MESSAGES, MESSAGES, st.text("ab", max_size=4))
def test_the_common_beginning_is_never_more_than_either(
    one: list[PromptMessage], other: list[PromptMessage], system: str
) -> None:
    first, second = Prompt(tuple(one), system), Prompt(tuple(other), system)
    shared = shared_prefix(first, second)
    assert 0 <= shared <= min(prompt_tokens(first), prompt_tokens(second))
    assert shared_prefix(first, Prompt((*one, *other), system)) >= prompt_tokens(first)


@pytest.mark.parametrize(
    ("prefix", "from_cache"), [(0, 0), (1023, 0), (1024, 1024), (1151, 1024), (1152, 1152), (5000, 4992)]
)
def test_the_cache_begins_at_1024_and_steps_by_128(prefix: int, from_cache: int) -> None:
    assert billed(9000, prefix, 5) == Usage(9000, from_cache, 5)


def test_everything_is_sent_again_and_again() -> None:
    # "one" and "two" cost one token each, plus four per message.
    talk = Conversation("", "one", (Exchange("one", "two"),) * 3)
    assert list(everything(talk)) == [Usage(10, 0, 1), Usage(20, 0, 1), Usage(30, 0, 1)]


RUN = run_of(
    turn(100, prompt=2000),
    turn(2990, prompt=2100, prefix=1300, before=1, folds=1, calls=(Usage(6000, 0, 500),)),
    turn(3001, prompt=0, before=2, unrepresented=1, reply=0),
    named=4,
    held=3,
)


def test_a_row_sums_up_all_prompts() -> None:
    (row,) = outcome_of(RUN).rows
    assert (row.turns, row.memory_mean, row.memory_max) == (3, 2030 + 1 / 3, 3001)
    assert (row.over_budget, row.coverage, row.cacheable) == (1 / 3, 0.5, 1300 / 4100)
    assert (row.input_tokens, row.calls, row.folds) == (4100, 1, 1)
    assert (row.named, row.held) == (4, 0.75)
    # Two replies of 10 tokens, 1280 of 4100 tokens cached; a fold of 6000 tokens in and 500 out; at $1, $0.10 and
    # $10 per million.
    assert row.usd == pytest.approx(0.003148 + 0.011)


def test_a_row_of_nothing() -> None:
    (row,) = outcome_of(run_of()).rows
    assert (row.turns, row.memory_mean, row.cacheable, row.coverage, row.held) == (0, 0, 0, 1, None)
    assert row.usd == 0


def test_without_a_price_the_cost_is_unknown() -> None:
    outcome = outcome_of(RUN, replies=UNPRICED)
    assert (outcome.rows[0].usd, outcome.everything_usd) == (None, None)
    assert outcome_of(RUN, summarizer=UNPRICED).rows[0].usd is None
    assert outcome_of(run_of(turn()), summarizer=UNPRICED).rows[0].usd  # no calls cost nothing


def test_a_fact_is_found_in_any_form_as_whole_words() -> None:
    text = SpanIndex("In 2011 the Heron, on May\n21, had code qx7.")
    facts = [
        KnownFact("QX7"),
        KnownFact("11"),
        KnownFact("21 May", ("May 21",)),
        KnownFact("Her"),
        KnownFact(""),
    ]
    assert [has(text, fact) for fact in facts] == [True, False, True, False, False]
    assert [fact.forms for fact in spans_of("Order QX-17 please", "qx-17 is sent to Lima")] == [
        ("qx-17",),
        ("Lima",),
    ]


def test_the_json_of_an_outcome_has_all_of_it() -> None:
    found = json.loads(json.dumps(outcome_to_json(outcome_of(RUN))))
    (policy,) = found["policies"]
    assert (policy["policy"], policy["memory_max"], policy["calls"]) == ("chunked", 3001, 1)
    assert policy["runs"][0]["turns"][1]["folds"] == 1
    assert found["models"] == {"replies": "big", "summarizer": "small"}
    assert found["talks"] == [{"name": "A talk", "turns": 2}]
    assert set(found) == {"models", "is_offline", "talks", "policies", "everything_usd"}


# The table and the picture


def test_a_row_a_policy_and_one_for_sending_everything() -> None:
    policy, everything = rows_of(outcome_of(RUN))
    assert policy[:8] == ["chunked", "2,030", "3,001", "33.3 %", "50.0 %", "31.7 %", "4,100", "1"]
    assert (policy[8], *policy[10:]) == ("0.0141", "4", "75.0 %")
    assert (everything[0], everything[9]) == ("everything", "1.00")


@pytest.mark.parametrize(("held", "shown"), [(0, "0 %"), (1, "0.1 %"), (9999, "99.9 %"), (10000, "100 %")])
def test_percentages_round_never_to_0_or_100(held: int, shown: str) -> None:
    assert rows_of(outcome_of(run_of(turn(), named=10000, held=held)))[0][-1] == shown


def test_an_unknown_price_is_said() -> None:
    outcome = outcome_of(RUN, replies=UNPRICED)
    assert rows_of(outcome)[0][8:10] == ["?", "?"]
    assert note_on(outcome).endswith("?: no price is known of mystery.")
    assert "?" not in note_on(outcome_of(RUN))


def test_each_column_is_explained() -> None:
    screen = StringIO()
    Console(width=110, file=screen).print(as_rich(outcome_of(RUN)))
    for name, meaning in COLUMNS.items():
        assert name in screen.getvalue()
        assert meaning.split()[-1] in screen.getvalue()


@pytest.mark.exhaustive
def test_the_picture_of_the_same_outcome_is_the_same_file(tmp_path: Path) -> None:
    drawn = []
    for name in ("a.svg", "b.SVG"):
        draw(outcome_of(RUN, replies=UNPRICED), tmp_path / name)
        drawn.append((tmp_path / name).read_text())
    assert drawn[0] == drawn[1]
    assert "no price is known" in drawn[0]
