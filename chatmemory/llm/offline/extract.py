"""Chooses the sentences of a text that say the most, or the most about a question. Pure; all results are quotations.

What matters is told by spans: numbers, ids, dates, addresses and names. A language's words are not looked at.
"""

from __future__ import annotations

import heapq
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from chatmemory.text.spans import CJK, COMMON_WORDS, scan
from chatmemory.text.tokens import clip_end, count_tokens

LONGEST_SENTENCE = 60
"""Maximum tokens of a sentence. Longer ones are cut, so that one sentence does not fill a digest."""
SENTENCE_CHARS = 600
"""Longer text without punctuation is cut into pieces of this size."""
SHORT_WORDS = 4
"""Sentences of fewer words count only for their spans."""
HARD_WORTH, NAME_WORTH, AMOUNT_WORTH, PLAIN_WORTH = 1.0, 0.5, 0.2, 0.05
"""Weights of a span that is not yet covered: id, date or address; name; amount. The last is for any sentence."""
STRESS = 3.0
"""How much more a span counts if the user typed it, or an earlier digest kept it."""
BULLET_COST = 2
"""Tokens added to the cost of a sentence, to prefer whole sentences to fragments."""

_SENTENCE = re.compile(r"(?<=[.!?…])\s+(?=\S)|(?<=[。！？])")
_BULLET = re.compile(r"\A\s*(?:[-*•]|\d{1,3}[.)]|#{1,6}|>)\s+")
_AMOUNT = re.compile(r"[^\w]?\s?\d{1,6}(?:[.,]\d+)*%?(?: \D+)?")
_ABBREVIATION = re.compile(r"(?:^|[\s(])(?:\w{1,2}|\w\.\w)\.$")
_WORD = re.compile(r"\w+")
_PIECE = re.compile(rf"\S.{{0,{SENTENCE_CHARS - 1}}}(?!\S)|\S.{{0,{SENTENCE_CHARS - 1}}}")
"""Ends between words where there is a space: half an address or number would be another one."""


def sentences(text: str) -> list[str]:
    """The sentences of `text` in order, without bullets and markup at their start, and without blank ones."""
    found: list[str] = []
    for line in text.splitlines():
        whole: list[str] = []
        for part in _SENTENCE.split(_BULLET.sub("", line, count=1).replace("**", "")):
            if whole and len(whole[-1]) < SENTENCE_CHARS and _is_abbreviated(whole[-1][-6:], part):
                whole[-1] = f"{whole[-1]} {part}"
            else:
                whole.append(part)
        found += [piece.strip() for sentence in whole for piece in _PIECE.findall(sentence)]
    return [sentence for sentence in found if sentence]


def _is_abbreviated(end: str, rest: str) -> bool:
    """Whether the stop at `end` is that of an abbreviation ("Dr. Lee"). Of common words, only "No. 5" counts."""
    found = _ABBREVIATION.search(end)
    word = found[0].strip(" (.").casefold() if found else ""
    return bool(word) and (word not in COMMON_WORDS or (word == "no" and rest[0].isdigit()))


def unique_sentences(texts: Iterable[str]) -> list[str]:
    """The distinct sentences of all `texts`, in order."""
    return list(dict.fromkeys(sentence for text in texts for sentence in sentences(text)))


def names(texts: Sequence[str]) -> list[str]:
    """The names in `texts`, once per occurrence, in order. A word that also occurs in lower case is no name."""
    plain = {word for text in texts for word in _WORD.findall(text) if word.islower()}
    found = (span for text in texts for span, hard in scan(text) if not hard)
    return [name for name in found if len(name) > 2 and name.casefold() not in plain]  # "ID" is a label


def on_question(texts: Iterable[str], question: str, limit: int) -> list[str]:
    """Up to `limit` sentences of `texts` that share rare words with `question`, best first.

    A sentence scores 1 more for each of up to two numbers or ids, and a half if it begins with a word of the question,
    as labels do. Questions score half. Among equal ones, the latest wins; a repeated one counts at its last position.
    """
    repeated = [sentence for text in texts for sentence in sentences(text)]
    unique = list(dict.fromkeys(reversed(repeated)))[::-1]
    terms = [terms_of(sentence) for sentence in unique]
    seen_in = Counter(term for each in terms for term in each)
    question_terms = terms_of(question)
    scored = []
    for at, each in enumerate(terms):
        # Sets are in another order in each process, and a sum of floats depends on its order; this one does not.
        score = math.fsum(math.log(1 + len(unique) / seen_in[term]) for term in each & question_terms)
        if score > 0 and each != question_terms:
            score += min(2, sum(hard for _, hard in scan(unique[at])))
            score += 0.5 * bool(terms_of(unique[at].split(maxsplit=1)[0]) & question_terms)
            scored.append((score / (2 if unique[at].endswith("?") else 1), at))
    return [clip_end(unique[at], LONGEST_SENTENCE) for _, at in heapq.nlargest(limit, scored)]


def terms_of(text: str) -> set[str]:
    """Words that distinguish sentences, with plurals folded; pairs of characters in scripts without spaces."""
    words = {word.rstrip("s") for word in _WORD.findall(text.casefold()) if word not in COMMON_WORDS}
    terms = {word for word in words if len(word) > 2 or word.isdigit()}
    ideographs = "".join(CJK.findall(text))
    return terms | {ideographs[at : at + 2] for at in range(len(ideographs) - 1)}


@dataclass(frozen=True, slots=True)
class _Candidate:
    text: str
    cost: int
    spans: dict[str, float]
    """The spans in the sentence, and their weights."""

    def gain(self, covered: set[str]) -> float:
        """The weight per token of what the sentence adds to the `covered` spans."""
        fresh = sum(weight for span, weight in self.spans.items() if span not in covered)
        plain = PLAIN_WORTH if len(self.text.split(" ")) >= SHORT_WORDS else 0.0
        return (fresh + plain) / (self.cost + BULLET_COST)


def best(texts: Sequence[str], max_tokens: int, stressed: Iterable[str] = ()) -> list[str]:
    """The most informative of some sentences, in order; as bullets at most `max_tokens`.

    The choice is greedy: next is the sentence whose salient spans not yet covered have the highest weight per token.
    A span weighs more the more sentences have it, and more if `stressed` texts do. Very long sentences are cut.
    """
    weights = _span_weights(texts, stressed)
    candidates = []
    for text in (clip_end(sentence, LONGEST_SENTENCE) for sentence in texts):
        spans = {span: weights.get(span, 0.0) for span in (span.casefold() for span, _ in scan(text))}
        candidates.append(_Candidate(text, count_tokens(f"- {text}\n"), spans))
    chosen = _choose(candidates, max_tokens)
    while chosen:
        result = [candidates[at].text for at in sorted(chosen)]
        if count_tokens("\n".join(f"- {text}" for text in result)) <= max_tokens:
            return result
        chosen.pop()
    return []


def _span_weights(texts: Sequence[str], stressed: Iterable[str]) -> dict[str, float]:
    """The weight of each span (in lower case), by its kind, its frequency, and whether `stressed` texts have it."""
    spans = [(span.casefold(), hard) for sentence in texts for span, hard in scan(sentence)]
    often = Counter(span for span, _ in spans)
    stressed_spans = {span.casefold() for text in stressed for span, _ in scan(text)}
    weights = {}
    for span, hard in spans:
        kind = NAME_WORTH if not hard else AMOUNT_WORTH if _AMOUNT.fullmatch(span) else HARD_WORTH
        weights[span] = kind * (1 + math.log(often[span])) * (STRESS if span in stressed_spans else 1.0)
    return weights


def _choose(candidates: Sequence[_Candidate], max_tokens: int) -> list[int]:
    """Choose greedily. Gains only shrink, so a gain that is still the highest when computed again is the highest."""
    chosen: list[int] = []
    covered: set[str] = set()
    heap = [(-candidate.gain(covered), at) for at, candidate in enumerate(candidates)]
    heapq.heapify(heap)
    room = max_tokens
    while heap and room > 0:
        _, at = heapq.heappop(heap)
        gain = candidates[at].gain(covered)
        if gain <= 0 or candidates[at].cost > room:
            continue
        if heap and -gain > heap[0][0]:
            heapq.heappush(heap, (-gain, at))
            continue
        chosen.append(at)
        covered.update(candidates[at].spans)
        room -= candidates[at].cost
    return chosen
