"""Many replies that end at the same moment: none delays the renewal of leases, or a new turn."""

from contextlib import ExitStack
from typing import Any

import pytest

from chatmemory.database import executors
from conversations.replies import finish, generation
from tests.api.talking import final, open_stream
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Client

REPLIES = 2 * generation.FINISHED_AT_ONCE + 1


@pytest.mark.exhaustive
def test_finishing_replies_use_few_writers(
    alice: Client, upstream: FakeUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, waiting, most = executors.write, 0, 0

    async def counted(function: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal waiting, most
        is_end = function is finish.finish
        waiting += is_end
        most = max(most, waiting)
        try:
            return await write(function, *args, **kwargs)
        finally:
            waiting -= is_end

    monkeypatch.setattr(executors, "write", counted)
    upstream.hold("stream")
    with ExitStack() as stack:
        turns = [stack.enter_context(open_stream(alice))[0] for _ in range(REPLIES)]
        upstream.release("stream")
        assert [final(alice, turn)["status"] for turn in turns] == ["complete"] * REPLIES
    assert 1 < most <= generation.FINISHED_AT_ONCE
