"""Every shape of an answer, for an unstreamed request; `tests/api/test_upstream_shapes.py` has the streamed ones."""

import pytest

from chatmemory.llm.protocol import UpstreamError
from tests.support.fakes.shapes import Shape, shapes
from tests.support.fakes.upstream import FakeUpstream
from tests.upstream.talking import PROMPT, VARIANT, model_at

SHAPES = list(shapes())


@pytest.mark.parametrize("shape", SHAPES, ids=[one.name for one in SHAPES])
def test_an_unstreamed_request_with_any_shape_of_answer_is_read(fake: FakeUpstream, shape: Shape) -> None:
    fake.behave(shape.behaviour)
    model = model_at(fake.base_url, "chat")
    if shape.code in ("upstream_error", "context_length_exceeded") and "only" not in shape.name:
        with pytest.raises(UpstreamError) as raised:
            model.complete(PROMPT, VARIANT, timeout=10)
        assert raised.value.reason.code == shape.code
        return
    answer = model.complete(PROMPT, VARIANT, timeout=10)
    assert answer.text == shape.text
    assert (answer.truncated, answer.refused) == (shape.code == "too_long", shape.code == "refused")
