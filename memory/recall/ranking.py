"""Decide whether a question calls for earlier turns, which messages to read, and which of their passages to show. Pure.

Excerpts cost tokens, useful or not. A question gets as many as there is room for, whenever anything matches: that the
window has the question's words says that the topic is there, not the answer. Anything else gets some if it matches
earlier messages well. `docs/prompt.md` says on which chats that was chosen.

A short message is one passage, a long one several: long replies mention much and say each thing in one place. A
passage scores by its own terms, by those of the rest of its message, and by those of the messages around it,
so that an answer is found by its question and vice versa; a short message also by how
well its neighbours answer. Long messages count less, and so does the side of a chat that writes more: replies of
several pages repeat what the user said in a line. There is no switch by kind of chat. The numbers were chosen on the
odd chats of several sets at once (`docs/recall.md`).

Words and meaning are fused: the best match by words scores one, the nearest by meaning `MEANING_WEIGHT`, and a
message that is both the sum, so scores of different kinds need no common scale. Nearness is weighted by speaker, as
words are, but not by length: a vector has none.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, reduce
from itertools import pairwise
from operator import or_
from typing import Literal, NamedTuple
from uuid import UUID

from chatmemory.text.tokens import count_tokens
from memory.limits import MemoryLimits
from memory.recall.question import Form, Question
from memory.recall.terms import closeness, passages

ELSEWHERE = 0.4
"""How much a term counts that occurs in another passage of the same message."""
PAIR = 0.8
"""Share of their weights that two terms add which are neighbours both in the question and in the passage."""
FURTHER = 0.8
"""How much each further passage of a message counts, relative to the one before it."""
NEIGHBOURS = ((1, 0.6), (2, 0.45), (3, 0.3))
"""How much a term counts that occurs so many messages before or after."""
NEIGHBOURS_SHARE = 0.5
"""How much all neighbours together count compared with the message's own words."""
AGAIN = 0.5
"""The share of that which counts if the term also occurs nearer."""
NEIGHBOUR_SHARES = ((1, 0.15), (2, 0.1))
"""Share of the better score at each distance before or after it that a short message gains: what people say in short
messages, they say in several. A long message gains nothing."""
LENGTH = 0.4
"""How much less a passage counts the longer it is, like b in BM25."""
SIDE = 0.3
"""How much less the side counts that usually writes more: the ratio to this power."""
LOWEST, HIGHEST = 0.4, 1.5
"""Bounds of a message's weight by length and side: an answer should rank before messages that are only next to it."""
NOT_ASKED_FOR = 0.8
"""How much the user's messages count if the question asks for what the assistant said."""
TIMELY, WITHIN = 1.0, 10.0
"""How much more a message counts that was sent when the question asks about: on that day or in that month, and about
a third as much `WITHIN` days before or after."""
WHOLE_TOKENS = 100
"""A message of at most so many tokens is one passage, even if the index divided it, and is shown whole."""

Size = tuple[bool, int]
"""Whether a message is the user's, and its tokens."""


class Indexed(NamedTuple):
    """A message as the index stores it: hashed terms, one line per passage."""

    seq: int
    is_user: bool
    tokens: int
    passages: tuple[str, ...]
    on: str = ""
    """The day it was sent."""

    @property
    def is_whole(self) -> bool:
        """Whether it is one passage."""
        return self.tokens <= WHOLE_TOKENS or len(self.passages) == 1


class Ranked(NamedTuple):
    """A passage (None: the whole message) with its score."""

    score: float
    message: Indexed
    passage: int | None = None
    words: int = 0
    """The question's words in it and around it, as bits."""

    @property
    def tokens(self) -> int:
        """About how many tokens are shown."""
        share = 1 if self.passage is None else len(self.message.passages)
        return self.message.tokens // share

    @property
    def text(self) -> str:
        """The hashed terms of what is shown."""
        passages = self.message.passages
        return "\n".join(passages) if self.passage is None else passages[self.passage]


# Where the words of a question occur, and what they weigh


class Matches:
    """The words of a question found at each seq (`at`, as bits), and the weight of each word, highest for rare ones."""

    def __init__(self, worth: Sequence[float]) -> None:
        self.at: dict[int, int] = {}
        self.worth = worth
        # The weight of a set of words is kept: many messages have the same.
        self.total = cache(lambda words: sum([one for at, one in enumerate(worth) if words >> at & 1]))

    def add(self, words: int, seqs: Iterable[int]) -> None:
        """Add `words` at these seqs."""
        for seq in seqs:
            self.at[seq] = self.at.get(seq, 0) | words

    @property
    def words(self) -> int:
        """All words that occur anywhere."""
        return reduce(or_, self.at.values(), 0)

    def around(self, seq: int, own: int) -> tuple[float, int]:
        """The weight that neighbours add to message `seq`, which has the words `own`; and all words of both."""
        at, total, added = self.at.get, self.total, 0.0
        for step, share in NEIGHBOURS:
            if there := at(seq - step, 0) | at(seq + step, 0):
                again = there & own
                added += share * (total(there ^ again) + AGAIN * total(again) if again else total(there))
                own |= there
        return NEIGHBOURS_SHARE * added, own

    def best(self, weight: Callable[[int], float]) -> float:
        """The weight of the words in and around the message that has most of them, as another search weighs them."""
        return max((weight(self.around(seq, own)[1]) for seq, own in self.at.items()), default=0.0)


def weigh(question: Question, seqs: Sequence[Sequence[int]], limit: int, last_seq: int) -> Matches:
    """Collect the matches of each word, of which `limit` were read at most, and weight words by estimated rarity."""
    matches = Matches(
        [
            word.weight * _rarity(_spread(found, limit, last_seq), last_seq)
            for word, found in zip(question.words, seqs, strict=True)
        ]
    )
    for at, found in enumerate(seqs):
        matches.add(1 << at, found)
    return matches


def _spread(found: Sequence[int], limit: int, last_seq: int) -> float:
    """Estimate how many messages contain a word, from how dense the matches are that were read.

    PostgreSQL may have read matches from several places, so the widest gaps are ignored.
    """
    if len(found) < limit:
        return float(len(found))
    gaps = sorted([after - before for before, after in pairwise(sorted(found))])
    kept = gaps[: max(1, len(gaps) * 9 // 10)]
    return last_seq * len(kept) / sum(kept)


def _rarity(messages: float, last_seq: int) -> float:
    """Weight a term by its rarity: close to zero if every second message has it, but never zero."""
    return math.log(1 + max(0.5, last_seq - messages + 0.5) / (messages + 0.5))


def words_to_combine(matches: Matches, is_cut: Sequence[bool]) -> tuple[int, ...]:
    """Return which words to look up together because each by itself is too common to be read completely.

    These are the two rarest. None if a word that was read completely occurs anywhere, or if fewer than two are too
    common.
    """
    common = sorted((at for at, cut in enumerate(is_cut) if cut), key=lambda at: -matches.worth[at])
    rare = sum([1 << at for at, cut in enumerate(is_cut) if not cut])
    return () if len(common) < 2 or matches.words & rare else tuple(common[:2])


# Which messages are read: first compared by their words and neighbours, then also by side and length


TOKENS_PER_MESSAGE = 20
"""Tokens of room per message that is read closely."""
PRESELECT_FACTOR = 4
"""How many times as many messages are first compared by side and length."""


def messages_to_read(room: int) -> int:
    """How many messages are read closely for `room` tokens."""
    return max(12, min(200, room // TOKENS_PER_MESSAGE))


def promising(matches: Matches, shown: frozenset[int], limit: int) -> dict[int, float]:
    """Return the messages that may be worth reading, and the weight of the words in and around them, best first.

    At most `limit`, none of them `shown`.
    """
    having: dict[int, list[int]] = defaultdict(list)
    for seq, words in matches.at.items():
        having[words].append(seq)
    first: list[int] = []
    for words in sorted(having, key=matches.total, reverse=True):
        first += sorted(having[words], reverse=True)[: limit - len(first)]
        if len(first) == limit:
            break
    beside = {seq + step for seq in first[: limit // 4] for step in (-2, -1, 1, 2, 3)}
    scores: dict[int, float] = {}
    for seq in {*first, *beside} - shown:
        own = matches.at.get(seq, 0)
        scores[seq] = matches.total(own) + matches.around(seq, own)[0]
    best = sorted((seq for seq in scores if seq > 0), key=lambda seq: (-scores[seq], -seq))
    return {seq: scores[seq] for seq in best[:limit]}


@dataclass(frozen=True, slots=True)
class Lengths:
    """The usual lengths of both sides' messages, and the weight of a message by its side and length."""

    user: float
    assistant: float
    form: Form

    @classmethod
    def of(cls, question: Question, sizes: Iterable[Size]) -> Lengths:
        """The average lengths in `sizes`, which are messages of one chat."""
        tokens: dict[bool, list[int]] = {True: [], False: []}
        for is_user, size in sizes:
            tokens[is_user].append(size)
        user, assistant = (sum(one) / len(one) if one else 0.0 for one in (tokens[True], tokens[False]))
        return cls(user or assistant or 1.0, assistant or user or 1.0, question.form)

    def weight(self, size: Size) -> float:
        """The weight of a passage of a message of that side and length."""
        is_user, tokens = size
        relative = min(tokens, WHOLE_TOKENS) / min((self.user + self.assistant) / 2, WHOLE_TOKENS)
        length = 1 / (1 - LENGTH + LENGTH * relative)
        return max(LOWEST, min(HIGHEST, length) * self.side(is_user))

    def side(self, is_user: bool) -> float:
        """The weight of that side's messages relative to the other's, regardless of their own length."""
        if self.form.asks_for_reply:
            return NOT_ASKED_FOR if is_user else 1.0
        if self.form.continues_topic:
            return 1.0
        own, other = (self.user, self.assistant) if is_user else (self.assistant, self.user)
        return math.pow(min(1.0, other / own), SIDE)


def closest(scores: Mapping[int, float], sizes: Mapping[int, Size], lengths: Lengths, top: int) -> list[int]:
    """Return the seqs in `sizes` whose stored terms are worth reading, best first by `scores`: at most `top`."""
    weights = {size: lengths.weight(size) for size in set(sizes.values())}  # many have the same size
    return sorted(sizes, key=lambda seq: (-scores[seq] * weights[sizes[seq]], -seq))[:top]


# How well their passages match


def rank(question: Question, matches: Matches, messages: Iterable[Indexed], lengths: Lengths) -> list[Ranked]:
    """Return the passages of `messages` with a score above zero, best first; if two are equal, the newer first."""
    score_passages = _scores(question, matches)
    found: list[Ranked] = []
    for message in messages:
        whole = message.is_whole
        scores, own = score_passages(("\n".join(message.passages),) if whole else message.passages)
        added, words = matches.around(message.seq, own)
        weight = lengths.weight((message.is_user, message.tokens))
        if question.times and message.on:
            weight *= 1 + TIMELY * closeness(message.on, question.times, WITHIN)
        for passage in sorted(range(len(scores)), key=lambda passage: -scores[passage]):
            score = weight * (scores[passage] + added)
            if score > 0:
                found.append(Ranked(score, message, None if whole else passage, words))
            weight *= FURTHER
    return best_first(_beside_good_ones(found, matches))


STANDING = 0.3
"""The gain of a message whose pin has no room in the prompt, as a share of the best score: a preference or instruction
that holds matters for a question that shares few of its words."""


def with_standing(ranked: Sequence[Ranked], standing: Iterable[Indexed]) -> list[Ranked]:
    """Raise the best passage of each of the messages `standing` in `ranked` (best first), or add its first one."""
    gain = STANDING * (ranked[0].score if ranked else 1.0)
    raised = {one.seq: Ranked(0.0, one, None if one.is_whole else 0) for one in standing}
    others: list[Ranked] = []
    for one in ranked:
        if one.message.seq in raised and not raised[one.message.seq].score:
            raised[one.message.seq] = one
        else:
            others.append(one)
    return best_first([*others, *(one._replace(score=one.score + gain) for one in raised.values())])


def score_alone(question: Question, worth: Sequence[float], message: Indexed) -> tuple[float, int]:
    """Score a message without its neighbours; return the best passage's score and index."""
    scores, _ = _scores(question, Matches(worth))(message.passages)
    return max(scores), scores.index(max(scores))


def _scores(question: Question, matches: Matches) -> Callable[[Sequence[str]], tuple[list[float], int]]:
    """Return a function that scores the passages of a message, and returns the question's words in it, as bits."""
    tokens = [(1 << at, word.token) for at, word in enumerate(question.words)]
    words = [word.token for word in question.words]
    pairs = [(1 << a | 1 << b, f"{words[a]} {words[b]}") for a, b in question.pairs]
    total = matches.total

    def score_passages(passages: Sequence[str]) -> tuple[list[float], int]:
        found = [sum([bit for bit, token in tokens if token in passage]) for passage in passages]
        once = twice = 0
        for own in found:
            twice |= once & own
            once |= own
        scores: list[float] = []
        for passage, own in zip(passages, found, strict=True):
            score = total(own) + ELSEWHERE * (total(once & ~own) + AGAIN * total(twice & own))
            for pair, beside in pairs:
                if pair & own == pair and beside in passage:
                    score += PAIR * total(pair) / 2
            scores.append(score)
        return scores, once

    return score_passages


def _beside_good_ones(found: Sequence[Ranked], matches: Matches) -> Iterator[Ranked]:
    """Yield `found`, with the scores of short messages raised by short neighbours that have words of the question."""
    scores = {one.message.seq: one.score for one in found if one.passage is None and one.message.seq in matches.at}
    for one in found:
        if one.passage is not None:
            yield one
            continue
        seq = one.message.seq
        gained = [
            share * max(scores.get(seq - step, 0.0), scores.get(seq + step, 0.0)) for step, share in NEIGHBOUR_SHARES
        ]
        yield one._replace(score=one.score + sum(gained))


def best_first(ranked: Iterable[Ranked]) -> list[Ranked]:
    """Sort `ranked`, best first; if two are equal, the newer first."""
    return sorted(ranked, key=lambda one: (-one.score, -one.message.seq))


# Meaning


MEANING_WEIGHT = 0.8


class Near(NamedTuple):
    """A message near to a question in meaning: 1 is the nearest of its chat, 0 one that is like any other there."""

    seq: int
    nearness: float


SAME = 1e-6
"""Similarities that differ by less are equal except for rounding."""


def nearness(best: Sequence[float], usual: float) -> list[float]:
    """Scale the greatest similarities, greatest first: 1 for the first, 0 for a `usual` one. Omit lesser ones.

    Models differ in how similar they rate unrelated texts, so a similarity says little by itself.
    """
    if not best or best[0] <= 0:
        return []
    span = best[0] - usual
    if span < SAME:
        return [1.0] * len(best)
    return [(product - usual) / span for product in best if product > usual]


def fuse(ranked: Sequence[Ranked], near: Iterable[Near], lengths: Lengths) -> list[Ranked]:
    """Fuse words and meaning; best first. `ranked` has at least one passage of each message that is near.

    Nearness is weighted by the message's side; then 1 is the highest.
    """
    known = dict(near)
    meant = {one.message.seq: known.get(one.message.seq, 0.0) * lengths.side(one.message.is_user) for one in ranked}
    nearest = max(meant.values(), default=0.0) or 1.0
    best = max([one.score for one in ranked], default=0.0) or 1.0
    further = Counter[int]()
    fused: list[Ranked] = []
    for one in best_first(ranked):
        seq = one.message.seq
        by_meaning = MEANING_WEIGHT * meant[seq] / nearest * FURTHER ** further[seq]
        fused.append(one._replace(score=one.score / best + by_meaning))
        further[seq] += 1
    return best_first(fused)


# Which passages are shown, and what an excerpt of them costs


DAY = 8
"""Tokens of the line with the date, which excerpts of one day share."""
MARK = 2
"""Tokens of the speaker's label."""
MORE = 2
"""Tokens of the marks around a piece of a message."""


@dataclass(frozen=True, slots=True)
class RecalledMessage:
    """A message that is quoted, with its current text."""

    id: UUID
    seq: int
    role: str
    on: str
    """The day it was sent."""
    text: str
    tokens: int

    @property
    def speaker(self) -> str:
        """The name of the speaker in a prompt."""
        return "Assistant" if self.role == "tool_call" else self.role.capitalize()


class Quote(NamedTuple):
    """The part of a message that an excerpt shows: characters `start` to `end`, or to its end if `end` is None."""

    seq: int
    start: int = 0
    end: int | None = None


@dataclass(frozen=True, slots=True)
class Excerpt:
    """The quote of a message that would be shown, and about how many tokens it costs by itself."""

    quote: Quote
    tokens: int
    on: str = ""
    """The day the message was sent."""


def excerpt_of(quote: Quote, message: RecalledMessage) -> Excerpt:
    """Make an excerpt of a message. As a whole it costs its stored count; only pieces are counted."""
    if quote.end is None:
        tokens = message.tokens + message.text[-1:].isalnum()  # else it shares a token with the newline
    else:
        tokens = count_tokens(message.text[quote.start : quote.end]) + MORE
    return Excerpt(quote, tokens + DAY + MARK if tokens else 0, message.on)


WORTH = 0.05
"""Passages that score less than this share of the best are not shown."""
SPARE_FACTOR = 2
"""Passages are chosen for this many times the room, because some of them are shown anyway."""


def worth_showing(ranked: Sequence[Ranked], room: int) -> list[Ranked]:
    """Return those of `ranked` (best first) that are good enough to show, about as many as fit into `room` tokens.

    A passage with the same terms as a better one, and the same words of the question around it, is left out.
    """
    shown: dict[object, Ranked] = {}
    best = max((one.score for one in ranked), default=0.0)
    for one in ranked:
        if room <= 0 or one.score < WORTH * best:
            break
        if shown.setdefault((one.words, one.text), one) is one:
            room -= one.tokens + MARK
    return list(shown.values())


def excerpts(ranked: Sequence[Ranked], messages: Mapping[int, RecalledMessage]) -> list[Excerpt]:
    """Make an excerpt of each passage, in the same order; leave out those whose text no longer exists."""
    stored = {one.message.seq: len(one.message.passages) for one in ranked}
    spans = {seq: passages(messages[seq].text, count) for seq, count in stored.items() if seq in messages}
    result: list[Excerpt] = []
    for one in ranked:
        seq = one.message.seq
        if one.passage is None and seq in messages:
            result.append(excerpt_of(Quote(seq), messages[seq]))
        elif one.passage is not None and one.passage < len(spans.get(seq, ())):
            result.append(excerpt_of(Quote(seq, *spans[seq][one.passage]), messages[seq]))
    return [excerpt for excerpt in result if excerpt.tokens]


# Whether earlier turns are searched


STRONG = 40.0
"""Weight of a message's words that occur in earlier turns from which they are worth some tokens although it asks for
nothing: about half a dozen rare ones."""
SPECIFIC = 12.0
"""The weight that is enough if recall is generous, or if the prompt lacks `MOSTLY` of it: two or three rare words."""
FULL = {"lean": math.inf, "auto": 60.0, "generous": 30.0}
"""The weight from which they are worth all the room there is."""
MOSTLY = 0.7

REASONS = {
    "chosen": "Recall is set to search for every question.",
    "question": "It asks for something that may have been said before.",
    "refers_back": "It refers to what was said before.",
    "strong_match": "Earlier messages match it well.",
    "new_words": "It has words that appear only in earlier messages.",
    "nothing_new": "It asks for nothing, and nothing earlier matches it well.",
    "no_words": "It has no words to search for.",
    "answered_here": "This chat itself has what it asks for.",
    "all_shown": "Every turn is in the prompt in full.",
    "off": "Recall is switched off.",
}
"""The reasons, as shown to people."""


Sought = Literal["all", "some", "none"]
"""How much of earlier turns a question calls for: as much as there is room for, a little, or nothing."""


class Recall(NamedTuple):
    """Whether earlier turns were searched for a question, and why (one of `REASONS`)."""

    sought: Sought
    reason: str


def decide(limits: MemoryLimits, question: Question, matches: Matches, known: int) -> Recall:
    """Decide how much of earlier turns `question` calls for. `known` are its words shown in the prompt, as bits."""
    form, there = question.form, matches.words
    codes = sum(1 << at for at, word in enumerate(question.words) if word.is_code)
    if form.asks:
        return Recall("all", "question")
    if limits.recall == "always":
        return Recall("all", "chosen")
    if form.refers_back and there:
        return Recall("all", "refers_back")
    if there & codes & ~known:
        return Recall("some", "new_words")
    if form.forgot and there:  # they cannot name what they look for
        return Recall("some", "refers_back")
    weight = matches.total(there)
    if weight >= FULL[limits.recall]:
        return Recall("all", "strong_match")
    if weight >= (SPECIFIC if limits.recall == "generous" else STRONG):
        return Recall("some", "strong_match")
    if limits.recall != "lean" and matches.total(there & ~known) >= max(SPECIFIC, MOSTLY * weight):
        return Recall("some", "new_words")
    return Recall("none", "nothing_new")


def room_for(recall: Recall, limits: MemoryLimits, free: int) -> int:
    """Tokens of the `free` ones that excerpts may have."""
    if recall.sought == "some":
        return min(free, limits.some_room)
    return free if recall.sought == "all" else 0


def known_words(question: Question, matches: Matches, shown: Iterable[int], remembered: Collection[str]) -> int:
    """The question's words, as bits, that occur in the messages `shown` or among the terms `remembered`."""
    known = 0
    for seq in shown:
        known |= matches.at.get(seq, 0)
    return known | sum(1 << at for at, word in enumerate(question.words) if word.term in remembered)
