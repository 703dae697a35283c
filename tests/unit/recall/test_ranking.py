"""Which finds a question is about: by rarity, neighbours, passages, position and diversity."""

import pytest

from memory.recall import ranking
from memory.recall.question import MAX_TERMS, read_question
from memory.recall.ranking import (
    Indexed,
    Ranked,
    excerpts,
    score_alone,
    weigh,
    words_to_combine,
    worth_showing,
)
from memory.recall.terms import stored_terms
from tests.support.folds import WORDS
from tests.unit.recall.makers import MOST, Told, small_talk

ZEPPELIN = [*small_talk(20), "The zeppelin lands here", "Fine", *small_talk(20)]
BOATS = [*small_talk(9), "blue boat", "ok", *small_talk(9), "boat of a blue dog", "ok", *small_talk(9)]
FERRY = [*small_talk(20), "Which ferry to Zanzibar?", "Take the ferry to Zanzibar at 9.", *small_talk(20)]


@pytest.mark.parametrize(
    ("said", "asked", "first"),
    [
        pytest.param(ZEPPELIN, "Which number of the quiet harbour has the zeppelin?", 41, id="a rare word"),
        pytest.param(BOATS, "the blue boat", 19, id="words side by side"),
        pytest.param(FERRY, "Which ferry to Zanzibar did you recommend?", 42, id="what the assistant said"),
        pytest.param(FERRY, "Which ferry to Zanzibar do I take?", 41, id="what the user said"),
    ],
)
def test_ranking_puts_the_answer_first(said: list[str], asked: str, first: int) -> None:
    assert Told(*said).best(asked)[0] == first


def test_an_answer_is_found_by_its_question_and_by_the_turn_before() -> None:
    told = Told(*small_talk(20), "When is the dentist?", "Let me see", "And?", "At five", *small_talk(20))
    best = told.best("dentist")
    assert best[0] == 41
    assert best.index(42) < best.index(43) < best.index(44) < 8
    assert 50 not in best


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("Where did the zeppelin land on May 3, 2026?", 19),
        ("Where did the zeppelin land on 2026-05-04?", 19),
        ("Where did the zeppelin land in June 2026?", 39),
        ("Where did the zeppelin land in June 2025?", 59),
        ("Where did the zeppelin land?", 59),
        ("Where did the zeppelin land on February 30, 2026?", 59),
    ],
)
def test_ranking_prefers_the_asked_time(asked: str, found: int) -> None:
    landed = ["Our zeppelin landed here", "ok"]
    told = Told(
        *small_talk(9),
        *[*landed, *small_talk(9)] * 3,
        days={19: "2026-05-03", 39: "2026-06-20", 59: "2025-06-20"},
    )
    assert told.best(asked)[0] == found


def test_ranking_skips_shown_turns() -> None:
    told = Told(*small_talk(20), "The zeppelin lands", "Fine", *small_talk(20), "zeppelin again", "ok")
    assert told.ranked("zeppelin", shown=(83, 84))[0].message.seq == 41


def test_the_same_words_under_another_question_are_another_answer() -> None:
    told = Told("Which gate?", "It is 12.", *small_talk(20), "Which seat?", "It is 12.", *small_talk(20))
    shown = worth_showing(told.ranked("gate and seat"), 1000)
    assert {2, 44} <= {one.message.seq for one in shown}


def test_ranking_drops_duplicates() -> None:
    told = Told(*["Where is the zeppelin now?", "In the hangar.", "Walk", "Fine"] * 5, *small_talk(20))
    ranked = told.ranked("zeppelin hangar")
    asking = {1, 5, 9, 13, 17}
    assert asking <= {one.message.seq for one in ranked}
    assert len([one for one in worth_showing(ranked, 1000) if one.message.seq in asking]) == 1


@pytest.mark.parametrize(
    ("beside", "gains"),
    [("near a zeppelin", True), ("near Zanzibar", False), (f"near a zeppelin. {WORDS * 20}", False)],
)
def test_short_messages_gain_by_short_ones_beside_them_that_answer(
    monkeypatch: pytest.MonkeyPatch, beside: str, gains: bool
) -> None:
    told = Told("The zeppelin lands", beside, *small_talk(20))

    def score() -> float:
        return next(one.score for one in told.ranked("zeppelin") if one.message.seq == 1)

    after = score()
    monkeypatch.setattr(ranking, "NEIGHBOUR_SHARES", ())
    assert (after > score()) is gains


def test_ranking_prefers_short_statement_over_repetition() -> None:
    told = Told(*small_talk(20), "My ferry to Zanzibar leaves at 9", f"{WORDS * 20}. The ferry to Zanzibar at 9.")
    best = told.best("When does the ferry to Zanzibar leave?")
    assert best[0] == 41
    assert 42 in best[:4]


def test_ranking_of_several_sentences_counts_both_sides_alike() -> None:
    plan = f"{WORDS * 20}. First the ferry to Zanzibar, then the lighthouse and the hangar. {WORDS * 20}"
    told = Told(*small_talk(20), "The ferry to Zanzibar is fine", plan, *small_talk(20))
    asked = "What of the ferry to Zanzibar, the lighthouse and the hangar?"
    assert told.best(asked)[0] == 41
    assert told.best(f"Good. I am ready. {asked}")[0] == 42


def test_ranking_quotes_best_passages_of_long_messages() -> None:
    long = f"{WORDS * 20}. The ferry to Zanzibar leaves from pier 44. {WORDS * 20}"
    told = Told("Tell me about the harbour", long, *small_talk(20))
    (made,) = excerpts(told.ranked("ferry to Zanzibar")[:1], told.said)
    assert made.quote.seq == 2
    assert "ferry to Zanzibar leaves" in long[made.quote.start : made.quote.end]
    assert made.tokens < 180


def test_common_words_are_looked_up_together() -> None:
    asked = read_question("quiet harbour lamps", 1)
    common = [tuple(range(1, 2 * MOST, 2)), tuple(range(2, 2 * MOST + 2, 2)), ()]
    is_cut = [True, True, False]
    assert words_to_combine(weigh(asked, common, MOST, 10_000), is_cut) == (0, 1)
    assert words_to_combine(weigh(asked, [*common[:2], (5,)], MOST, 10_000), is_cut) == ()


def test_ranking_weighs_common_words_little() -> None:
    asked = read_question("the zeppelin", 1)
    newest = range(10_000 - 2 * MOST, 10_000, 2)
    here_and_there = [seq for page in range(0, 10_000, 2_000) for seq in range(page, page + 2 * MOST // 5, 2)]
    rare = range(0, 10_000, 10_000 // MOST)
    worth = [weigh(asked, [seqs[:MOST]], MOST, 10_000).worth[0] for seqs in (newest, here_and_there, rare)]
    assert 0 < worth[0] == worth[1] < 0.8
    assert worth[2] > 4


def test_ranking_cuts_long_question_to_specific_terms() -> None:
    asked = read_question(" ".join(f"wordy{chr(97 + n)}" for n in range(26)) + " order A7731 on 2024-05-03", 1)
    assert len(asked.words) == MAX_TERMS
    tokens = {word.token for word in asked.words}
    assert {word.token for word in read_question("A7731 2024-05-03", 1).words} <= tokens


def test_a_giant_question_costs_little_and_its_end_counts() -> None:
    asked = read_question("😀 lorem ipsum " * 20_000 + "zeppelin7", 1)
    assert {word.token for word in read_question("zeppelin7", 1).words} <= {word.token for word in asked.words}


def in_full(seq: int, tokens: int, words: int) -> Ranked:
    """A message that is shown whole and contains the question's words `words` (as bits)."""
    return Ranked(1.0, Indexed(seq, True, tokens, ("one passage",)), words=words)


def test_about_as_many_are_shown_as_the_room_holds() -> None:
    ranked = [in_full(seq, 100, 1 << seq) for seq in range(1, 9)]
    assert [one.message.seq for one in worth_showing(ranked, 250)] == [1, 2, 3]


def test_a_passage_gains_where_the_rest_of_its_message_has_its_words_again() -> None:
    question = read_question("ferry Zanzibar", 1)
    once, again = (
        Indexed(1, True, 40, tuple(" ".join(stored_terms(part, 1).split()) for part in parts))
        for parts in (("Zanzibar", "harbour"), ("Zanzibar", "harbour and Zanzibar"))
    )
    worth = (1.0,) * len(question.words)
    assert score_alone(question, worth, again)[0] > score_alone(question, worth, once)[0]
