"""A reply's log returns the rest after any position, whenever its pieces were joined."""

from hypothesis import given
from hypothesis import strategies as st

from conversations.replies.generation import Log

pieces = st.text(max_size=5)


@given(st.lists(st.tuples(pieces, st.booleans())), st.integers(0, 30))
def test_since_any_position_however_the_pieces_lie(said: list[tuple[str, bool]], position: int) -> None:
    log, whole = Log(), ""
    for piece, stored in said:
        log.append(piece)
        whole += piece
        assert not stored or log.text() == whole
        assert (len(log), log.since(position)) == (len(whole), whole[position:])
