"""How often streams are read when there are many."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatmemory.llm.openai.deadlines import LONGEST_SECONDS, READS_A_SECOND, pause_between_reads


@pytest.mark.parametrize("streams", [0, 1, 20, 49])
def test_few_streams_are_read_as_they_come(streams: int) -> None:
    assert pause_between_reads(streams) == 0


def test_five_hundred_are_read_ten_times_a_second_each() -> None:
    assert pause_between_reads(500) == pytest.approx(0.1)


@given(st.integers(50, 100_000))
def test_all_together_are_read_so_often_at_most_unless_each_would_wait_too_long(streams: int) -> None:
    pause = pause_between_reads(streams)
    assert pause == LONGEST_SECONDS or streams / pause == pytest.approx(READS_A_SECOND)
    assert 0 < pause <= LONGEST_SECONDS
