"""An upstream cut off anywhere: "complete" only with its terminal marker, and no word lost or invented.

`tests/upstream/test_wire.py` cuts the parser's input after every byte. Here connections are cut.
"""

from random import Random
from typing import Any

import pytest

from chatmemory.llm.openai.reading import Style
from tests.api.talking import say
from tests.faults.bench.cuts import answer
from tests.support.exhaustive import effort
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Client, joined
from tests.upstream.talking import STYLES

pytestmark = pytest.mark.slow

TURNS_A_CHAT = 30


@pytest.mark.promise("P4")
@pytest.mark.usefixtures("check_invariants")
@pytest.mark.parametrize("how", ["eof", "close", "reset"])
@pytest.mark.parametrize("style", STYLES)
def test_cut_streams_are_stored_as_incomplete(
    alice: Client, upstream: FakeUpstream, settings: Any, style: Style, how: str
) -> None:
    settings.OPENAI_API_STYLE = style
    said = answer(style)
    around = {border + near for border in (0, *said.borders) for near in (-1, 0, 1)}
    chance = Random(4).sample(range(len(said.body)), 20)
    offsets = sorted({*around, *chance} & set(range(len(said.body) + 1)))[:: effort(3, 1)]
    upstream.script("stream", *(said.cut(offset, how) for offset in offsets))
    chat = None
    for count, offset in enumerate(offsets):
        events = say(alice, f"question {count}", chat if count % TURNS_A_CHAT else None)
        chat, message = events[0].data["chat_id"], events[-1].data["message"]
        arrived = offset + 2 * (how == "eof")  # at a proper end, the last event needs no blank line
        assert (message["status"], message["content"]) == (said.ending_by(arrived), said.text_by(arrived)), offset
        assert joined(events) == message["content"]
        assert (message["error"] is None) == (message["status"] == "complete")
        assert (message["usage"] is None) or message["status"] == "complete"
    assert len(upstream.requests) == len(offsets)
