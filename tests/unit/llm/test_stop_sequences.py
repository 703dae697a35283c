from hypothesis import given
from hypothesis import strategies as st

from chatmemory.llm.openai.reading import StopSequences

TEXTS = st.text("ab<", max_size=8)


@given(st.lists(TEXTS, max_size=6), st.lists(TEXTS, max_size=3))
def test_the_text_ends_before_the_first_stop_however_it_is_cut(deltas: list[str], stops: list[str]) -> None:
    whole = "".join(deltas)
    ends = [at for stop in stops if stop and (at := whole.find(stop)) >= 0]
    # A stop that is complete earlier wins over one that begins earlier, as where the text is generated.
    cutter = StopSequences(stops)
    said = "".join(cutter.feed(delta) for delta in deltas) + cutter.flush()
    assert cutter.was_found is bool(ends)
    assert whole.startswith(said)
    if not ends:
        assert said == whole
    else:
        assert not any(stop in said for stop in stops if stop)
        assert any(whole[len(said) :].startswith(stop) for stop in stops if stop)
