"""The fake upstream itself, where tests rely on it: choosing, holding, scripting, summarizing, running as a process."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import urllib.request
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from chatmemory.llm.protocol import Completion, Prompt, PromptMessage, UpstreamError, Variant
from tests.support.fakes import summarizer
from tests.support.fakes.behaviours import KINDS, behaviour
from tests.support.fakes.upstream import FakeUpstream
from tests.upstream.talking import PROMPT, model_at, talk

SHOWN = (
    "=== EXISTING_SUMMARY ===\nNONE\n=== END_EXISTING_SUMMARY ===\n\n"
    "=== NEW_TURNS ===\nTurn 1:\nUser: a AB-1234\nAssistant: b\n\nTurn 2:\nUser: c CD-5678\n=== END_NEW_TURNS ==="
)


def complete(fake: FakeUpstream, text: str, model: str = "gpt-test") -> Completion:
    prompt = Prompt((PromptMessage("user", text),))
    return model_at(fake.base_url, "responses").complete(prompt, Variant("v", model), timeout=10)


def test_a_behaviour_is_written_as_a_name() -> None:
    how = behaviour("cut?after=12&how=reset&rate=2.5")
    assert (how.kind, how.after, how.how, how.rate) == ("cut", 12, "reset", 2.5)
    assert behaviour("normal", deltas=3).deltas == 3
    for wrong in ("nonsense", "normal?colour=red", "normal?deltas=many"):
        with pytest.raises((ValueError, KeyError)):
            behaviour(wrong)


def test_every_kind_is_in_the_list() -> None:
    assert {"normal", "stall", "drip", "pings", "endless", "huge", "cut", "status", "html"} <= set(KINDS)


def test_a_model_name_may_choose_the_behaviour(fake: FakeUpstream) -> None:
    assert len(complete(fake, "Hi", model="normal?deltas=7").text.split()) == 7
    with pytest.raises(UpstreamError):
        complete(fake, "Hi", model="status?code=400")


def test_lanes_are_held_separately(fake: FakeUpstream) -> None:
    fake.hold("complete")
    with ThreadPoolExecutor(1) as pool:
        waiting: Future[Completion] = pool.submit(complete, fake, "Hi")
        fake.wait_until(lambda it: it.held("complete") == 1)
        assert talk(fake.base_url, "chat", prompt=PROMPT).reply.status == "complete"
        assert not waiting.done()
        fake.release("complete")
        assert waiting.result(10).text == "You said: Hi"


def test_a_script_is_played_once_and_for_its_lane(fake: FakeUpstream) -> None:
    fake.script("complete", "normal?text=first", "normal?text=second")
    assert talk(fake.base_url, "chat").text == "You said: Where is Ada?"
    assert [complete(fake, "x").text for _ in range(3)] == ["first", "second", "You said: x"]
    assert [len(fake.calls("stream")), len(fake.calls("complete"))] == [1, 3]


def test_a_summary_keeps_every_code_and_is_about_as_long_as_asked(fake: FakeUpstream) -> None:
    summary = complete(fake, SHOWN, model="normal?tokens=100").text
    assert re.findall(summarizer.CODE, summary) == ["AB-1234", "CD-5678"]
    assert 70 < len(summary.split()) < 110


@pytest.mark.parametrize(
    "wrong",
    [
        SHOWN.replace("\n\n=== NEW", "\n=== NEW"),
        SHOWN.replace("Turn 1:", "Turn 0:"),
        SHOWN + "\nand more",
        "Please:\n" + SHOWN,
    ],
)
def test_a_summarizer_input_out_of_form_is_a_fault(fake: FakeUpstream, wrong: str) -> None:
    with pytest.raises(UpstreamError):
        complete(fake, wrong)
    assert len(fake.faults) == 1
    fake.clear()


def test_it_runs_as_a_process() -> None:
    command = [sys.executable, "-m", "tests.support.fakes.upstream", "--stream", "normal?text=hello"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ}) as process:
        try:
            assert process.stdout is not None
            base_url = process.stdout.readline().strip()
            assert talk(base_url, "responses").text == "hello"
            with pytest.raises(urllib.error.HTTPError, match="404"):
                urllib.request.urlopen(f"{base_url}/elsewhere", timeout=10)
        finally:
            process.terminate()
