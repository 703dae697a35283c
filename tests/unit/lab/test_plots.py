"""The picture is drawn, is the same each time, and says so where it cannot be drawn."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from chatmemory.llm.protocol import Variant
from memory.lab.measures import SummarizerCall
from memory.lab.plots import NoLibrary, draw
from memory.lab.retention import RetentionTally
from tests.support.exhaustive import first_row_of
from tests.unit.lab.makers import MODELS, nothing_kept, outcome_of, run_of, turn

RUNS = [
    run_of(
        *(turn(100 * number, folds=number % 4 == 3) for number in range(30)),
        calls=(SummarizerCall(3, 600, 50),),
        policy=policy,
        spans={**nothing_kept(), 1: RetentionTally(9, 9, 9), 20: RetentionTally(9, 4, 3)},
    )
    for policy in ("one", "two", "three", "four", "five", "six", "seven")
]


@pytest.mark.parametrize(
    ("name", "magic"), first_row_of([("a.png", b"\x89PNG"), ("a.svg", b"<?xml"), ("a.PNG", b"\x89PNG")])
)
@pytest.mark.exhaustive
def test_it_draws(tmp_path: Path, name: str, magic: bytes) -> None:
    draw(outcome_of(*RUNS), tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(magic)


@pytest.mark.exhaustive
def test_the_same_outcome_is_the_same_file(tmp_path: Path) -> None:
    for name in ("a.svg", "b.svg"):
        draw(outcome_of(*RUNS[:2]), tmp_path / name, title="Twice")
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    assert b"<dc:date>" not in (tmp_path / "a.svg").read_bytes()


def test_without_prices_or_any_fold(tmp_path: Path) -> None:
    unknown = replace(MODELS, replies=Variant("arco", "mystery"))
    draw(outcome_of(run_of(turn(5)), models=unknown), tmp_path / "a.png")
    assert (tmp_path / "a.png").stat().st_size > 1000


def test_without_the_library_it_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(NoLibrary, match="pip install matplotlib"):
        draw(outcome_of(*RUNS), tmp_path / "a.png")


def test_what_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        draw(outcome_of(RUNS[0]), tmp_path / "nowhere" / "a.png")
