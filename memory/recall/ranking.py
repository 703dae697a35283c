"""Decide whether a question calls for earlier turns, which messages to read, and which of their passages to show. Pure.

Excerpts cost tokens, useful or not. Whoever asks gets as many as there is room for, whenever anything matches: that the
window has the question's words says that the topic is there, not the answer. Anything else gets some if it matches
earlier messages well. `docs/prompt.md` says on which chats that was chosen.

A short message is one passage, a long one several: long replies mention much and say each thing in one place. A
passage scores by its own terms, by those of the rest of its message, and by those of the messages around it,
so that an answer is found by its question and vice versa; a short message also by how
well its neighbours answer. Long messages count less, and so does the side of a chat that writes more: replies of
several pages repeat what the user said in a line. There is no switch by kind of chat. The numbers were chosen on the
odd chats of several sets at once (`docs/recall.md`).

Words and meaning are fused: the best match by words scores one, the nearest by meaning `MEANING_WEIGHT`, and a
message that is both the sum, so scores of different kinds need no common scale. This finds more than reciprocal
ranks, which use only the order (`docs/recall.md`). Nearness is weighted by speaker, as words are, but not by length:
a vector has none.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Literal, NamedTuple

from memory.limits import MemoryLimits
from memory.recall.excerpts import MARK, Excerpt, Quote, RecalledMessage, excerpt_of
from memory.recall.question import Question
from memory.recall.terms import closeness, passages

ELSEWHERE = 0.25
"""How much a term counts that occurs in another passage of the same message."""
PAIR = 0.4
"""Share of their weights that two terms add which are neighbours both in the question and in the passage."""
FURTHER = 0.8
"""How much each further passage of a message counts, relative to the one before it."""
NEIGHBOUR_SHARES = ((1, 0.15), (2, 0.1))
"""Share of the better score at each distance before or after it that a short message gains: what people say in short
messages, they say in several. A long message gains nothing."""
LENGTH = 0.4
"""How much less a passage counts the longer it is, like b in BM25."""
SIDE = 0.4
"""How much less the side counts that usually writes more: the ratio to this power."""
LOWEST, HIGHEST = 0.4, 1.5
"""Bounds of a message's weight by length and side: an answer should rank before messages that are only next to it."""
NOT_ASKED_FOR = 0.6
"""How much the user's messages count if the question asks for what the assistant said."""
TIMELY, WITHIN = 1.0, 10.0
"""How much more a message counts that was sent when the question asks about: on that day or in that month, and about
a third as much `WITHIN` days before or after."""
WHOLE_TOKENS = 100
"""A message of at most so many tokens is one passage, even if the index divided it, and is shown whole."""


@dataclass(frozen=True, slots=True)
class Indexed:
    """A message as the index stores it: hashed terms, one line per passage."""

    seq: int
    is_user: bool
    tokens: int
    passages: tuple[str, ...]
    on: str = ""
    """The day it was sent."""


@dataclass(frozen=True, slots=True, eq=False)
class Ranked:
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


class _Piece(NamedTuple):
    """A passage of a message, the question's words in it, and those in the message's other passages."""

    text: str
    own: int
    others: int


@dataclass(frozen=True, slots=True)
class _Words:
    """A question's words and pairs of words as bits, with the strings that are searched in a passage."""

    tokens: tuple[tuple[int, str], ...]
    pairs: tuple[tuple[int, str], ...]

    @classmethod
    def of(cls, question: Question) -> _Words:
        words = [word.token for word in question.words]
        pairs = tuple((1 << a | 1 << b, f"{words[a]} {words[b]}") for a, b in question.pairs)
        return cls(tuple((1 << at, token) for at, token in enumerate(words)), pairs)


class Size(NamedTuple):
    """The speaker and the length of a message."""

    is_user: bool
    tokens: int


@dataclass(frozen=True, slots=True)
class Lengths:
    """The usual lengths of both sides' messages, and the weight of a message by its side and length."""

    user: float
    assistant: float
    asks_for_reply: bool = False

    @classmethod
    def of(cls, question: Question, sizes: Iterable[Size]) -> Lengths:
        """The average lengths in `sizes`, which are messages of one chat."""
        said: dict[bool, list[int]] = {True: [], False: []}
        for is_user, tokens in sizes:
            said[is_user].append(tokens)
        user, assistant = (sum(one) / len(one) if one else 0.0 for one in (said[True], said[False]))
        return cls(user or assistant or 1.0, assistant or user or 1.0, question.form.asks_for_reply)

    def weight(self, size: Size) -> float:
        """The weight of a passage of that length and side."""
        usual = (self.user + self.assistant) / 2
        relative = min(size.tokens, WHOLE_TOKENS) / min(usual, WHOLE_TOKENS)
        length = 1 / (1 - LENGTH + LENGTH * relative)
        return max(LOWEST, min(HIGHEST, length) * self.side(size.is_user))

    def side(self, is_user: bool) -> float:
        """The weight of that side's messages relative to the other's, regardless of their own length."""
        if self.asks_for_reply:
            return NOT_ASKED_FOR if is_user else 1.0
        own, other = (self.user, self.assistant) if is_user else (self.assistant, self.user)
        return math.pow(min(1.0, other / own), SIDE)


def closest(question: Question, matches: Matches, sizes: Mapping[int, Size], most: int) -> list[int]:
    """Return the seqs in `sizes` whose stored terms are worth reading, best first: at most `most`."""
    lengths = Lengths.of(question, sizes.values())
    weights = {size: lengths.weight(size) for size in set(sizes.values())}  # many have the same size
    scores = {seq: matches.near(seq) * weights[size] for seq, size in sizes.items()}
    return sorted(scores, key=lambda seq: (-scores[seq], -seq))[:most]


def rank(question: Question, matches: Matches, messages: Iterable[Indexed], lengths: Lengths) -> list[Ranked]:
    """Return the passages of `messages` with a score above zero, best first; if two are equal, the newer first."""
    words = _Words.of(question)
    found = [
        one
        for message in messages
        for one in _further(_passages(words, matches, message, _in_time(question, message), lengths))
    ]
    return best_first(_beside_good_ones(found, matches))


def _beside_good_ones(found: Sequence[Ranked], matches: Matches) -> Iterator[Ranked]:
    """Yield `found`, with the scores of short messages raised by short neighbours that have words of the question."""
    score = {
        one.message.seq: one.score for one in found if one.passage is None and matches.at.get(one.message.seq)
    }

    def gained(seq: int) -> float:
        return sum(
            share * max(score.get(seq - step, 0.0), score.get(seq + step, 0.0))
            for step, share in NEIGHBOUR_SHARES
        )

    for one in found:
        more = gained(one.message.seq) if one.passage is None else 0.0
        yield replace(one, score=one.score + more) if more else one


def _further(passages: Iterable[Ranked]) -> Iterator[Ranked]:
    """Yield passages of one message that score above zero: the best in full, each further one for less."""
    good = [one for one in passages if one.score > 0]
    share = 1.0
    for one in best_first(good) if len(good) > 1 else good:
        yield one if share == 1.0 else replace(one, score=one.score * share)
        share *= FURTHER


def best_first(ranked: Iterable[Ranked]) -> list[Ranked]:
    """Sort `ranked`, best first; if two are equal, the newer first."""
    return sorted(ranked, key=lambda one: (-one.score, -one.message.seq))


def unranked(message: Indexed) -> Ranked:
    """The first passage of a message that was found in another way than by words."""
    return Ranked(0.0, message, None if _is_whole(message) else 0)


def score_alone(question: Question, worth: Sequence[float], message: Indexed) -> tuple[float, int]:
    """Score a message without its neighbours; return the best passage's score and index."""
    words, matches = _Words.of(question), Matches({}, tuple(worth))
    scores = [_score(words, matches, piece) for piece in _pieces(words, message.passages)]
    best = max(scores)
    return best, scores.index(best)


def _is_whole(message: Indexed) -> bool:
    return message.tokens <= WHOLE_TOKENS or len(message.passages) == 1


def _passages(
    words: _Words, matches: Matches, message: Indexed, in_time: float, lengths: Lengths
) -> Iterator[Ranked]:
    whole = _is_whole(message)
    weight = in_time * lengths.weight(Size(message.is_user, message.tokens))
    pieces = _pieces(words, ("\n".join(message.passages),) if whole else message.passages)
    added, having = matches.around(message.seq, pieces[0].own | pieces[0].others)
    for number, piece in enumerate(pieces):
        score = weight * (_score(words, matches, piece) + NEIGHBOURS_SHARE * added)
        yield Ranked(score, message, None if whole else number, having)


def _score(words: _Words, matches: Matches, piece: _Piece) -> float:
    """The score of a passage by its terms, and by those in the rest of its message."""
    text, own, others = piece
    score = matches.total(own) + ELSEWHERE * (
        matches.total(others & ~own) + AGAIN * matches.total(others & own)
    )
    for pair, beside in words.pairs:
        if pair & own == pair and beside in text:
            score += PAIR * matches.total(pair) / 2
    return score


def _pieces(words: _Words, passages: Sequence[str]) -> list[_Piece]:
    there = [_in(words, passage) for passage in passages]
    once = twice = 0
    for own in there:
        twice |= once & own
        once |= own
    return [
        _Piece(passage, own, once & ~own | twice & own) for passage, own in zip(passages, there, strict=True)
    ]


def _in(words: _Words, passage: str) -> int:
    return sum([bit for bit, token in words.tokens if token in passage])


def _in_time(question: Question, message: Indexed) -> float:
    """The weight of a message by when it was sent, if the question says anything about that."""
    if not (question.times and message.on):
        return 1.0
    return 1 + TIMELY * closeness(message.on, question.times, WITHIN)


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
    """Fuse words and meaning; best first. `ranked` has at least one passage of each message that is near."""
    best = max([one.score for one in ranked], default=0.0) or 1.0
    meant = _meant(ranked, dict(near), lengths)
    further = Counter[int]()
    fused = []
    for one in best_first(ranked):
        seq = one.message.seq
        fused.append(
            replace(one, score=one.score / best + MEANING_WEIGHT * meant[seq] * FURTHER ** further[seq])
        )
        further[seq] += 1
    return best_first(fused)


def _meant(ranked: Iterable[Ranked], near: Mapping[int, float], lengths: Lengths) -> dict[int, float]:
    """Nearness of each message by seq, weighted by its side; 1 for the highest, 0 for those that are not near."""
    meant = {
        one.message.seq: near.get(one.message.seq, 0.0) * lengths.side(one.message.is_user) for one in ranked
    }
    most = max(meant.values(), default=0.0) or 1.0
    return {seq: weighed / most for seq, weighed in meant.items()}


WORTH = 0.05
"""Passages that score less than this share of the best are not shown."""
TOKENS_PER_MESSAGE = 20
"""Tokens of room per message that is read closely."""


PRESELECT_FACTOR = 4
"""How many times as many messages are first compared by side and length."""
SPARE_FACTOR = 2
"""Passages are chosen for this many times the room, because some of them are shown anyway."""


def messages_to_read(room: int) -> int:
    """How many messages are read closely for `room` tokens."""
    return max(12, min(200, room // TOKENS_PER_MESSAGE))


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


def excerpts(ranked: Iterable[Ranked], said: Mapping[int, RecalledMessage]) -> list[Excerpt]:
    """Make an excerpt of each passage, in the same order; leave out those whose text no longer exists."""
    spans: dict[int, list[tuple[int, int]]] = {}
    made: list[Excerpt] = []
    for one in ranked:
        seq = one.message.seq
        if seq not in said:
            continue
        if one.passage is None:
            made.append(excerpt_of((Quote(seq),), said))
            continue
        if seq not in spans:
            spans[seq] = passages(said[seq].text)
        if one.passage < len(spans[seq]):
            made.append(excerpt_of((Quote(seq, *spans[seq][one.passage]),), said))
    return [excerpt for excerpt in made if excerpt.tokens]


NEIGHBOURS = ((1, 0.6), (2, 0.45), (3, 0.3))
"""How much a term counts that occurs so many messages before or after."""
NEIGHBOURS_SHARE = 0.5
"""How much all neighbours together count compared with the message's own words."""
AGAIN = 0.5
"""The share of that which counts if the term also occurs nearer."""


class _WeightSums(dict[int, float]):
    """The sum of weights of each set of words, computed at its first use."""

    def __init__(self, worth: tuple[float, ...]) -> None:
        super().__init__()
        self._worth = worth

    def __missing__(self, words: int) -> float:
        total = self[words] = sum([worth for at, worth in enumerate(self._worth) if words >> at & 1])
        return total


@dataclass(frozen=True, slots=True)
class Matches:
    """The words of a question found at each seq (`at`), and the weight of each word, highest for rare ones."""

    at: Mapping[int, int]
    worth: tuple[float, ...]
    _sums: _WeightSums = field(init=False, compare=False, repr=False)
    _near: dict[int, float] = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Compute the weight of each set of words when it is first needed: many messages have the same."""
        object.__setattr__(self, "_sums", _WeightSums(self.worth))

    def total(self, words: int) -> float:
        """The sum of the weights of these words."""
        return self._sums[words]

    def around(self, seq: int, own: int) -> tuple[float, int]:
        """The weight that neighbours add to message `seq`, which has the words `own`; and all words of both."""
        at, totals, added = self.at.get, self._sums, 0.0
        for step, share in NEIGHBOURS:
            if there := at(seq - step, 0) | at(seq + step, 0):
                again = there & own
                added += share * (totals[there ^ again] + AGAIN * totals[again] if again else totals[there])
                own |= there
        return added, own

    def near(self, seq: int) -> float:
        """The weight of the words in message `seq` and around it, computed once."""
        known = self._near.get(seq)
        if known is None:
            own = self.at.get(seq, 0)
            known = self._near[seq] = self.total(own) + NEIGHBOURS_SHARE * self.around(seq, own)[0]
        return known


def weigh(question: Question, seqs: Sequence[Sequence[int]], most: int, last_seq: int) -> Matches:
    """Collect the matches of each word, of which at most `most` were read, and weight the words by estimated rarity."""
    worth = tuple(
        word.weight * _rarity(_spread(found, most, last_seq), last_seq)
        for word, found in zip(question.words, seqs, strict=True)
    )
    return Matches(_placed({}, ((1 << at, found) for at, found in enumerate(seqs))), worth)


def words_to_combine(matches: Matches, is_cut: Sequence[bool]) -> list[tuple[int, ...]]:
    """Return which words to look up together because each by itself is too common to be read completely.

    These are the two rarest. Empty if a word that was read completely occurs anywhere, or if fewer than two
    are too common.
    """
    common = sorted((at for at, cut in enumerate(is_cut) if cut), key=lambda at: -matches.worth[at])
    if len(common) < 2:
        return []
    rare = sum([1 << at for at, cut in enumerate(is_cut) if not cut])
    if any(words & rare for words in set(matches.at.values())):
        return []
    return [tuple(common[:2])]


def with_places(
    matches: Matches, together: Sequence[tuple[int, ...]], seqs: Sequence[Sequence[int]]
) -> Matches:
    """Add to `matches` where the words that were looked up together occur."""
    words = (sum([1 << at for at in ats]) for ats in together)
    return Matches(_placed(matches.at, zip(words, seqs, strict=True)), matches.worth)


def promising_seqs(matches: Matches, shown: frozenset[int], most: int) -> list[int]:
    """Return the seqs of the messages that may be worth reading, best first: at most `most`, none of them `shown`."""
    having: dict[int, list[int]] = defaultdict(list)
    for seq, words in matches.at.items():
        having[words].append(seq)
    first: list[int] = []
    for words in sorted(having, key=matches.total, reverse=True):
        first += sorted(having[words], reverse=True)[: most - len(first)]
        if len(first) == most:
            break
    beside = {seq + step for seq in first[: most // 4] for step in (-2, -1, 1, 2, 3)}
    around = {*first, *beside} - shown
    ranked = sorted([(matches.near(seq), seq) for seq in around if seq > 0], reverse=True)
    return [seq for _, seq in ranked[:most]]


def _placed(at: Mapping[int, int], found: Iterable[tuple[int, Sequence[int]]]) -> dict[int, int]:
    """Return `at` with these words added at these seqs."""
    placed = dict(at)
    for words, seqs in found:
        for seq in seqs:
            placed[seq] = placed.get(seq, 0) | words
    return placed


def _spread(found: Sequence[int], most: int, last_seq: int) -> float:
    """Estimate how many messages contain a word, from how dense the matches are that were read.

    PostgreSQL may have read matches from several places, so the widest gaps are ignored.
    """
    if len(found) < most:
        return float(len(found))
    places = sorted(found)
    gaps = sorted([after - before for before, after in pairwise(places)])
    kept = gaps[: max(1, len(gaps) * 9 // 10)]
    return last_seq * len(kept) / sum(kept)


def _rarity(messages: float, last_seq: int) -> float:
    """Weight a term by its rarity: close to zero if every second message has it, but never zero."""
    return math.log(1 + max(0.5, last_seq - messages + 0.5) / (messages + 0.5))


STRONG = 40.0
"""Weight of a message's words that occur in earlier turns from which they are worth some tokens although it asks for
nothing: about half a dozen rare ones."""

REASONS = {
    "chosen": "Recall is set to search for every question.",
    "question": "It asks for something that may have been said before.",
    "refers_back": "It refers to what was said before.",
    "strong_match": "Earlier messages match it well.",
    "new_words": "It has words that appear only in earlier messages.",
    "nothing_new": "It asks for nothing, and nothing earlier matches it well.",
    "no_words": "It has no words to search for.",
    "all_shown": "Every turn is in the prompt in full.",
    "off": "Recall is switched off.",
}
"""The reasons, as shown to people."""


def decide(limits: MemoryLimits, question: Question, matches: Matches, known: int) -> Recall:
    """Decide how much of earlier turns `question` calls for. `known` are its words shown in the prompt, as bits."""
    form = question.form
    there = _there(matches)
    if form.asks:
        return Recall("all", "question")
    if limits.recall == "always":
        return Recall("all", "chosen")
    if form.refers_back and there:
        return Recall("all", "refers_back")
    if there & _codes(question) & ~known:
        return Recall("some", "new_words")
    if form.forgot and there:  # they cannot name what they look for
        return Recall("some", "refers_back")
    if matches.total(there) >= STRONG:
        return Recall("some", "strong_match")
    return Recall("none", "nothing_new")


def _codes(question: Question) -> int:
    """The words that are ids, as bits."""
    return sum(1 << at for at, word in enumerate(question.words) if word.is_code)


def is_lean(recall: Recall) -> bool:
    """Whether turns before the window become lines in this prompt, to make room for excerpts.

    An answer from far back is worth one miss in the provider's cache; context is not.
    """
    return recall.sought == "all" and recall.reason != "chosen"


def room_for(recall: Recall, limits: MemoryLimits, free: int) -> int:
    """Tokens of the `free` ones that excerpts may have."""
    if recall.sought == "some":
        return min(free, limits.some_room)
    return free if recall.sought == "all" else 0


def known_words(
    question: Question, matches: Matches, shown: Iterable[int], remembered: Collection[str]
) -> int:
    """The question's words, as bits, that occur in the messages `shown` or among the terms `remembered`."""
    known = 0
    for seq in shown:
        known |= matches.at.get(seq, 0)
    return known | sum(1 << at for at, word in enumerate(question.words) if word.term in remembered)


def _there(matches: Matches) -> int:
    """All words that occur anywhere earlier, as bits."""
    there = 0
    for words in matches.at.values():
        there |= words
    return there


Sought = Literal["all", "some", "none"]
"""How much of earlier turns a question calls for: as much as there is room for, a little, or nothing."""


class Recall(NamedTuple):
    """Whether earlier turns were searched for a question, and why (`memory.recall.ranking.REASONS`)."""

    sought: Sought
    reason: str
