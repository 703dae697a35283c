"""Collect important data and summary from a summarizer's answers to `progressive`, and say what to ask for next.

Data and summary come in one answer or from two calls. If an answer cannot be used, it is requested once more; then
the fold continues without new data, but not without a summary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from chatmemory.llm.protocol import Completion
from chatmemory.llm.summarizer_input import NO_SUMMARY
from chatmemory.text.markers import quote_markers
from memory.policies.answers import answer_text, object_in
from memory.policies.progressive.important_data import KINDS, ImportantData, without_empty_links
from memory.policies.progressive.important_data_json import read
from memory.policies.protocol import Answers, Refusal

Wanted = Literal["both", "data", "summary"]

TRIES = 2
"""Attempts per answer: one that cannot be used is requested once more."""


@dataclass(slots=True)
class ParsedAnswers:
    """The content of the answers so far."""

    data: ImportantData | None = None
    summary: str = ""
    wanted: Wanted | None = None
    """What to ask for next; None: the answers are enough, or no further attempt is left."""
    refusal: Refusal | None = None
    """Why the last answer cannot be used."""


def parse_one_call(answers: Answers, sources: Sequence[str], prose_words: int) -> ParsedAnswers:
    """Collect data and summary from one answer; after two unusable answers, ask for a plain summary.

    Prose instead of JSON counts as a summary only in the second answer, and only from `prose_words` words. An item of
    `source_urls` is kept only if it is a link or occurs in `sources`.
    """
    found = ParsedAnswers()
    for at, answer in enumerate(answers[:TRIES]):
        _take_both(found, answer, sources)
        if found.data is not None and found.summary:
            return found
        if at == TRIES - 1 and not found.summary:
            _take_prose(found, answer, prose_words)
    if len(answers) < TRIES:
        found.wanted = "both"
    elif not found.summary:
        _summary(found, answers[TRIES:], tries=1)
    return found


def parse_two_calls(answers: Answers, sources: Sequence[str]) -> ParsedAnswers:
    """Collect data from a first call, which may fail, then a plain summary; each is requested at most twice."""
    found = ParsedAnswers()
    for at in range(TRIES):
        if at == len(answers):
            found.wanted = "data"
            return found
        answer = answers[at]
        if answer is not None:
            _take_data(found, answer, sources)
        if answer is None or found.data is not None:
            break
    _summary(found, answers[at + 1 :], tries=TRIES)
    return found


def _summary(found: ParsedAnswers, answers: Answers, tries: int) -> None:
    for answer in answers:
        _take_summary(found, answer)
        if found.summary:
            return
    if len(answers) < tries:
        found.wanted = "summary"


def _take_both(found: ParsedAnswers, answer: Completion | None, sources: Sequence[str]) -> None:
    try:
        value = object_in(answer_text(answer))
    except Refusal as refusal:
        found.refusal = refusal
        return
    data = _data(value, sources)
    found.data = data if data is not None else found.data
    text = value.get("summary")
    if answer is not None and isinstance(text, str):
        _take_summary(found, replace(answer, text=text))
    else:
        found.refusal = Refusal("wrong_shape")


def _take_data(found: ParsedAnswers, answer: Completion, sources: Sequence[str]) -> None:
    try:
        found.data = _data(object_in(answer_text(answer)), sources)
    except Refusal as refusal:
        found.refusal = refusal


def _take_prose(found: ParsedAnswers, answer: Completion | None, words: int) -> None:
    """Take the answer as a summary if it is not broken JSON and long enough not to be a mere remark."""
    if answer is not None and "{" not in answer.text and len(answer.text.split()) >= words:
        _take_summary(found, answer)


def _take_summary(found: ParsedAnswers, answer: Completion | None) -> None:
    try:
        text = quote_markers(answer_text(answer))
    except Refusal as refusal:
        found.refusal = refusal
        return
    if text in ("", NO_SUMMARY):
        found.refusal = Refusal("empty")
    else:
        found.summary = text


def _data(value: dict[str, Any], sources: Sequence[str]) -> ImportantData | None:
    """Parse the data in an answer, with or without the object around them. None if it is not such an object."""
    inner = value.get("important_data", value)
    if not isinstance(inner, dict) or (inner and not any(kind in inner for kind in KINDS)):
        return None
    return without_empty_links(read(inner), sources)
