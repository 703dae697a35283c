"""A server that keeps failing is left alone for a while."""

from hypothesis import given
from hypothesis import strategies as st

from chatmemory.llm.retry import FAILURES, REST_SECONDS, Breaker


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
        if goes_well:
            breaker.succeeded()
        else:
            assert breaker.failed(now) is (in_a_row == FAILURES), "told once"
