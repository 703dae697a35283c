"""Whether the history that a client sends is that of a stored chat, turn by turn, or a task that quotes it. Pure.

Clients rewrite what they keep: they cut thinking out of answers, tell a tool's call as text, leave the documents out of
an earlier question, or let people edit an answer. They add words and take some out, but replace none: two people who
asked the same may have been told another name or another number. So a turn agrees if its question is the same and its
answer at least resembles the stored one, or the other way round. Of a history, every turn must agree. There are two
exceptions. The last answer may be another one altogether if the client sends its whole history: then nothing is shown
that it did not send. And turns in front may be the client's own, in place of several that it summarized or left out.
"""

import json
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import IntEnum
from itertools import takewhile

from chatmemory.llm.attachments import Attachment
from chatmemory.llm.protocol import PromptMessage, ToolCall
from chatmemory.text.thoughts import without_thoughts
from conversations.openai_api.history import calls_alike, normalized, sorted_json

KEPT_SHARE = 0.5
"""Share of an answer's words that are left when a client takes some out, or were there before it added some."""
QUOTED_CHARS = 40
"""Length of a chat's last question and answer together from which a message with both of them is a task about it."""
TELLING_CHARS = 100
"""A single turn of a trimmed history identifies a chat only by an answer of this length: many say "You're welcome"."""

_WORD = re.compile(r"\w+")
_ADDED = re.compile(r"</?code>|^```\w*$|\[\d{1,4}\]|【[^】]{0,100}】", re.MULTILINE)
"""Parts that clients remove from an answer, besides thinking, or add to it: fences, citations."""
_ESCAPED = re.compile(r"\\[nrt]")


@dataclass(frozen=True, slots=True)
class ComparedTurn:
    """A question and all that answered it. A deleted text is None: anything agrees with it."""

    question: str | None
    answer: str | None = ""
    calls: tuple[ToolCall, ...] = ()
    is_cut: bool = False
    """Whether the answer was cancelled or broke off, so that a client may have read any part of it."""
    seq: int = 0
    """Seq of the last reply, of a stored turn."""
    attached: tuple[str, ...] = ()
    """The identities of the question's images and files."""


def compared_turns(history: Iterable[PromptMessage]) -> list[ComparedTurn]:
    """Return the turns of a history. One that was cut off at its beginning has no question."""
    found: list[ComparedTurn] = []
    for message in history:
        if message.role == "user" or not found:
            attached = identities(message.attachments)
            found.append(ComparedTurn(message.content if message.role == "user" else None, attached=attached))
        if message.role == "assistant":
            found[-1] = with_answer(found[-1], message.content, message.calls)
    return found


def identities(attachments: Iterable[Attachment]) -> tuple[str, ...]:
    """Return what identifies images and files: the hash of their bytes, or their address."""
    return tuple(one.sha256 or one.url for one in attachments)


def with_answer(
    turn: ComparedTurn, text: str | None, calls: tuple[ToolCall, ...] = (), *, is_cut: bool = False
) -> ComparedTurn:
    """Return the turn with a further part of its answer; None for a deleted one."""
    joined = None if text is None or turn.answer is None else "\n\n".join(filter(None, (turn.answer, text)))
    return replace(turn, answer=joined, calls=(*turn.calls, *calls), is_cut=turn.is_cut or is_cut)


class Likeness(IntEnum):
    """How much two texts are alike."""

    DIFFERENT = 0
    RESEMBLING = 1
    """One is the other with words left out."""
    SAME = 2


@dataclass(frozen=True, slots=True)
class Match:
    """A history that agrees with a chat."""

    is_whole: bool
    """Whether the client sent as many turns as the chat has."""
    rewritten: str = ""
    """The client's version of the last answer, if it is another text than the stored one."""
    differs: bool = False
    """Whether that version does not even resemble the stored one."""
    made_up: int = 0
    """Number of turns in front that the chat does not have at that place: a summary, or turns before a gap."""


def match(stored: Sequence[ComparedTurn], sent: Sequence[ComparedTurn], *, is_named: bool = False) -> Match | None:
    """Compare a history with the last turns of a chat; None if they disagree.

    In a conversation that the client names, a single turn and another last answer are enough.
    """
    if not (sent and stored):
        return None
    ours, theirs = stored[-1], sent[-1]
    is_whole, differs = len(sent) == len(stored), not _agrees(ours, theirs)
    pairs = zip(stored[-2::-1], sent[-2::-1], strict=False)
    agreeing = 1 + sum(1 for _ in takewhile(lambda pair: _agrees(*pair), pairs))
    made_up = len(sent) - agreeing
    if made_up and (is_named or differs or not _may_be_made_up(stored[:-agreeing], sent[:made_up])):
        return None
    if differs:
        may_differ = is_named or (is_whole and len(sent) > 1)
        if not may_differ or _questions(ours, theirs) < Likeness.SAME:
            return None
    elif not (is_named or (is_whole and not made_up) or _identifies(stored, sent, agreeing)):
        return None
    return Match(is_whole and not made_up, _rewritten(ours, theirs, differs=differs), differs, made_up)


def _may_be_made_up(stored: Sequence[ComparedTurn], sent: Sequence[ComparedTurn]) -> bool:
    """Whether turns in front can replace turns of the chat that differ.

    They are fewer, unless they precede the whole chat. A question that got another answer is another person's.
    """
    if not stored:
        return True
    is_same = None not in (stored[-1].question, sent[-1].question) and _questions(stored[-1], sent[-1]) is Likeness.SAME
    return len(sent) < len(stored) and not is_same


def _identifies(stored: Sequence[ComparedTurn], sent: Sequence[ComparedTurn], agreeing: int) -> bool:
    """Whether the last turns, which agree, are enough to know a chat by: two, or a long answer.

    That may be the answer to a question which the client has replaced with its summary.
    """
    if agreeing > 1 or len(sent[-1].answer or "") >= TELLING_CHARS:
        return True
    before = sent[-2].answer if len(sent) > 1 and len(stored) > 1 else None
    return len(before or "") >= TELLING_CHARS and _answers(stored[-2], sent[-2]) is Likeness.SAME


def shares_a_message(stored: Iterable[ComparedTurn], sent: Iterable[ComparedTurn]) -> bool:
    """Whether any question or answer that was sent is one of the chat's."""
    ours = {normalized(text) for turn in stored for text in (turn.question, turn.answer) if text}
    theirs = {normalized(text) for turn in sent for text in (turn.question, turn.answer) if text}
    return not ours.isdisjoint(theirs)


def likeness(stored: str | None, sent: str | None, *, least: float = 0) -> Likeness:
    """Compare two texts; a deleted or missing one is like any. The shorter has `least` of the other's words or more."""
    if stored is None or sent is None:
        return Likeness.SAME
    one, other = normalized(stored), normalized(sent)
    if one == other:
        return Likeness.SAME
    fewer, more = sorted((_WORD.findall(one), _WORD.findall(other)), key=len)
    rest = iter(more)
    is_contained = len(fewer) > 0 and len(fewer) >= least * len(more) and all(word in rest for word in fewer)
    return Likeness.RESEMBLING if is_contained else Likeness.DIFFERENT


def quotes(message: str, last: ComparedTurn) -> bool:
    """Whether a message is a task about a conversation, such as to make a title: it contains its last turn."""
    question, answer = normalized(last.question or ""), normalized(last.answer or "")
    if not question or not answer or len(question) + len(answer) < QUOTED_CHARS:
        return False
    at = message.find(question)
    return at >= 0 and message.find(answer, at + len(question)) >= 0


def essence(answer: str) -> str:
    """Return an answer without what clients take out of it or add to it; of JSON, the value."""
    text = " ".join(_ADDED.sub(" ", "".join(without_thoughts(normalized(answer)))).split())
    return sorted_json(text) if text.startswith(("{", "[")) else text


def has_read(stored: str, sent: str, *, is_cut: bool = False) -> bool:
    """Whether a client that sends this answer has read the stored one, whole or up to where it stopped."""
    return normalized(stored).startswith(normalized(sent)) and bool(normalized(sent) or is_cut or not stored)


def _agrees(ours: ComparedTurn, theirs: ComparedTurn) -> bool:
    question, answer = _questions(ours, theirs), _answers(ours, theirs)
    if question is Likeness.SAME:
        return answer > Likeness.DIFFERENT
    return question is Likeness.RESEMBLING and answer is Likeness.SAME and bool(theirs.answer or theirs.calls)


def _questions(ours: ComparedTurn, theirs: ComparedTurn) -> Likeness:
    """Compare two questions. Clients may leave out an image of old, but another image is another question."""
    if theirs.attached and theirs.attached != ours.attached:
        return Likeness.DIFFERENT
    return likeness(ours.question, theirs.question)


def _answers(ours: ComparedTurn, theirs: ComparedTurn) -> Likeness:
    if ours.answer is None:
        return Likeness.SAME
    answer = theirs.answer or ""
    if theirs.calls:
        if not calls_alike(ours.calls, theirs.calls):
            return Likeness.DIFFERENT
        if not answer:
            return Likeness.SAME
    elif ours.calls and _tells(answer, ours):
        return Likeness.SAME
    is_read = ours.is_cut and has_read(ours.answer, answer, is_cut=True)
    if is_read or essence(ours.answer) == essence(answer) != "":
        return Likeness.SAME
    return likeness(ours.answer, answer, least=KEPT_SHARE)


def _tells(answer: str, ours: ComparedTurn) -> bool:
    """Whether an answer tells as text what was said and called: all of it in order, between words of the client's.

    Clients for structured output tell a call by its arguments alone.
    """
    if len(ours.calls) == 1 and essence(answer) == essence(ours.calls[0].arguments):
        return True
    told = "\n".join([ours.answer or "", *(f"{call.name} {_unescaped(call.arguments)}" for call in ours.calls)])
    rest = iter(_words(answer))
    return all(word in rest for word in _words(told) if word != "null")


def _words(text: str) -> list[str]:
    """Return the words of a text with values in JSON's notation or in Python's, which has `True` and `None`."""
    return _WORD.findall(_ESCAPED.sub(" ", text).casefold())


def _unescaped(arguments: str) -> str:
    with suppress(ValueError, RecursionError):
        return json.dumps(json.loads(arguments), ensure_ascii=False)
    return arguments


def _rewritten(ours: ComparedTurn, theirs: ComparedTurn, *, differs: bool) -> str:
    sent = theirs.answer or ""
    if ours.answer is None or not sent.strip() or (ours.calls and not differs) or has_read(ours.answer, sent):
        return ""
    return "" if essence(ours.answer) == essence(sent) else sent
