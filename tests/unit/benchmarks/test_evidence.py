"""What counts as evidence in a prompt, what the baselines contain, and how BEAM's files become chats and questions."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.evidence.baselines import chunks, users_messages
from benchmarks.evidence.beam import beam
from benchmarks.evidence.gatemem import gatemem
from benchmarks.evidence.matching import PART, Haystack, Piece, has_part
from benchmarks.evidence.measure import Row, share
from benchmarks.evidence.questions import Question, Sample
from benchmarks.evidence.realmem import realmem
from benchmarks.evidence.realtalk import realtalk
from benchmarks.evidence.report import table
from benchmarks.recall.sets import Message

LONG = " ".join(f"word{number}" for number in range(200))


def test_a_short_message_counts_when_it_is_there_whole_however_it_is_rendered() -> None:
    there = Haystack("[message 3, 2024-03-15]\nUser: First line,\n> Turn 4: second\n  line.")
    assert there.has(Piece(("First line,\nTurn 4: second line.",), part=PART))
    assert not there.has(Piece(("First line,\nTurn 4: second line. And more.",), part=PART))
    assert not there.has(Piece(("",)))


def test_of_a_long_message_a_part_is_enough_where_the_set_says_so() -> None:
    piece = Piece((LONG,), part=PART)
    assert Haystack(f"before {LONG[333 : 333 + PART]} after").has(piece)
    assert not Haystack(f"before {LONG[333 : 333 + PART - 5]} after").has(piece)
    assert not Haystack(f"before {LONG[333 : 333 + PART]} after").has(Piece((LONG,)))


def test_a_part_is_found_wherever_it_begins() -> None:
    for start in range(len(LONG) - PART):
        assert has_part(LONG, f"§{LONG[start : start + PART]}§", PART)
        assert not has_part(LONG, f"§{LONG[start : start + PART - 1]}§", PART)


def test_a_value_counts_where_nothing_continues_it() -> None:
    piece = Piece(("HAT12", "12"), is_value=True)
    assert Haystack("Flight hat12, please.").has(piece)
    assert Haystack("座位12号").has(piece)
    assert not Haystack("Flight HAT123 at 512 for 12th").has(piece)


def test_the_share_is_that_of_the_pieces() -> None:
    question = Question(
        "", "?", (Piece(("red",)), Piece(("green",)), Piece(("blue", "azure")), Piece(("x1",)))
    )
    assert share(question, "Red and azure") == 0.5


def test_the_baselines_show_the_best_that_fits() -> None:
    messages = (
        Message("user", "My hotel in Bergen is the Aurora."),
        Message("assistant", "The hotel Aurora in Bergen has a pool."),
        Message("user", "I like soup."),
    )
    asked = ["hotel", "bergen"]
    assert users_messages(messages).shown(asked, 1000) == ["My hotel in Bergen is the Aurora."]
    assert set(chunks(messages).shown(asked, 1000)) == {messages[0].text, messages[1].text}
    assert len(chunks(messages).shown(asked, 15)) == 1
    assert users_messages(messages).shown(asked, 5) == []
    assert users_messages(()).shown(asked, 1000) == []


def chat() -> list[dict[str, Any]]:
    return [
        {
            "turns": [
                [
                    {"role": "user", "id": 0, "time_anchor": "March-15-2024", "content": "Hello. ->-> 1,1"},
                    {"role": "assistant", "id": 1, "time_anchor": None, "content": "Hi."},
                ]
            ]
        },
        {
            "turns": [
                [
                    {"role": "user", "id": 2, "content": "Use tabs. ->-> 1,2, 1,3"},
                    {"role": "assistant", "id": 3, "content": "Yes."},
                ]
            ]
        },
    ]


def read(folder: Path, **asked: list[dict[str, Any]]) -> list[Sample]:
    (folder / "3" / "probing_questions").mkdir(parents=True)
    (folder / "3" / "chat.json").write_text(json.dumps(chat()), encoding="utf-8")
    questions = folder / "3" / "probing_questions" / "probing_questions.json"
    questions.write_text(json.dumps(asked), encoding="utf-8")
    return list(beam(folder, range(1, 11)))


def test_beams_batches_are_one_chat_with_times_and_without_marks(tmp_path: Path) -> None:
    (sample,) = read(tmp_path)
    assert sample.messages == (
        ("user", "Hello.", datetime(2024, 3, 15, tzinfo=UTC)),
        ("assistant", "Hi.", datetime(2024, 3, 15, 0, 1, tzinfo=UTC)),
        ("user", "Use tabs.", datetime(2024, 3, 15, 0, 2, tzinfo=UTC)),
        ("assistant", "Yes.", datetime(2024, 3, 15, 0, 3, tzinfo=UTC)),
    )
    assert (sample.number, sample.is_odd) == (3, True)


def test_beams_evidence_is_the_users_messages_of_those_that_are_named(tmp_path: Path) -> None:
    (sample,) = read(
        tmp_path,
        instruction_following=[{"question": "Tabs?", "source_chat_ids": [2, 3]}],
        knowledge_update=[{"question": "Both?", "source_chat_ids": {"old": [0], "new": [2, 99]}}],
        information_extraction=[{"question": "Of a reply alone?", "source_chat_ids": [1]}],
        abstention=[{"question": "Of nothing?"}],
        summarization=[{"question": "All?", "source_chat_ids": [0, 2]}],
        event_ordering=[{"question": "In order?", "source_chat_ids": [0, 2]}],
    )
    assert [(one.kind, [piece.forms for piece in one.pieces]) for one in sample.questions] == [
        ("instruction_following", [("Use tabs.",)]),
        ("knowledge_update", [("Hello.",), ("Use tabs.",)]),
    ]


def row(**fields: Any) -> Row:
    given: dict[str, Any] = {
        "id": "beam/1/1",
        "set": "beam",
        "is_odd": True,
        "kind": "one",
        "question": "?",
        "share": 1.0,
        "pieces": 2,
        "by_users_messages": 0.0,
        "by_chunks": 0.5,
        "beside_by_users_messages": 0.0,
        "beside_by_chunks": 0.0,
        "memory_tokens": 100,
        "prompt_tokens": 200,
        "stable_tokens": 0,
        "sections": {"window": 60, "recall": 30, "summary": 10},
    }
    return Row(**given | fields)


def test_a_table_has_both_halves_and_every_kind() -> None:
    rows = [row(), row(is_odd=False, kind="two", share=0.5, stable_tokens=150)]
    written = table("beam", rows).splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in written]
    assert [line[:3] for line in cells if line[0] != "-" * len(line[0])] == [
        ["beam", "questions", "prompt %"],
        ["all", "2", "75.0"],
        ["odd half", "1", "100.0"],
        ["even half", "1", "50.0"],
        ["one", "1", "100.0"],
        ["two", "1", "50.0"],
    ]
    assert cells[2][-1] == "75.0"
    assert cells[3][-1] == "–"


def test_the_baselines_know_what_was_said_before_a_question() -> None:
    messages = (Message("user", "My hotel is the Aurora."), Message("user", "My hotel is the Polaris."))
    assert users_messages(messages).shown(["hotel"], 1000, 1) == ["My hotel is the Aurora."]
    assert users_messages(messages).shown(["hotel"], 1000, 0) == []


def test_gatemems_evidence_is_what_was_said_before_the_checkpoint(tmp_path: Path) -> None:
    def turn(name: str, text: str) -> dict[str, Any]:
        speaker = {"principal_id": "ava", "role": "manager"}
        return {"turn_id": name, "timestamp": "2026-04-06T09:00", "speaker": speaker, "text": text}

    def checkpoint(turn: str, action: str) -> dict[str, Any]:
        spec = {"include": ["9%", "July 3"], "expected_action": action}
        asked = {"query_type": "utility", "query_text": "Give me the cap.", "judge_spec": spec}
        return {"episode_id": "one", "as_of_turn_id": turn, "expected_action": action} | asked

    people = {"principals": [{"principal_id": "ava", "display_name": "Ava Lin"}]}
    turns = [turn("t1", "The cap is 9%."), turn("t2", "Launch on July 3, and 19%.")]
    episode = {"episode_id": "one", "entities": people, "turns": turns}
    (tmp_path / "episodes.jsonl").write_text(json.dumps(episode), encoding="utf-8")
    asked = [checkpoint("t2", "answer"), checkpoint("t1", "answer"), checkpoint("t2", "refuse")]
    lines = "\n".join(map(json.dumps, asked))
    (tmp_path / "checkpoints.jsonl").write_text(lines, encoding="utf-8")
    (sample,) = gatemem(tmp_path)
    assert [one.text for one in sample.messages[:2]] == ["Ava Lin: The cap is 9%.", "Noted."]
    found = [(one.at, [piece.forms for piece in one.pieces]) for one in sample.questions]
    assert found == [(2, [("9%",)]), (4, [("9%",), ("July 3",)])]


def test_realmems_evidence_is_the_messages_that_the_reply_used(tmp_path: Path) -> None:
    def said(speaker: str, content: str, **more: Any) -> dict[str, Any]:
        return {"speaker": speaker, "content": content, "is_query": False} | more

    first = [said("User", "A loop from Christchurch, please."), said("Assistant", "Twelve days, clockwise.")]
    used = [{"session_uuid": "a", "content": "A clockwise loop of twelve days"}]
    query = said("User", "What's next?", is_query=True, category_name="Dynamic")
    second = [query, said("Assistant", "The ferry.", memory_used=used)]
    sessions = [
        {"session_uuid": name, "current_time": "2025-12-15 (Monday)", "dialogue_turns": turns}
        for name, turns in (("a", first), ("b", second))
    ]
    text = json.dumps({"dialogues": sessions})
    (tmp_path / "Kim_dialogues_256k.json").write_text(text, encoding="utf-8")
    (sample,) = realmem(tmp_path)
    assert (sample.name, len(sample.messages)) == ("Kim", 4)
    found = [(one.text, one.at, [piece.forms for piece in one.pieces]) for one in sample.questions]
    assert found == [("What's next?", 2, [("Twelve days, clockwise.",)])]


def test_realtalk_is_read_like_locomo(tmp_path: Path) -> None:
    def said(name: str, speaker: str, text: str, **more: Any) -> dict[str, Any]:
        at = "29.12.2023, 22:42:04"
        return {"dia_id": name, "speaker": speaker, "clean_text": text, "date_time": at} | more

    asked = {"question": "Which cat?", "evidence": ["D1:2"], "category": 1}
    chat = {
        "name": {"speaker_1": "Emi", "speaker_2": "Elise"},
        "session_1": [said("D1:1", "Emi", "Hi!"), said("D1:2", "Elise", "My cat.", blip_caption="a cat")],
        "qa": [asked],
    }
    (tmp_path / "Chat_1_Emi_Elise.json").write_text(json.dumps(chat), encoding="utf-8")
    (one,) = realtalk(tmp_path)
    assert [(role, text) for role, text, _ in one.messages] == [
        ("user", "Emi: Hi!"),
        ("assistant", "Elise: My cat. [shares a cat]"),
    ]
    assert [asked.evidence for asked in one.asked["question"]] == [{1: ("elise: my cat. [shares a cat]",)}]
