"""A server that keeps failing is left alone, and probed by a single call after a while."""

from hypothesis import given
from hypothesis import strategies as st

from chatmemory.llm.retry import FAILURES, REST_SECONDS, Breaker


def test_after_a_rest_one_caller_asks_for_all() -> None:
    breaker = Breaker()
    assert [breaker.failed(100.0) for _ in range(FAILURES)] == [False] * (FAILURES - 1) + [True]
    after = 100.0 + REST_SECONDS
    assert breaker.allows(after)
    assert not breaker.allows(after)
    assert breaker.failed(after + 0.3) is False, "told once"
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
