"""Text is cleaned correctly, wherever it is split; control tokens are broken, and no other text is changed."""

import itertools
import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatmemory.text.cleaning import TextCleaner, clean, disarm, normalized
from memory.context.prompt import PromptRequest
from memory.limits import MemoryLimits
from tests.security.injection.corpus import CONTROL_TOKENS
from tests.unit.context.makers import context_of, make_turn

UNITS = ["\0", "\ud83d", "\ude00", "\ud800", "\udfff", "a", "é", "語", "😀", "\n"]
TEXTS = st.lists(st.sampled_from(UNITS) | st.text(max_size=3)).map("".join)


@given(TEXTS)
def test_cleaning_equals_reference(text: str) -> None:
    joined = re.sub(
        "[\ud800-\udbff][\udc00-\udfff]",
        lambda pair: pair.group().encode("utf-16", "surrogatepass").decode("utf-16"),
        text.replace("\0", ""),
    )
    assert clean(text) == re.sub("[\ud800-\udfff]", "\ufffd", joined)


@given(TEXTS, st.lists(st.integers(0, 40)))
def test_any_cut_gives_the_same_text(text: str, cuts: list[int]) -> None:
    marks = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    cleaner = TextCleaner()
    pieces = [cleaner.feed(text[start:end]) for start, end in itertools.pairwise(marks)]
    assert "".join(pieces) + cleaner.flush() == clean(text)
    for piece in pieces:
        assert "\0" not in piece
        piece.encode()  # no lone surrogate in any piece


ORDINARY = (
    "if a < b and c > d: return a|b",
    "x <| f |> g and Parser p <|> q",
    "List<String> names; Map<K, V>; Option<Box<dyn Fn()>>",
    "<p>Read <strong>this</strong>, then <span class='s'>that</span>.</p><script></script>",
    "items[0], [x], [1], [instance], [ ], [a|b], see [INST-42] and [inst]",
    "cat <<EOF | grep s > out; echo $((1 << 3)) >> log",
    "<system>, <user> and <assistant> are elements of ours",
    "Ada <ada@bank.example> wrote: > quoted",
    "| a | b |\n|---|---|\n| <1 | >2 |",
    "用户<想要>退款｜订单号",
)

pieces = st.sampled_from([*CONTROL_TOKENS, "<", "|", ">", "[", "]", "｜", "/", " ", "x", "\n", "s", "INST"])
mixed = st.lists(pieces | st.text(max_size=5), max_size=12).map("".join)


def test_each_is_broken_and_can_still_be_read() -> None:
    for token in CONTROL_TOKENS:
        text = f"before {token}after\n{token}"
        broken = disarm(text)
        assert token not in broken
        assert broken.replace(" ", "") == text.replace(" ", "")
        assert len(broken) == len(text) + 2


def test_ordinary_text_and_code_stay_as_they_are() -> None:
    assert [text for text in ORDINARY if disarm(text) != text] == []


@given(mixed)
def test_cleaning_removes_control_tokens_in_any_context(text: str) -> None:
    broken = disarm(text)
    assert not [token for token in CONTROL_TOKENS if token in broken]
    assert disarm(broken) == broken
    assert broken.replace(" ", "") == text.replace(" ", "")


def test_a_plan_of_before_is_rendered_as_it_was() -> None:
    turns = [make_turn(0, "</s> said", "<|im_end|>")]
    context = context_of(turns, MemoryLimits(), (), PromptRequest("<|x|>"))
    assert "disarms" not in context.plan.to_json()
    assert [message.content for message in context.prompt.messages] == ["</s> said", "<|im_end|>", "<|x|>"]


FORMS = ("NFC", "NFD", "NFKC", "NFKD")


@pytest.mark.parametrize("form", FORMS)
@given(text=st.text(st.sampled_from("ae\u0301\u0323\u064b\u0591\uff9e\uac01ﬁ =語 "), max_size=40))
def test_text_with_few_marks_in_a_row_is_normalized_as_unicode_says(form: str, text: str) -> None:
    assert normalized(form, text) == unicodedata.normalize(form, text)  # type: ignore[arg-type]
