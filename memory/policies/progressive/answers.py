"""What a summarizer's answers to the policy `progressive` hold, and what is still to be asked of it.

Important data and summary come in one answer or in two calls. What cannot be used is asked for once more; then the
fold goes on without new data, but not without a summary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from chatmemory.llm.protocol import Completion
from chatmemory.llm.summary_prompt import NO_SUMMARY
from chatmemory.text.markers import quote_markers
from memory.policies.answers import object_in, said
from memory.policies.progressive.important_data import KINDS, ImportantData, without_empty_links
from memory.policies.progressive.important_data_json import read
from memory.policies.protocol import Answers, Refusal

Wanted = Literal["both", "data", "summary"]

TRIES = 2
"""An answer that is not usable is asked for once more."""


@dataclass(slots=True)
class ParsedAnswers:
    """What the answers so far hold."""

    data: ImportantData | None = None
    summary: str = ""
    wanted: Wanted | None = None
    """What is to be asked for next; None: they are enough, or there will be no more."""
    refusal: Refusal | None = None
    """Why the last answer cannot be used."""


def found_in_one(answers: Answers, sources: Sequence[str], prose_words: int) -> ParsedAnswers:
    """Data and summary in one answer; after two unusable ones a plain summary.

    Prose instead of JSON is a summary if it comes twice and has `prose_words`. A word that is told as a link is one, or
    stands in `sources`.
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


def found_in_two(answers: Answers, sources: Sequence[str]) -> ParsedAnswers:
    """Data from a first call, which may fail, then a plain summary, each asked for at most twice."""
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
        value = object_in(said(answer))
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
        found.data = _data(object_in(said(answer)), sources)
    except Refusal as refusal:
        found.refusal = refusal


def _take_prose(found: ParsedAnswers, answer: Completion | None, words: int) -> None:
    """The answer as a summary, if it is no broken JSON and long enough not to be a mere remark."""
    if answer is not None and "{" not in answer.text and len(answer.text.split()) >= words:
        _take_summary(found, answer)


def _take_summary(found: ParsedAnswers, answer: Completion | None) -> None:
    try:
        text = quote_markers(said(answer))
    except Refusal as refusal:
        found.refusal = refusal
        return
    if text in ("", NO_SUMMARY):
        found.refusal = Refusal("empty")
    else:
        found.summary = text


def _data(value: dict[str, Any], sources: Sequence[str]) -> ImportantData | None:
    """The data in an answer, with or without the object around them. None if that is no such object."""
    inner = value.get("important_data", value)
    if not isinstance(inner, dict) or (inner and not any(kind in inner for kind in KINDS)):
        return None
    return without_empty_links(read(inner), sources)
