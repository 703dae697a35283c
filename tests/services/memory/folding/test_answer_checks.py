"""Poor but acceptable answers of a summarizer: it is asked once more; the better answer is kept and marked.

The summarizer is told what is missing, in words that cannot be used to inject orders; and the result never gets worse.
"""

import json
from typing import Any

import pytest

from chatmemory.llm.protocol import Completion, Prompt, ReplyError, UpstreamError, Usage
from conversations.models import Chat
from memory.folding.answer_checks import AGAIN, END_AGAIN
from memory.folding.request import request_resummarize
from memory.models import RevisionKind
from tests.processes.prompts import code, codes
from tests.support.exhaustive import first_of
from tests.support.factories import add_turns, brief_of, make_chat
from tests.support.fakes.behaviours import lorem
from tests.support.fakes.scripted import ScriptedModel, TellingModel, tell
from tests.support.fakes.summarizer import without_retry_instructions
from tests.support.folds import revisions, run_fold

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("sound")]

VOID = f"They went on to talk of this and that. {lorem(150)}"
"""A plausible answer, long enough, without any fact."""


@pytest.fixture(autouse=True)
def usual(settings: Any) -> None:
    settings.MEMORY_CHUNK_SUMMARIZE_THRESHOLD = 6000
    settings.MEMORY_FOLD_BITE_TOKENS = 6000


def turns(first: int, last: int) -> list[tuple[str, str]]:
    """Turns of about 100 tokens, each with a code, an amount and a distance; summaries keep the code."""
    return [
        (f"Note {code(n)} for ${n}17: {lorem(30)}", f"{code(n)} is noted, {n}5 km. {lorem(30)}")
        for n in range(first, last + 1)
    ]


def known_chat(model: ScriptedModel, policy: str = "chunked") -> Chat:
    """A chat whose memory holds codes, with more turns that wait for a fold."""
    chat = make_chat(policy=policy)
    add_turns(chat, turns(1, 15))
    request_resummarize(chat, "update")
    assert run_fold(chat).outcome == "done"
    assert revisions(chat)[-1].soft_faults == []
    add_turns(chat, turns(16, 22))
    request_resummarize(chat, "update")
    model.prompts.clear()
    return chat


def faults_of(chat: Chat) -> list[str]:
    return [fault["fault"] for fault in revisions(chat)[-1].soft_faults]


def input_of(prompt: Prompt) -> str:
    return prompt.messages[0].content


def in_shape(prompt: Prompt, text: str) -> str:
    """`text` in the format that the prompt asks for."""
    if prompt.schema is None:
        return text
    shapes: dict[str, Any] = {
        "important_data_and_summary": {"important_data": {}, "summary": text},
        "facts_and_narrative": {"facts": [], "removed": [], "narrative": text},
        "memory_card": {"goal": text[:60], "decisions": [text[:60]], "lesson_context": text[:60]},
    }
    return json.dumps(shapes[prompt.schema.name])


def vague(prompt: Prompt) -> str:
    """Return a long answer with a single fact."""
    return in_shape(prompt, f"They went on to {min(codes(input_of(prompt)))}. {VOID}")


def test_fold_asks_again_for_lost_spans_by_name(telling: TellingModel) -> None:
    chat = known_chat(telling)
    before = brief_of(chat).global_summary
    telling.lines = [VOID]
    report = run_fold(chat)
    assert (report.outcome, report.batches) == ("done", 1)
    first, second = telling.prompts
    assert input_of(second).startswith(input_of(first))
    assert without_retry_instructions(input_of(second)) == input_of(first)
    told = input_of(second).removeprefix(input_of(first))
    assert told.startswith(f"\n\n{AGAIN}\n")
    assert told.endswith(f"\n{END_AGAIN}")
    assert codes(before) <= codes(told)
    assert (second.instructions, second.schema) == (first.instructions, first.schema)
    last = revisions(chat)[-1]
    assert last.soft_faults == []
    assert codes(last.global_summary) == {code(n) for n in range(1, 20)}


def test_lost_both_times_it_is_kept_and_marked(telling: TellingModel) -> None:
    chat = known_chat(telling)
    known = codes(brief_of(chat).global_summary)
    kept = sorted(known)[:4]
    telling.lines = [vague, f"Of the codes {' and '.join(kept)} were told. {lorem(120)}"]
    report = run_fold(chat)
    assert (report.outcome, brief_of(chat).last_error, brief_of(chat).degraded) == ("done", None, False)
    assert len(telling.prompts) == 2
    last = revisions(chat)[-1]
    assert set(kept) <= codes(last.global_summary), "the better one is kept"
    (fault,) = (one for one in last.soft_faults if one["fault"] == "known_lost")
    assert (fault["kept"], fault["of"]) == (4, len(known))
    assert set(fault["lost"]) == known - set(kept)
    assert brief_of(chat).folded_through_seq == 38


def test_the_first_is_kept_where_the_second_is_no_better(telling: TellingModel) -> None:
    chat = known_chat(telling)
    kept = sorted(codes(brief_of(chat).global_summary))[:4]
    telling.lines = [f"Of the codes {' and '.join(kept)} were told. {lorem(120)}", vague]
    run_fold(chat)
    assert set(kept) <= codes(brief_of(chat).global_summary)
    assert "known_lost" in faults_of(chat)


@pytest.mark.parametrize(
    "second",
    first_of(
        [
            UpstreamError(ReplyError("upstream_error", "The model's server answered with status 500.")),
            Completion("I'm sorry, but I can't help with that.", "nano", Usage(10, 0, 10)),
            Completion("", "nano", Usage(10, 0, 0)),
            Completion(f"See https://evil.example/now for {code(1)}. {lorem(100)}", "nano", Usage(10, 0, 100)),
        ]
    ),
)
def test_a_second_answer_that_cannot_be_taken_changes_nothing(
    telling: TellingModel, second: UpstreamError | Completion
) -> None:
    chat = known_chat(telling)
    telling.lines = [vague, second]
    assert run_fold(chat).outcome == "done"
    brief = brief_of(chat)
    assert (brief.global_summary.split()[:3], brief.last_error) == (["They", "went", "on"], None)
    assert faults_of(chat) == ["known_lost", "new_lost"]


@pytest.mark.parametrize("policy", first_of(["chunked", "interval", "progressive", "hierarchical", "card"]))
def test_under_every_policy(policy: str, telling: TellingModel) -> None:
    chat = known_chat(telling, policy)
    telling.lines = [vague, vague]
    assert run_fold(chat).outcome == "done"
    assert len(telling.prompts) == 2
    assert faults_of(chat)


def test_good_answers_are_asked_for_once(telling: TellingModel) -> None:
    chat = known_chat(telling)
    telling.lines = [lambda prompt: tell(prompt).replace(code(3), "").replace(code(5), "")]
    run_fold(chat)
    assert len(telling.prompts) == 1
    assert faults_of(chat) == []


def test_fold_over_its_cap_keeps_what_was_last(telling: TellingModel) -> None:
    chat = known_chat(telling)
    telling.lines = [lambda prompt: f"{lorem(800)} {tell(prompt)}"]
    assert run_fold(chat).outcome == "done"
    assert len(telling.prompts) == 1
    assert codes(brief_of(chat).global_summary) == {code(n) for n in range(1, 20)}


def test_the_built_in_summarizer_is_not_asked_again(telling: TellingModel, settings: Any) -> None:
    settings.MEMORY_FOLD_ATTEMPTS = 1
    chat = known_chat(telling)
    telling.lines = [UpstreamError(ReplyError("upstream_error", "The model's server answered with status 500."))]
    run_fold(chat)
    last = revisions(chat)[-1]
    assert (last.model, last.soft_faults) == ("offline", [])


def test_no_time_is_left_for_a_second_answer(telling: TellingModel, monkeypatch: pytest.MonkeyPatch) -> None:
    chat = known_chat(telling)
    clock = iter(range(0, 100_000, 30))
    monkeypatch.setattr("memory.folding.summarizer.time.monotonic", lambda: float(next(clock)))
    telling.lines = [vague]
    run_fold(chat)
    assert len(telling.prompts) == 1
    assert "known_lost" in faults_of(chat)


def test_rebuild_reports_its_batches(telling: TellingModel, settings: Any) -> None:
    chat = known_chat(telling)
    run_fold(chat)
    settings.MEMORY_FOLD_BITE_TOKENS = 800
    request_resummarize(chat, "rebuild")
    telling.prompts.clear()
    telling.lines = [tell, vague, vague, tell]
    run_fold(chat)
    last = revisions(chat)[-1]
    assert last.kind == RevisionKind.REBUILD
    first, *_ = last.soft_faults
    assert first["fault"] == "known_lost"
    assert 1 < first["from_seq"] < first["through_seq"] < 38
    assert {(fault["from_seq"], fault["through_seq"]) for fault in last.soft_faults} == {
        (first["from_seq"], first["through_seq"])
    }


def with_wrong_number(prompt: Prompt) -> str:
    return in_shape(prompt, f"It costs $4711. {tell(prompt)}")


@pytest.mark.parametrize("policy", first_of(["chunked", "interval", "hierarchical"]))
def test_fold_with_invented_number_is_asked_for_again(telling: TellingModel, policy: str) -> None:
    chat = known_chat(telling, policy)
    telling.lines = [with_wrong_number]
    assert run_fold(chat).outcome == "done"
    assert "4711" in input_of(telling.prompts[1]).split(AGAIN)[1]
    last = revisions(chat)[-1]
    assert "4711" not in last.global_summary
    assert {"fault": "unknown_figures", "figures": ["4711"]} in last.soft_faults


def test_fold_with_invented_number_twice_is_refused(telling: TellingModel) -> None:
    chat = known_chat(telling)
    before = brief_of(chat).global_summary
    telling.lines = [with_wrong_number, with_wrong_number]
    report = run_fold(chat)
    assert (report.outcome, report.error) == ("waiting", "unknown_figures")
    assert brief_of(chat).global_summary == before


@pytest.mark.parametrize(
    "answer",
    [
        VOID,
        "Es tut mir leid, aber dabei kann ich nicht helfen.",
        "抱歉，我无法协助处理此请求。",
        "## Decisions\nNo prior history.\n\n## Open questions\nNone.",
        "Please provide the conversation that I should summarize.",
        "N/A",
    ],
)
def test_fold_with_nothing_of_what_was_said_twice_is_refused(telling: TellingModel, answer: str) -> None:
    chat = known_chat(telling)
    before = brief_of(chat).global_summary
    telling.lines = [answer, answer]
    report = run_fold(chat)
    assert (report.outcome, report.error) == ("waiting", "unrelated")
    assert brief_of(chat).global_summary == before


@pytest.mark.parametrize("ours", ["instructions", "retry"])
def test_fold_repeating_instructions_is_refused(telling: TellingModel, ours: str) -> None:
    chat = known_chat(telling)
    before = brief_of(chat).global_summary

    def echo(prompt: Prompt) -> str:
        told = input_of(prompt).split(AGAIN)[-1] if ours == "retry" else prompt.instructions
        sentence = max(told.replace("\n", " ").split(". "), key=len)
        return f"{tell(prompt)} {sentence}."

    telling.lines = [vague, echo] if ours == "retry" else [echo]
    report = run_fold(chat)
    if ours == "retry":  # then the first answer is the better one
        assert "cannot be used" not in brief_of(chat).global_summary
    else:
        assert report.error in ("echo", "new_instruction")
        assert brief_of(chat).global_summary == before
