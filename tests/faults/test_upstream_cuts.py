"""An upstream cut off after any byte: "complete" only with its terminal marker, and no word lost or invented."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from chatmemory.llm.openai.stream_parser import Style
from tests.api.talking import say
from tests.faults.bench.cuts import HOWS, Answer, answer
from tests.support.exhaustive import effort
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Client, joined
from tests.upstream.talking import STYLES, listen, model_at

pytestmark = pytest.mark.slow

TURNS_A_CHAT = 30


@pytest.mark.promise("P4")
@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("style", STYLES)
def test_a_cut_after_any_byte_gives_exactly_the_text_of_whole_events(
    fake: FakeUpstream, style: Style, how: str
) -> None:
    said = answer(style)
    offsets = said.offsets(effort(29, 1))
    fake.script("stream", *(said.cut(offset, how) for offset in offsets))

    async def all_of_them() -> None:
        model = model_at(fake.base_url, style)
        for offset in offsets:
            outcome = await listen(model)
            assert (outcome.reply.status, outcome.text) == (said.ending_by(offset), said.text_by(offset)), (
                offset
            )
        await model.aclose()

    asyncio.run(all_of_them())
    assert len(fake.requests) == len(offsets)


@pytest.mark.promise("P4")
@pytest.mark.usefixtures("house")
@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("style", STYLES)
def test_what_was_cut_is_stored_and_told_as_what_it_is(
    alice: Client,
    upstream: FakeUpstream,
    settings: Any,
    style: Style,
    how: str,
) -> None:
    settings.OPENAI_API_STYLE = style
    said = answer(style)
    offsets = said.offsets(10**6, extra=20)[:: effort(3, 1)]
    upstream.script("stream", *(said.cut(offset, how) for offset in offsets))
    chat = None
    for count, offset in enumerate(offsets):
        events = say(alice, f"question {count}", chat)
        chat = None if count % TURNS_A_CHAT == TURNS_A_CHAT - 1 else events[0].data["chat_id"]
        _is_honest(said, offset, events[-1].data["message"], joined(events))
    assert len(upstream.requests) == len(offsets)


def _is_honest(said: Answer, offset: int, message: dict[str, Any], heard: str) -> None:
    assert (message["status"], message["content"]) == (said.ending_by(offset), said.text_by(offset)), offset
    assert heard == message["content"]
    assert (message["error"] is None) == (message["status"] == "complete")
    assert (message["usage"] is None) or message["status"] == "complete"
