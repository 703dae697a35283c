"""The tokens of a prompt, and the prefix that two prompts share."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from chatmemory.llm.protocol import Prompt, PromptMessage
from memory.lab.measures import memory_text, prompt_tokens, shared_prefix

MESSAGES = st.lists(
    st.builds(PromptMessage, st.sampled_from(["user", "assistant"]), st.text("ab \n", max_size=9)), max_size=5
)


def prompt(*texts: str, instructions: str = "") -> Prompt:
    return Prompt(tuple(PromptMessage("user", text) for text in texts), instructions)


def test_tokens_of_all_that_is_sent() -> None:
    assert prompt_tokens(prompt("one", "two")) == 10  # one token and four of overhead per message
    assert prompt_tokens(prompt("one", instructions="two")) == 10
    assert prompt_tokens(prompt()) == 0


def test_the_common_beginning() -> None:
    assert shared_prefix(prompt("one", "two"), prompt("one", "two", "three")) == 10
    assert shared_prefix(prompt("one", "two"), prompt("one", "one")) == 5
    assert shared_prefix(prompt("one two"), prompt("one one")) == 2  # "one" and the space
    assert shared_prefix(prompt("one", instructions="two"), prompt("one")) == 0  # instructions come first


def test_another_role_is_another_message() -> None:
    assert shared_prefix(prompt("one"), Prompt((PromptMessage("assistant", "one"),))) == 0


def test_memory_is_all_before_the_question() -> None:
    assert memory_text(prompt("summary", "turn", "question?", instructions="be brief")) == "summary\nturn"


@given(MESSAGES, MESSAGES, st.text("ab", max_size=4))
def test_it_is_never_more_than_either(
    one: list[PromptMessage], other: list[PromptMessage], system: str
) -> None:
    first, second = Prompt(tuple(one), system), Prompt(tuple(other), system)
    shared = shared_prefix(first, second)
    assert 0 <= shared <= min(prompt_tokens(first), prompt_tokens(second))
    assert shared_prefix(first, first) == prompt_tokens(first)
    assert shared_prefix(first, Prompt((*one, *other), system)) >= prompt_tokens(first)
