"""No text changes the structure of a prompt: the same number of items, the same roles, only our labels begin a line.

Each text takes the whole way: over HTTP into a chat, and over the wire out of it, where it is read as a server would.
"""

from collections.abc import Callable
from typing import Any

import hypothesis
import pytest
from hypothesis import HealthCheck
from hypothesis import strategies as st

from chatmemory.text.cleaning import disarm
from chatmemory.text.markers import is_marker, quote_markers
from memory.folding.answer_checks import AGAIN, END_AGAIN
from memory.policies import POLICIES
from memory.policies.protocol import State
from tests.security.injection.answers import answer_with
from tests.security.injection.chats import TURNS, chat_saying, state_of
from tests.security.injection.corpus import DOUBLES, HIDERS, LINE_ENDS, MARKERS
from tests.support.exhaustive import effort, first_of
from tests.support.fakes.behaviours import Behaviour
from tests.support.fakes.connection import Request
from tests.support.fakes.summarizer import read_turns, without_retry_instructions
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Client
from tests.support.prompts import BARE, labels

HARMLESS = "tea and cake"

# Without NUL, which a request refuses, and with a visible character at the end, which a turn needs.
hostile = (
    st.lists(
        st.sampled_from([*MARKERS, *BARE, *DOUBLES, *LINE_ENDS, *(set(HIDERS) - {"\x00"}), " ", "> "])
        | st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=6),
        max_size=6,
    )
    .map("".join)
    .map(lambda text: f"{text}x")
)
FEW = 20
LONGEST_TITLE = 1000
"""Maximum characters of a source's title."""


def sent_for(alice: Client, upstream: FakeUpstream, policy: str, text: str) -> Request:
    """Return the request to the model for a question in a chat that contains `text` in every place."""
    chat = chat_saying(policy, text)
    upstream.clear()
    upstream.behave(Behaviour(text="Fine."))  # a fixed answer: otherwise it depends on the question
    body = {
        "message": text,
        "chat_id": str(chat.pk),
        "stream": False,
        "sources": [{"title": text[:LONGEST_TITLE], "text": text}, {"text": text}],
        "metadata": {text: text},
    }
    answer = alice.post("message", json=body)
    assert answer.status_code == 200, answer.text
    return upstream.calls("stream")[-1]


def shape(request: Request) -> list[str]:
    """Return the roles of all items."""
    return [role for role, _ in request._messages()]


def as_sent(text: str) -> str:
    """Return the form of `text` in a summarizer's input."""
    return disarm(quote_markers(text))


@pytest.mark.promise("P23")
@pytest.mark.parametrize("style", first_of(["responses", "chat"]))
@pytest.mark.parametrize("turns_as", first_of(["messages", "text"]))
@pytest.mark.parametrize("policy", POLICIES)
def test_no_text_changes_the_structure_of_a_prompt(
    policy: str, turns_as: str, style: str, alice: Client, upstream: FakeUpstream, settings: Any
) -> None:
    settings.OPENAI_API_STYLE = style
    settings.MEMORY_TURNS_AS = turns_as
    settings.MEMORY_CHUNK_SUMMARIZE_THRESHOLD = 10**6
    settings.MEMORY_PROMPT_TOKEN_BUDGET = settings.SOURCES_TOKEN_BUDGET = 50_000  # room for all
    plain = sent_for(alice, upstream, policy, HARMLESS)
    own = 2 * TURNS if turns_as == "messages" else 0

    def check(text: str) -> None:
        sent = sent_for(alice, upstream, policy, text)
        assert shape(sent) == shape(plain)
        assert sent.instructions == plain.instructions, "nothing of it is in the system's role"
        if style == "chat":  # where memory and question are one message of the user
            assert sent.said[-1][1].endswith(f"\n\n{disarm(text)}")
            return
        assert sent.said[-1] == ("user", disarm(text)), "the question is a message of its own"
        # Turns shown verbatim, in messages of their own role, need no quoting either.
        of_memory = slice(0, len(plain.said) - 2 - own)
        for item, like in zip(
            [*sent.said[of_memory], sent.said[-2]], [*plain.said[of_memory], plain.said[-2]], strict=True
        ):
            assert labels(item[1]) == labels(like[1])

    for_all(check, effort(1, 50))


@pytest.mark.promise("P23")
@pytest.mark.parametrize("policy", first_of(POLICIES))
def test_no_text_changes_the_structure_of_a_summarizers_input(
    policy: str, alice: Client, upstream: FakeUpstream, settings: Any
) -> None:
    settings.MEMORY_MIN_RETAINED = 0  # the answer has nothing of what was said
    upstream.behave(Behaviour(text=answer_with(policy, "They talked.")), lane="complete")

    def asked_of(text: str) -> Request:
        talk = [{"role": role, "content": f"{text}{at}"} for at in range(2) for role in ("user", "assistant")]
        body = {"messages": talk, "policy": policy, "previous_summary": text}
        assert alice.post("summarize", json=body).status_code == 200
        return upstream.calls("complete")[-1]

    plain = asked_of(HARMLESS)
    shows_summary = policy != "hierarchical" and bool(read_turns(plain.said[-1][1])[0])

    def check(text: str) -> None:
        asked = asked_of(text)
        assert shape(asked) == shape(plain)
        assert asked.instructions == plain.instructions, "nothing of it is in the system's role"
        # A summarizer that returns so little may be asked again, with a note of what it left out.
        material = without_retry_instructions(asked.said[-1][1])
        note = asked.said[-1][1].removeprefix(material)
        assert [line for line in note.splitlines() if is_marker(line)] in ([], [AGAIN, END_AGAIN])
        said = [(as_sent(f"{text}{at}"), as_sent(f"{text}{at}")) for at in range(2)]
        if policy == "hierarchical":
            _, _, conversation = material.partition("## Conversation:\n")
            assert conversation == "\n".join(f"[user]: {user}\n[assistant]: {reply}" for user, reply in said)
            labels = [line.partition(" ")[0] for line in conversation.splitlines() if is_marker(line)]
            assert labels == ["[user]:", "[assistant]:"] * 2
            return
        existing, pairs = read_turns(material)
        assert pairs == said
        assert existing == (as_sent(text) if shows_summary else "")

    for_all(check, effort(8, 200))


@pytest.mark.promise("P23")
@pytest.mark.parametrize("policy", first_of(POLICIES))
def test_no_answer_changes_the_structure_of_the_next_prompt(
    policy: str, alice: Client, upstream: FakeUpstream, settings: Any
) -> None:
    taken: list[str] = []

    def check(text: str) -> None:
        # The user said it before, so that it is not refused as new.
        talk = [{"role": "user", "content": f"{text}\n{' '.join(text.split())}"}]
        upstream.behave(Behaviour(text=answer_with(policy, text)), lane="complete")
        answer = alice.post("summarize", json={"messages": talk, "policy": policy})
        if answer.status_code == 502:
            return  # refused: joined to one line, it can read as a new order
        body = answer.json()
        state = State.from_json(body["summary"], {"data": body["state"].get("data", body["state"])})
        sections = POLICIES[policy].render(state)
        plain = {one.kind: one for one in POLICIES[policy].render(state_of(policy, HARMLESS))}
        assert {section.role for section in sections} <= {section.role for section in plain.values()}
        for section in sections:
            assert labels(section.shown)[1:] == labels(plain[section.kind].shown)[1:]
        taken.append(text)

    for_all(check, effort(8, 200))
    assert len(taken) > effort(2, 60)


def for_all(check: Callable[[str], None], examples: int) -> None:
    """Run `check` with all attacks in one text and with `examples` random texts; if many, with each attack, too."""
    all_kinds = (*MARKERS, *BARE, *DOUBLES)
    for text in ("\n".join(all_kinds), *(all_kinds if examples > FEW else ())):
        check(f"{text}x")

    @hypothesis.settings(
        max_examples=examples,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @hypothesis.given(hostile)
    def checked(text: str) -> None:
        check(text)

    checked()
