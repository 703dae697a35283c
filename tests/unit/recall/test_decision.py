"""Whether a message recalls earlier turns: a question always, others if they match well."""

from time import perf_counter

import pytest

from chatmemory.config.declared import RecallMode
from memory.context.planner import is_lean
from memory.limits import MemoryLimits
from memory.recall.question import READ_CHARS, form_of, read_question
from memory.recall.ranking import Matches, Recall, decide, known_words, room_for, weigh

RARE, COMMON = (7,), tuple(range(1, 200, 2))


def decision(text: str, *, known: bool = False, found: tuple[int, ...] = RARE, recall: RecallMode = "auto") -> Recall:
    """The decision if each word of `text` is in the messages `found` of 200, all (`known`) or none in the prompt."""
    question = read_question(text, 1)
    matches = weigh(question, [found] * len(question.words), 200, 200)
    shown = known_words(question, matches, found if known else (), ())
    return decide(MemoryLimits(recall=recall), question, matches, shown)


@pytest.mark.parametrize(
    "text",
    [
        "What is the name of my dog?",
        "By the way, where did I leave the keys?",
        "Did Caroline ever go to Zanzibar?",
        "Did the zeppelin land on Zanzibar?",
        "Was the hangar sold to Bertram?",
        "Have you ever heard me mention Zanzibar?",
        "Has your sister ever been to Zanzibar?",
        "Are there any lighthouses on Zanzibar?",
        "How many cards are in my gallery with Bootstrap 5.3.0?",
        "My gallery uses Bootstrap 5.3.0. How would you set it up?",
        "Wie heißt meine Schwester?",
        "¿Dónde vive mi tía?",
        "Kde mám klíče od auta?",
        "Dove sono i documenti della casa?",
        "Pasaport numaram nedir?",
        "Где живёт моя сестра?",
        "我妹妹叫什么名字？",
        "私の犬の名前はどの紙に書きましたか。",
        "Give me the current launch date and budget.",
        "As of now, summarize the state of Copper.",
        "Hi, could you please remind me of the dosage?",
        "Could you look up my locker code",
        "Recall my daughter's address.",
        "I am looking at two ferries. Can you help me decide?",
        "Could you suggest a few restaurants?",
        "What's next on the New Zealand plan?",
        "Where were we with the contract?",
        "Nenne mir bitte das Datum der Abnahme.",
        "Recuérdame la fecha de la boda.",
        "Напомни мне адрес дачи.",
        "告诉我护照号码。",
    ],
)
def test_question_always_recalls(text: str) -> None:
    assert form_of(text).asks
    assert decision(text) == decision(text, known=True) == Recall("all", "question")


@pytest.mark.parametrize(
    "text",
    [
        "Thanks again, that is all.",
        "Yes, please go ahead.",
        "Can we make a note of that?",
        "Is there a later flight?",
        "Is there anything else?",
        "Have you got a later one?",
        "Can anything be done without it?",
        "I went where the wind blows.",
        "Danke, das war alles.",
        "Please resume the booking with VAT.",
        "Here is my list.",
    ],
)
def test_small_talk_and_orders_are_no_questions(text: str) -> None:
    assert not form_of(text).asks
    assert not form_of(text).refers_back


def test_a_reference_to_the_past_calls_for_all() -> None:
    text = "Take the zeppelin tour, as we discussed."
    assert decision(text) == decision(text, known=True) == Recall("all", "refers_back")
    assert decision(text, found=()) == Recall("none", "nothing_new")


def test_anything_else_calls_for_some_where_it_matches_well() -> None:
    text = "Please book the zeppelin hangar and lighthouse tour to Zanzibar with Nikolai, Bertram and Ottilie."
    assert decision(text) == decision(text, known=True) == Recall("some", "strong_match")
    assert decision(text, known=True, recall="generous") == Recall("all", "strong_match")
    assert decision(text, found=COMMON) == Recall("none", "nothing_new")
    assert decision("Please book the zeppelin tour to Zanzibar.", known=True) == Recall("none", "nothing_new")


def test_an_order_with_a_dozen_rare_words_calls_for_all_unless_recall_is_lean() -> None:
    text = (
        "Please move the zeppelin hangar and lighthouse tour to Zanzibar with Nikolai, Bertram and Ottilie behind the"
        " harbour festival, because the ferry captain sprained an ankle."
    )
    assert decision(text, known=True) == Recall("all", "strong_match")
    assert decision(text, known=True, recall="lean") == Recall("some", "strong_match")


@pytest.mark.parametrize(
    ("recall", "shown", "not_shown"),
    [("lean", "none", "none"), ("auto", "none", "some"), ("generous", "some", "some")],
)
def test_an_order_with_a_few_rare_words_is_searched_as_recall_is_set(
    recall: RecallMode, shown: str, not_shown: str
) -> None:
    text = "Please book the zeppelin tour to Zanzibar."
    assert decision(text, known=True, recall=recall).sought == shown
    assert decision(text, recall=recall).sought == not_shown
    assert decision("Thanks again.", recall=recall).sought == "none"


@pytest.mark.parametrize(
    ("text", "has_id"),
    [
        ("My id is mia_kim_4397.", True),
        ("It is about H9ZU1C, thanks.", True),
        ("Das ist die Nummer XY-1234.", True),
        ("My booking is HXDUBJ, thanks.", True),
        ("my booking is hxdubj, thanks.", False),
        ("MY BOOKING IS HXDUBJ, THANKS.", False),
        ("My booking is with NASA, thanks.", False),
        ("Let us meet at 5pm.", False),
        ("It is on 2026-05-24.", False),
        ("The card ends in 73340.", False),
        ("Version 3.11", False),
    ],
)
def test_an_id_calls_for_some_unless_the_prompt_has_it(text: str, has_id: bool) -> None:
    nothing = Recall("none", "nothing_new")
    assert decision(text, found=COMMON) == (Recall("some", "new_words") if has_id else nothing)
    assert decision(text, found=COMMON, known=True) == decision(text, found=()) == nothing


@pytest.mark.parametrize(
    "text",
    [
        "I don't remember my booking number.",
        "I cannot quite recall the date.",
        "I forgot my locker code.",
        "I've forgotten where we met.",
        "Ich kann mich nicht an den Namen erinnern. Ich weiß nicht mehr, es war im Mai.",
        "Я не помню номер.",
        "我不记得那个号码。",
    ],
)
def test_refers_back_always_recalls(text: str) -> None:
    helped = Recall("some", "refers_back")
    assert decision(text, found=COMMON, known=True) == helped
    assert decision(text, found=()) == Recall("none", "nothing_new")
    assert not is_lean(helped)


def test_always_means_every_question() -> None:
    question = read_question("Yes, the blue one.", 1)
    assert decide(MemoryLimits(recall="always"), question, Matches((0.0,) * len(question.words)), 0) == Recall(
        "all", "chosen"
    )


def test_the_room_of_each() -> None:
    limits = MemoryLimits()
    recalls = [Recall("all", "question"), Recall("some", "new_words"), Recall("none", "nothing_new")]
    assert [room_for(one, limits, 900) for one in recalls] == [900, 300, 0]
    assert room_for(recalls[1], MemoryLimits(recall_some_share=0.13), 900) == 390
    assert [is_lean(one) for one in recalls] == [True, False, False]


def test_a_word_is_known_where_it_is_shown_or_remembered() -> None:
    question = read_question("zeppelin Zanzibar ferry", 1)
    places = {word.term: 1 << at for at, word in enumerate(question.words)}
    matches = weigh(question, [(7,), (9,), (11,)], 200, 200)
    first, second, third = places
    assert known_words(question, matches, (7,), ()) == places[first]
    assert known_words(question, matches, (), {second}) == places[second]
    assert known_words(question, matches, (7, 9), {third}) == sum(places.values())


@pytest.mark.parametrize("piece", [", ", "ok ", "please ", "and ", ",;:", "ok, ", "could you ", "- "])
def test_the_time_for_a_form_does_not_grow_with_the_square_of_a_message(piece: str) -> None:
    def seconds(text: str) -> float:
        def once() -> float:
            began = perf_counter()
            form_of(text)
            return perf_counter() - began

        return min(once() for _ in range(5))

    whole = piece * (2 * READ_CHARS // len(piece))
    assert seconds(whole) < 8 * seconds(whole[: len(whole) // 4]) + 0.001
