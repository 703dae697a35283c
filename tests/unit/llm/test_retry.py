"""A server that keeps failing is left alone, and probed by a single call after a while."""

from hypothesis import given
from hypothesis import strategies as st

from chatmemory.llm.retry import FAILURES, REST_SECONDS, Breaker


def broken(at: float = 100.0) -> Breaker:
    breaker = Breaker()
    assert [breaker.failed(at) for _ in range(FAILURES)] == [False] * (FAILURES - 1) + [True]
    return breaker


def test_some_failures_are_borne() -> None:
    breaker = Breaker()
    for _ in range(FAILURES - 1):
        breaker.failed(1.0)
    assert breaker.allows(1.0)
    breaker.succeeded()
    for _ in range(FAILURES - 1):
        breaker.failed(2.0)
    assert breaker.allows(2.0), "what went well in between makes it begin anew"


def test_then_nobody_asks_for_a_while() -> None:
    breaker = broken()
    assert not breaker.allows(100.0)
    assert not breaker.allows(100.0 + REST_SECONDS - 0.01)


def test_then_one_asks_for_all() -> None:
    breaker = broken()
    after = 100.0 + REST_SECONDS
    assert breaker.allows(after)
    assert not breaker.allows(after)
    assert breaker.failed(after + 0.3) is False, "told once"
    assert not breaker.allows(after + REST_SECONDS)
    assert breaker.allows(after + 0.3 + REST_SECONDS)
    breaker.succeeded()
    assert breaker.allows(after)
    assert breaker.allows(after)


@given(st.lists(st.tuples(st.floats(0, 5), st.booleans()), max_size=200))
def test_a_dead_server_is_asked_seldom_and_one_that_answers_always(steps: list[tuple[float, bool]]) -> None:
    breaker, now, asked, in_a_row = Breaker(), 0.0, list[float](), 0
    for seconds, goes_well in steps:
        now += seconds
        allowed = breaker.allows(now)
        assert allowed or in_a_row >= FAILURES
        if not allowed:
            continue
        if in_a_row >= FAILURES:
            assert now - asked[-1] >= REST_SECONDS
        asked.append(now)
        in_a_row = 0 if goes_well else in_a_row + 1
        breaker.succeeded() if goes_well else breaker.failed(now)
