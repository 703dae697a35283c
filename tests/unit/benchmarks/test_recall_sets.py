"""Loading public sets of long conversations: who says what and when, the questions, and the evidence for each."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.recall.public import locomo, longmemeval
from benchmarks.recall.sets import Chat
from tests.support.folds import WORDS


def read(folder: Path, value: object, *, people: bool) -> list[Chat]:
    file = folder / "set.json"
    file.write_text(json.dumps(value), encoding="utf-8")
    return locomo(file) if people else longmemeval(file)


def talk(*questions: tuple[str, list[str], int]) -> dict[str, Any]:
    return {
        "sample_id": "one",
        "conversation": {
            "speaker_a": "Ann",
            "speaker_b": "Bob",
            "session_10_date_time": "1:05 pm on 9 June, 2023",
            "session_10": [{"speaker": "Bob", "dia_id": "D10:1", "text": "We sold the boat."}],
            "session_2_date_time": "11:56 am on 8 May, 2023",
            "session_2": [
                {"speaker": "Bob", "dia_id": "D2:1", "text": "Look!", "blip_caption": "a photo of a boat"},
                {"speaker": "Ann", "dia_id": "D2:2", "text": "Lovely."},
            ],
        },
        "qa": [
            {"question": question, "evidence": evidence, "category": category}
            for question, evidence, category in questions
        ],
    }


def haystack(**fields: Any) -> dict[str, Any]:
    said = [
        [{"role": "user", "content": "Any tea?"}, {"role": "assistant", "content": "Try sencha from Uji."}],
        [{"role": "user", "content": "I moved to Oslo.", "has_answer": True}],
    ]
    return {
        "question_id": "q1",
        "question": "Where do I live?",
        "answer": "Oslo",
        "answer_session_ids": ["b"],
        "haystack_dates": ["2023/08/11 (Fri) 00:01", "2023/07/12 (Wed) 10:14"],
        "haystack_session_ids": ["a", "b"],
        "haystack_sessions": said,
    } | fields


def test_two_people_are_a_user_and_an_assistant_with_names_captions_and_times(tmp_path: Path) -> None:
    (chat,) = read(tmp_path, [talk()], people=True)
    assert chat.messages == (
        ("assistant", "Bob: Look! [shares a photo of a boat]", datetime(2023, 5, 8, 11, 56, tzinfo=UTC)),
        ("user", "Ann: Lovely.", datetime(2023, 5, 8, 11, 57, tzinfo=UTC)),
        ("assistant", "Bob: We sold the boat.", datetime(2023, 6, 9, 13, 5, tzinfo=UTC)),
    )


def test_evidence_is_the_messages_that_are_named_however_they_are_written(tmp_path: Path) -> None:
    asked = talk(
        ("What of the boat?", ["D2:1; D10:01"], 1),
        ("Whose car?", ["D2:2"], 5),  # asks for something that was not said
        ("Which street?", ["D"], 2),  # names no evidence
    )
    (chat,) = read(tmp_path, [asked], people=True)
    (one,) = chat.asked["question"]
    assert one.evidence == {
        0: ("bob: look! [shares a photo of a boat]",),
        2: ("bob: we sold the boat.",),
    }


def test_sessions_come_in_order_of_time_and_marked_messages_answer(tmp_path: Path) -> None:
    (chat,) = read(tmp_path, [haystack()], people=False)
    assert [message.text for message in chat.messages] == [
        "I moved to Oslo.",
        "Any tea?",
        "Try sencha from Uji.",
    ]
    (one,) = chat.asked["question"]
    assert (one.question, one.evidence) == ("Where do I live?", {0: ("i moved to oslo.",)})
    assert read(tmp_path, [haystack(question_id="q1_abs")], people=False) == []


def test_of_a_long_message_the_passage_with_the_answer_counts(tmp_path: Path) -> None:
    long = f"{WORDS * 20}. I moved to Oslo. {WORDS * 20}"
    sessions = [
        [{"role": "user", "content": "Any tea?"}],
        [{"role": "user", "content": long, "has_answer": True}],
    ]
    (chat,) = read(tmp_path, [haystack(haystack_sessions=sessions)], people=False)
    ((passage,),) = chat.asked["question"][0].evidence.values()
    assert "i moved to oslo." in passage
    assert len(passage) < len(long) / 4
    assert passage in long.lower()


def test_without_marks_the_message_with_most_of_the_answers_words_counts(tmp_path: Path) -> None:
    several = haystack(
        questions=["Which tea?", "Which town?", "Which cake?"],
        answers=["Sencha from Uji", "Oslo", "A cheesecake with plums"],
        answer_session_ids=[["a"], ["b"], ["a"]],
    )
    (chat,) = read(tmp_path, [several], people=False)
    assert [(one.question, list(one.evidence)) for one in chat.asked["question"]] == [
        ("Which tea?", [2]),
        ("Which town?", [0]),
    ]
