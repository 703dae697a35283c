"""Text → terms: a word in one form is found by another form, in any language, and no text causes an error."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatmemory.llm.attachments import Attachment
from chatmemory.llm.protocol import ToolCall
from chatmemory.text.tokens import count_tokens
from conversations.replies.open_turn import ABANDONED
from memory.recall.terms import (
    HASH_BYTES,
    LONGEST_TERM,
    MOST_TERMS,
    hashed,
    highlights,
    passages,
    stored_terms,
    terms,
)
from tests.unit.context.makers import long_texts

texts = st.one_of(st.text(max_size=300), long_texts)


@pytest.mark.parametrize(
    ("said", "asked"),
    [
        ("We booked two flights", "booking a flight"),
        ("Living in New Gary, I earn 65,000 annually", "live annual"),
        ("The policies were cancelled", "Cancel the policy"),
        ("Café Zürich", "cafe zurich"),
        ("The company's $1,200 refund", "refund of 1200 for the company"),
        ("See /srv/app/main.py", "main.py"),
        ("my id is anya_garcia_5901", "anya garcia 5901"),
        ("Мы летим в Казань", "Казани"),
        ("Ёлка стоит", "елка"),
        ("رقم الحجز", "حجز"),
        ("我的护照号码", "护照"),
        ("カフェで", "カフェ"),
        ("ﾊﾟｽﾜｰﾄﾞ", "パスワード"),
        ("비밀번호는", "비밀번호"),
        ("गोदाम की चाबी", "चाबी"),
        ("STRASSE", "straße"),
        ("İstanbul", "istanbul"),
    ],
)
def test_terms_match_across_word_forms(said: str, asked: str) -> None:
    assert set(terms(asked)) <= set(terms(said))


@pytest.mark.parametrize(
    ("said", "found_by", "not_found_by"),
    [
        ("Krankenversicherung", "Krankenversicherung", "Versicherung kranken Krankenversicherungen"),
        ("Hotel-Rechnung", "Hotel Rechnung Hotel-Rechnung", "Hotelrechnung"),
        ("Schlüssel", "Schlüssel Schlussel", "Schluessel Schlüsseln"),
        ("בירושלים", "בירושלים", "ירושלים לירושלים"),
        ("القاهرة السوق", "قاهرة القاهرة سوق بالسوق والسوق للسوق", ""),
        ("بسيارة", "بسيارة", "سيارة"),
        ("我在北京大学学习", "北京 大学 北京大学 京大", "北"),
        ("他姓 王 ，", "王", ""),
        ("東京の猫は", "東京 猫は", "猫"),
        ("서울에 있는 집을", "서울 서울에 집을", "집"),
        ("квартиру", "квартира квартиры", ""),
        ("evimizde talossa", "evimizde talossa", "ev talo"),
    ],
)
def test_words_of_other_scripts_are_found_as_the_docs_say(said: str, found_by: str, not_found_by: str) -> None:
    found = {word: set(terms(word)) <= set(terms(said)) for word in f"{found_by} {not_found_by}".split()}
    assert [word for word, is_found in found.items() if is_found] == found_by.split()


@pytest.mark.parametrize(
    "said",
    [
        "2024-05-03",
        "May 3rd, 2024",
        "3.5.2024",
        "5/3/24",
        "3 of May 2024",
        "2024年5月3日",
        "2024/5/3",
        "3 may, 2024",
    ],
)
def test_a_day_is_the_same_however_it_is_spelled(said: str) -> None:
    assert {"@05-03", "@2024-05-03"} <= set(terms(f"on {said} we met"))


@pytest.mark.parametrize(
    ("one", "other"), [("Haus", "Maus"), ("3RK2T9", "3RK2T8"), ("2024-05-03", "2024-06-03"), ("Wien", "wie")]
)
def test_two_things_differ(one: str, other: str) -> None:
    assert not {term for term in terms(one) if len(term) > 2 and term != "2024"} & set(terms(other))


@pytest.mark.parametrize(
    ("message", "found"),
    [
        (ToolCall("c", "get_weather", '{"place": "Kiel"}').text, terms('get_weather({"place": "Kiel"})')),
        (ABANDONED, []),
        (Attachment("image", media_type="image/png", width=640, height=480, size=12_000).mark, []),
        (Attachment("image", media_type="image/jpeg", size=1_200_000).mark, []),
        (Attachment("file", name="plan.pdf", size=12_000).mark, terms("plan.pdf")),
        ("She called me: the image has 12 kB", terms("called image 12 kB")),
    ],
)
def test_the_servers_own_words_are_no_terms(message: str, found: list[str]) -> None:
    assert terms(message) == found


def test_words_that_say_nothing_are_no_terms() -> None:
    for text in ("What is the", "der die das", "el la los", "и в на", "!?… 🙂", "", " \n "):
        assert terms(text) == []


@given(texts)
def test_terms_are_clean_passages_join_and_a_line_of_hashes_is_stored_for_each(text: str) -> None:
    for term in terms(text):
        assert 0 < len(term) <= LONGEST_TERM
        assert not any(char.isspace() for char in term)
    spans = passages(text)
    assert "".join(text[start:end] for start, end in spans) == text
    assert all(0 < end - start <= 600 for start, end in spans)
    stored = stored_terms(text, 7)
    if stored:
        assert len(stored.split("\n")) == len(spans)
    assert {len(token) for token in stored.split()} <= {2 * HASH_BYTES}
    assert set(stored) <= set("0123456789abcdef \n")
    if len(spans) == 1:
        assert {hashed(term, 7) for term in terms(text)} == set(stored.split())


def test_a_passage_is_about_sixty_tokens_in_any_script() -> None:
    for text in ("The quiet harbour kept its lamps lit. " * 100, "我们明天坐火车去上海。" * 100):
        sizes = [count_tokens(text[start:end]) for start, end in passages(text)]
        assert min(sizes[:-1]) >= 35
        assert max(sizes) <= 125


def test_a_text_stored_with_longer_passages_is_divided_as_it_was_stored() -> None:
    text = "The quiet harbour kept its lamps lit. " * 32
    assert [end - start for start, end in passages(text)] == [266, 266, 266, 266, 152]
    assert [end - start for start, end in passages(text, stored=3)] == [418, 418, 380]
    assert passages(text, stored=4) == passages(text)


def test_two_owners_share_no_stored_term() -> None:
    one, other = (stored_terms("zeppelin over Berlin", owner) for owner in (1, 2))
    assert not set(one.split()) & set(other.split())


def test_a_giant_message_stores_no_more_than_a_database_takes() -> None:
    text = " ".join(f"w{number}x" for number in range(200_000))
    assert len(stored_terms(text, 1).split()) <= MOST_TERMS


@given(texts, texts)
def test_highlights_are_ranges_of_the_text_in_order(text: str, asked: str) -> None:
    ranges = highlights(text, set(terms(asked)))
    flat = [place for one in ranges for place in one]
    assert flat == sorted(flat)
    assert all(0 <= start < end <= len(text) for start, end in ranges)
