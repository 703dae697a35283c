"""The readers of evidence sets, on files of our own in the form of theirs."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.evidence.gatemem import gatemem
from benchmarks.evidence.realmem import realmem

LONG = "Here is a plan for a trip to Lisbon with trams, tiles, custard tarts and the budget of the whole week."
SOURCE = "We will go in May."


def session(name: str, turns: list[dict[str, Any]], points: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "session_uuid": name,
        "current_time": "2026-01-05 (Monday)",
        "dialogue_turns": turns,
        "extracted_memory": [{"session_uuid": name, **one} for one in points],
    }


def said(speaker: str, content: str, **more: Any) -> dict[str, Any]:
    return {"speaker": speaker, "content": content, **more}


def evidence(folder: Path, snapshot: str) -> list[tuple[str, ...]]:
    """The evidence of one request whose reply used a point with this source."""
    point = {
        "content": "The trip to Lisbon with trams, tiles and tarts is in May.",
        "source_content_snapshot": snapshot,
        "source_role_snapshot": "User",
    }
    used = [{"session_uuid": "one", "content": point["content"]}]
    first = session("one", [said("User", SOURCE), said("Assistant", LONG)], [point])
    asks = said("User", "Book it.", is_query=True, category_name="plan")
    second = session("two", [said("User", "Hi."), asks, said("Assistant", "Done.", memory_used=used)], [])
    (folder / "Mia_dialogues_1.json").write_text(json.dumps({"dialogues": [first, second]}))
    (sample,) = realmem(folder, range(1, 6))
    return [piece.forms for question in sample.questions for piece in question.pieces]


def test_realmem_takes_the_source_that_the_set_names(tmp_path: Path) -> None:
    assert evidence(tmp_path, SOURCE) == [(SOURCE,)]


def test_realmem_with_an_edited_source_takes_the_speakers_message_most_like_it(tmp_path: Path) -> None:
    assert evidence(tmp_path, "As I said, we will go in May, with trams and tiles.") == [(SOURCE,)]


def test_realmem_without_a_source_has_no_evidence(tmp_path: Path) -> None:
    assert evidence(tmp_path, "") == []


def test_realmem_reads_no_person_beyond_its_numbers(tmp_path: Path) -> None:
    (tmp_path / "Mia_dialogues_1.json").write_text("unreadable")
    assert list(realmem(tmp_path, range(2, 6))) == []


@pytest.mark.parametrize("time", [{"timestamp": "2026-04-06T09:00"}, {}])
def test_gatemem_reads_turns_with_and_without_a_time(tmp_path: Path, time: dict[str, str]) -> None:
    turn = {"turn_id": "t1", "speaker": {"principal_id": "mia"}, "text": "The code is 4711.", **time}
    episode = {"episode_id": "e", "entities": {"principals": []}, "turns": [turn]}
    asked = {
        "episode_id": "e",
        "as_of_turn_id": "t1",
        "expected_action": "answer",
        "judge_spec": {"include": ["4711"]},
        "query_type": "fact",
        "query_text": "Which code?",
    }
    (tmp_path / "medical").mkdir()
    (tmp_path / "medical" / "episodes.jsonl").write_text(json.dumps(episode))
    (tmp_path / "medical" / "checkpoints.jsonl").write_text(json.dumps(asked))
    (sample,) = gatemem(tmp_path, ["medical"])
    assert [piece.forms for piece in sample.questions[0].pieces] == [("4711",)]
    assert (sample.messages[0].at is None) == (not time)
