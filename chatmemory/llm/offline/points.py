"""Summaries as readable points: fragments follow the words that introduced them, instead of codes on bare lines.

A fragment is a piece of text with hardly any words: an item of a list, a short answer. Its lead is the line or the
question before it. Pure: takes texts and returns texts, all of them quotations. Pieces are weighed as in
`chatmemory.llm.offline.extract`.
"""

from __future__ import annotations

import heapq
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from chatmemory.llm.offline.cues import is_courtesy
from chatmemory.llm.offline.extract import (
    BULLET_COST,
    HARD_WORTH,
    LONGEST_SENTENCE,
    PLAIN_WORTH,
    SHORT_WORDS,
    kind_worth,
    sentences,
    span_worth,
)
from chatmemory.text.spans import CJK, COMMON_WORDS, scan
from chatmemory.text.tokens import clip_end, count_tokens

FEW_WORDS = 3
"""A text with fewer plain words is a fragment."""

LEAD_TOKENS = 20
"""Maximum tokens of a lead. Of a longer one, the last clause is used."""

JOIN = "; "
STOPS = (".", "!", "?", "…", "。", "！", "？")
TRIES = 4
"""How often the choice, which uses estimates, is repeated with the room corrected by their error."""
TIME_ALONE = 0.3
"""Factor for the weight of a time, such as 19:00, in a piece with hardly any words to say what happens then."""
SLACK = 8
"""Unused tokens that are not worth another try."""

_PLAIN = re.compile(r"(?<![\w@#/.-])[^\W\d_]{2,}(?![\w@#/]|[.-]\w|:/)")
_DATE_WORD = re.compile(
    r"\b(?:(?:jan|febr)uary|march|april|may|june|july|august|(?:septem|octo|novem|decem)ber"
    r"|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec"
    r"|(?:mon|tues|wednes|thurs|fri|satur|sun)day|mon|tue|wed|thu|fri|sat|sun)\b",
    re.IGNORECASE,
)
_LEADS = (":", "?", "：", "？")
_TIME = re.compile(r"\d{1,2}[:.]\d\d(?!\d)")
_COLONS = (":", "：")
_LABEL = re.compile(r"([^\W\d_][^:：,;.!?\d]{1,40}[:：])\s*(\S.*)")
_CLAUSE = re.compile(r"[,;–—]\s|，|；")


@dataclass(frozen=True, slots=True)
class Fragment:
    """A sentence or a fragment, and the words that introduced it; empty if it needs none."""

    text: str
    lead: str = ""


def plain_words(text: str) -> int:
    """Count words that are neither code nor number; in scripts without spaces, three characters count as two."""
    ideographs = len(CJK.findall(text))
    return len(_PLAIN.findall(CJK.sub(" ", text) if ideographs else text)) + ideographs * 2 // 3


def is_fragment(text: str) -> bool:
    return plain_words(text) < FEW_WORDS


def says_nothing(text: str) -> bool:
    """Whether a fragment names nothing: bare numbers and dates, or a piece of a list that was cut at its comma."""
    return is_fragment(text) and (text.endswith(",") or not plain_words(_DATE_WORD.sub(" ", text)))


def pieces_said(texts: Iterable[str]) -> Iterator[Fragment]:
    """Split consecutive messages into pieces. A fragment at the start of a message answers the question before it."""
    asked = ""
    for text in texts:
        lead, last = asked, ""
        for line in text.splitlines():
            for sentence in sentences(_as_row(line)):
                last = sentence
                if is_courtesy(sentence):
                    continue
                if sentence.endswith(_COLONS):
                    if any(kind_worth(span, hard) == HARD_WORTH for span, hard in scan(sentence)):
                        yield Fragment(sentence.rstrip(":："), lead)
                    lead = _short(sentence)
                elif found := _LABEL.fullmatch(sentence):
                    yield _labelled(*found.groups())
                elif is_fragment(sentence):
                    yield Fragment(sentence, lead)
                else:
                    yield Fragment(sentence)
                    lead = _short(sentence)
        asked = _short(last) if last.endswith(_LEADS) else ""


def pieces_kept(text: str) -> Iterator[Fragment]:
    """Split an earlier summary into pieces, each of which needs no context."""
    for line in text.splitlines():
        found = sentences(line)
        asked = ""
        for at, sentence in enumerate(found):
            after = found[at + 1] if at + 1 < len(found) else ""
            lead, items = _apart(sentence)
            is_lead = sentence.endswith(_LEADS) and after and is_fragment(after)
            if not is_lead:
                yield from (Fragment(item, lead or (asked if is_fragment(item) else "")) for item in items)
            asked = sentence if is_lead else ""


def points(said: Iterable[Fragment], max_tokens: int, stressed: Iterable[str] = ()) -> list[str]:
    """The most informative pieces of `said`, in order, as points; as bullets at most `max_tokens` together."""
    pieces = list(dict.fromkeys(said))
    worth, room, best = span_worth([piece.text for piece in pieces], stressed), max_tokens, list[str]()
    for _ in range(TRIES):
        made = _joined([pieces[at] for at in sorted(_PointChoice(pieces, worth).run(room))])
        left = max_tokens - count_tokens("\n".join(f"- {point}" for point in made))
        best = made if left >= 0 else best
        if 0 <= left < SLACK:
            break
        room += left
    return best


def _as_row(line: str) -> str:
    """A row of a table as text: its first cell, then the others; empty for the rule below the table's head."""
    cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
    if len(cells) < 2 or not line.lstrip().startswith("|"):
        return line
    told = [cell for cell in cells if cell.strip(":-")]
    return f"{told[0]}: {', '.join(told[1:])}" if len(told) > 1 else "".join(told)


def _short(lead: str) -> str:
    """`lead` from its first informative word on, or its last clause if it is long."""
    words = lead.split(" ")
    at = next((at for at, word in enumerate(words) if word.casefold() not in COMMON_WORDS), 0)
    lead = " ".join(words[at:])
    lead = lead[:1].upper() + lead[1:]
    if count_tokens(lead) <= LEAD_TOKENS:
        return lead
    clause = _CLAUSE.split(lead)[-1].strip()
    return clause if clause and count_tokens(clause) <= LEAD_TOKENS else clip_end(lead, LEAD_TOKENS)


def _labelled(label: str, value: str) -> Fragment:
    """A labelled value: a fragment with the label as its lead, or one text if the value is no fragment."""
    return Fragment(value, label) if is_fragment(value) else Fragment(f"{label} {value}")


def _apart(point: str) -> tuple[str, list[str]]:
    """The lead and the fragments from which a point of an earlier summary was joined; any other point is one text."""
    lead, colon, first = point.partition(": ")
    is_led = colon and count_tokens(lead) <= LEAD_TOKENS
    items = (first if is_led else point).split(JOIN)
    if not all(map(is_fragment, items)):
        return "", [point]
    # In running text, a point ends with a stop, which is not part of the fragment.
    return (f"{lead}:" if is_led else ""), [*items[:-1], items[-1].rstrip(".")]


@dataclass(slots=True)
class _PointChoice:
    """A greedy choice: next is the piece whose uncovered spans have the highest weight per token, lead included.

    Once a lead is chosen, other pieces with that lead cost less.
    """

    pieces: Sequence[Fragment]
    worth: dict[str, float]
    spans: list[set[str]] = field(init=False)
    costs: list[int] = field(init=False)
    words: list[int] = field(init=False)
    is_bare: list[bool] = field(init=False)
    led: dict[str, list[int]] = field(init=False)
    leads: set[str] = field(default_factory=set)
    covered: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        texts = [clip_end(piece.text, LONGEST_SENTENCE) for piece in self.pieces]
        self.spans = [{span.casefold() for span, _ in scan(text)} for text in texts]
        self.costs = [count_tokens(text) + 1 for text in texts]
        self.led = defaultdict(list)
        for at, piece in enumerate(self.pieces):
            self.led[piece.lead].append(at)
        self.words = [plain_words(text) for text in texts]
        self.is_bare = [
            not piece.lead and says_nothing(text) for piece, text in zip(self.pieces, texts, strict=True)
        ]

    def run(self, room: int) -> list[int]:
        chosen: dict[int, None] = {}
        heap = [(-self._gain(at), at) for at in range(len(self.pieces))]
        heapq.heapify(heap)
        while heap and room > 0:
            _, at = heapq.heappop(heap)
            gain, cost = self._gain(at), self._cost(at)
            if at in chosen or gain <= 0 or cost > room:
                continue
            if heap and -gain > heap[0][0]:
                heapq.heappush(heap, (-gain, at))
                continue
            chosen[at] = None
            room -= cost
            self.covered |= self.spans[at]
            self._open(self.pieces[at].lead, heap)
        return list(chosen)

    def _open(self, lead: str, heap: list[tuple[float, int]]) -> None:
        if not lead or lead in self.leads:
            return
        self.leads.add(lead)
        self.covered |= {span.casefold() for span, _ in scan(lead)}
        for at in self.led[lead]:
            heapq.heappush(heap, (-self._gain(at), at))

    def _cost(self, at: int) -> int:
        lead = self.pieces[at].lead
        if lead:
            return self.costs[at] + (0 if lead in self.leads else count_tokens(lead) + 2)
        return self.costs[at] + (0 if self.words[at] < FEW_WORDS else 2)

    def _gain(self, at: int) -> float:
        if self.is_bare[at]:
            return 0.0
        # Sets are in another order in each process, and a sum of floats depends on its order; this one does not.
        fresh = math.fsum(self._worth(span, at) for span in self.spans[at] - self.covered)
        base = PLAIN_WORTH if self.words[at] >= SHORT_WORDS else 0.0
        return (fresh + base) / (self._cost(at) + BULLET_COST)

    def _worth(self, span: str, at: int) -> float:
        worth = self.worth.get(span, 0.0)
        return worth * TIME_ALONE if self.words[at] < FEW_WORDS and _TIME.match(span) else worth


def _joined(pieces: Sequence[Fragment]) -> list[str]:
    """Join pieces into points: pieces with the same lead, and consecutive fragments."""
    made: list[str] = []
    open_at: dict[str, int] = {}
    after_fragment = False
    for piece in pieces:
        text = clip_end(piece.text, LONGEST_SENTENCE)
        fragment = not piece.lead and is_fragment(text)
        at = open_at.get(piece.lead) if piece.lead else len(made) - 1 if fragment and after_fragment else None
        after_fragment = fragment
        if at is not None:
            # Keep the stop between sentences: otherwise two statements would read as one that nobody made.
            together = f"{made[at]}{' ' if made[at].endswith(STOPS) else JOIN}{text}"
            if count_tokens(together) <= LONGEST_SENTENCE:
                made[at] = together
                continue
        if piece.lead:
            open_at[piece.lead] = len(made)
        made.append(f"{piece.lead} {text}".strip())
    return made
