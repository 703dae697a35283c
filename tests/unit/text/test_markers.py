"""No text that people type can close a section, open one, or speak for another role, however it is written."""

import itertools
import unicodedata
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatmemory.text.markers import (
    LOOKALIKES,
    RECALL_HEADING,
    SOURCES_HEADING,
    indented,
    is_marker,
    quote_markers,
    skeleton,
)
from chatmemory.text.turn_line import CUT_OFF
from memory.context.plan import Source, render_excerpts, render_sources
from memory.history.turns import assistant_text
from memory.policies.answers import summarizer_input
from memory.recall.ranking import Quote, RecalledMessage
from tests.security.injection.corpus import DOUBLES, HIDERS, LINE_ENDS, MARKERS
from tests.support.fakes.summarizer import read_turns
from tests.support.prompts import BARE, labels
from tests.unit.context.makers import make_turn

hostile = st.lists(
    st.one_of(
        st.sampled_from([*MARKERS, *BARE, *DOUBLES, *LINE_ENDS, *HIDERS, " ", "\t", "\u00a0", "> ", "text"]),
        st.text(max_size=5),
    ),
    max_size=12,
).map("".join)


@pytest.mark.promise("P23")
def test_a_marker_is_quoted_wherever_a_line_begins_and_however_it_is_spelled() -> None:
    for marker in (*MARKERS, *DOUBLES):
        assert quote_markers(marker) == f"> {marker}"
        for end in LINE_ENDS:
            assert quote_markers(f"hello{end}  {marker}") == f"hello{end}>   {marker}"


def test_invisible_characters_hide_no_marker() -> None:
    for hider, marker in itertools.product(HIDERS, MARKERS):
        hidden = f"{hider}{marker[:2]}{hider}{marker[2:]}"
        assert quote_markers(hidden) == f"> {hidden}"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "A plain question?",
        "Title\n=====\n",  # a heading in Markdown
        "My turn 3: no, yours",
        "The user: nobody",
        "users: 12",
        "The system: nothing new",
        "[1] a footnote",
        "- User stories: twelve",
        "- user: 12",
        "Human beings: many",
        "**Note:** the system: nothing new",
        "- systems: three",
        "# Users:",
        "system requirements: 8 GB",
        "<start> and <turn>",
        "[instance] [install]",
        "〇：ノート",
        "Система: Линукс",
        "a === b",
        "background noise",
        "> User: quoted already",
        "line\r\nline\u2028line",
    ],
)
def test_everything_else_stays_as_it_was_typed(text: str) -> None:
    assert quote_markers(text) == text


@given(hostile, hostile)
def test_a_source_poses_as_no_other_source(title: str, text: str) -> None:
    shown = render_sources(
        [Source(title, f"{text}\n[2] Another\n\uff3b3\uff3d and one"), Source("b", "c")], (None, None)
    )
    assert labels(shown) == [SOURCES_HEADING, "[1", "[2"]
    assert f"[1] {' '.join(title.split())}".rstrip() in shown.splitlines()


def test_every_line_but_the_first_is_indented() -> None:
    for end in LINE_ENDS:
        assert indented(f"a{end}{end}b{end}  c{end}") == f"a{end}{end} b{end}   c{end}"
    assert indented("") == ""


@given(hostile, st.sampled_from([11, 12]))
def test_a_prompt_of_before_is_rendered_as_it_was(text: str, renderer: int) -> None:
    message = RecalledMessage(UUID(int=1), 1, "tool", "2026-05-03", text, 1)
    shown = render_excerpts([[Quote(1)]], {1: message}, renderer)
    quoted = quote_markers(text) if renderer == 11 else indented(text)
    assert shown == (f"{RECALL_HEADING}\n\n[2026-05-03]\nTool: {quoted}" if text else "")


@given(hostile)
def test_quoting_leaves_no_marker_and_adds_and_takes_nothing_else(text: str) -> None:
    before, after = text.splitlines(keepends=True), quote_markers(text).splitlines(keepends=True)
    assert not [line for line in after if is_marker(line)]
    assert [
        line.removeprefix("> ") if is_marker(old) else line for old, line in zip(before, after, strict=True)
    ] == before


def test_the_summarizer_input_is_the_seeds_to_the_letter() -> None:
    turns = [
        make_turn(0, "Hi", "Hello\n\nthere"),
        make_turn(0, "Only me"),
        make_turn(0, "", "Only I", cut_off=True),
        make_turn(0, ""),
    ]
    assert summarizer_input("", turns) == (
        "=== EXISTING_SUMMARY ===\n"
        "NONE\n"
        "=== END_EXISTING_SUMMARY ===\n"
        "\n"
        "=== NEW_TURNS ===\n"
        "Turn 1:\n"
        "User: Hi\n"
        "Assistant: Hello\n"
        "\n"
        "there\n"
        "\n"
        "Turn 2:\n"
        "User: Only me\n"
        "\n"
        "Turn 3:\n"
        f"Assistant: Only I\n{CUT_OFF}\n"
        "=== END_NEW_TURNS ==="
    )


@given(hostile, st.lists(st.tuples(hostile, hostile, st.booleans()), max_size=4))
def test_markers_round_trip(existing: str, said: list[tuple[str, str, bool]]) -> None:
    turns = [make_turn(0, user, reply, cut_off=cut_off) for user, reply, cut_off in said]
    summary, pairs = read_turns(summarizer_input(existing, turns))
    assert summary == quote_markers(existing)
    spoken = [each for each in turns if each.user or each.assistant]
    assert pairs == [(quote_markers(each.user), quote_markers(assistant_text(each))) for each in spoken]


def test_each_double_looks_like_one_plain_sign_and_is_not_ascii() -> None:
    for plain, doubles in LOOKALIKES.items():
        assert {skeleton(double) for double in doubles} == {plain}
    doubles = "".join(LOOKALIKES.values())
    assert len(set(doubles)) == len(doubles) > 350
    assert not [double for double in doubles if double.isascii()]


def test_digits_of_numbers_stay_digits() -> None:
    assert skeleton("\U0001d7ce\U0001d7cf \uff10\u06f1") == "01 0\u06f1"
    assert unicodedata.digit("\u06f1") == 1
