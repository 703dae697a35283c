"""Choosing sentences: which of a text's own say the most, or the most about a question.

Pure: texts in, texts out, nothing is ever made up.
"""

from __future__ import annotations

import heapq
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from chatmemory.text.entities import CJK, COMMON_WORDS, scan
from chatmemory.text.tokens import clip_end, count_tokens

LONGEST_SENTENCE = 60
"""Tokens; a longer one is cut, so that no single sentence fills a digest."""

SENTENCE_CHARS = 600
"""What is longer and has no stop is cut into pieces of this size."""

SHORT_WORDS = 4
"""Sentences of fewer words are only worth their spans."""

SHORT_NAME = 2
"""A name of so few characters is most likely a label ("ID")."""

HARD_WORTH, NAME_WORTH, AMOUNT_WORTH, PLAIN_WORTH = 1.0, 0.5, 0.2, 0.05
"""What a span not yet covered is worth: id, date or address; name; amount. And any sentence as such."""

STRESS = 3.0
"""How many times more a span is worth that a person typed, or that an earlier digest kept."""

BULLET_COST = 2
"""Tokens added to the cost of a sentence, in favour of whole ones over fragments."""

FACT_BONUS, FACTS_COUNTED = 1.0, 2
"""What a number or id adds to a sentence that is on the question at all, and how many of them count."""

OPENING_BONUS = 0.5
"""What it adds that the sentence begins with a word of the question."""

_SENTENCE = re.compile(r"(?<=[.!?…])\s+(?=\S)|(?<=[。！？])")
_BULLET = re.compile(r"\A\s*(?:[-*•]|\d{1,3}[.)]|#{1,6}|>)\s+")
_AMOUNT = re.compile(r"[^\w]?\s?\d{1,6}(?:[.,]\d+)*%?(?: \D+)?")
_ABBREVIATION = re.compile(r"(?:^|[\s(])(?:\w{1,2}|\w\.\w)\.$")
_STOPS = (".", "!", "?", "…", "。", "！", "？", '"', "”")
_WORD = re.compile(r"\w+")
_PIECE = re.compile(rf"\S.{{0,{SENTENCE_CHARS - 1}}}(?!\S)|\S.{{0,{SENTENCE_CHARS - 1}}}")


@dataclass(frozen=True, slots=True)
class _Candidate:
    text: str
    cost: int
    spans: dict[str, float]
    """What it covers and what that is worth."""
    base: float


def sentences(text: str) -> list[str]:
    """The sentences of `text` in order, without bullets and markup at their start; blank ones left out."""
    lines = (_BULLET.sub("", line, count=1).replace("**", "") for line in text.splitlines())
    whole = (sentence for line in lines for sentence in _whole(_SENTENCE.split(line)))
    found = (piece.strip() for sentence in whole for piece in _pieces(sentence))
    return [sentence for sentence in found if sentence]


def digest(texts: Iterable[str], max_tokens: int, stressed: Iterable[str] = ()) -> str:
    """The `best` sentences of `texts` as bullets. Not empty when any text says something and the limit has room for a
    word of it.
    """
    said = unique_sentences(texts)
    bullets = (f"- {sentence}" for sentence in best(said, max_tokens, stressed))
    return "\n".join(bullets) or clip_end(" ".join(said), max_tokens)


def unique_sentences(texts: Iterable[str]) -> list[str]:
    """The sentences of all `texts` in order, each once."""
    return list(dict.fromkeys(sentence for text in texts for sentence in sentences(text)))


def best(
    said: Sequence[str],
    max_tokens: int,
    stressed: Iterable[str] = (),
    covered: Iterable[str] = (),
    most: int | None = None,
) -> list[str]:
    """At most `most` of the sentences `said`, those that say the most, in their order; as bullets at most `max_tokens`.

    Chosen greedily: the one whose salient spans not yet covered are worth the most per token comes first. A
    span is worth more the more sentences hold it, and more if `stressed` texts do; those in `covered` texts count as
    covered from the start. Very long sentences are cut.
    """
    worth = span_worth(said, stressed)
    candidates = [_candidate(sentence, worth) for sentence in said]
    done = {span.casefold() for text in covered for span, _ in scan(text)}
    chosen = _choose(candidates, max_tokens, done)[:most]
    while chosen:
        result = [candidates[at].text for at in sorted(chosen)]
        if count_tokens("\n".join(f"- {text}" for text in result)) <= max_tokens:
            return result
        chosen.pop()
    return []


def prose(chosen: Iterable[str]) -> str:
    """Sentences as running text; those without a stop get one, so that they are found again."""
    return " ".join(text if text.endswith(_STOPS) else f"{text.rstrip(':')}." for text in chosen if text)


def names(texts: Sequence[str]) -> list[str]:
    """The names in `texts` as often as sentences hold them, in order. What is also said in lower case is no name."""
    plain = {word for text in texts for word in _WORD.findall(text) if word.islower()}
    found = (span for text in texts for span, hard in scan(text) if not hard)
    return [name for name in found if len(name) > SHORT_NAME and name.casefold() not in plain]


def on_question(texts: Iterable[str], question: str, limit: int) -> list[str]:
    """Up to `limit` sentences of `texts` that share rare words with `question`, the best first.

    Numbers and ids in a sentence speak for it, and that it begins with what is asked for, as labels do. Of equally
    good ones the latest wins; what is said twice was said last. Sentences that ask themselves count for half.
    """
    all_said = [sentence for text in texts for sentence in sentences(text)]
    said = list(dict.fromkeys(reversed(all_said)))[::-1]
    terms = [terms_of(sentence) for sentence in said]
    seen_in = Counter(term for each in terms for term in each)
    asked = terms_of(question)
    scored = []
    for at, each in enumerate(terms):
        score = sum(math.log(1 + len(said) / seen_in[term]) for term in each & asked)
        if score > 0 and each != asked:
            score += FACT_BONUS * min(FACTS_COUNTED, sum(hard for _, hard in scan(said[at])))
            score += OPENING_BONUS * bool(terms_of(said[at].split(maxsplit=1)[0]) & asked)
            scored.append((score / (2 if said[at].endswith("?") else 1), at))
    return [clip_end(said[at], LONGEST_SENTENCE) for _, at in heapq.nlargest(limit, scored)]


def _pieces(line: str) -> list[str]:
    # Between words where there is a space: half an address or a number is another one.
    return _PIECE.findall(line)


def _whole(parts: Sequence[str]) -> list[str]:
    """Parts of a line, those joined again that were cut after an abbreviation or a number ("No. 5", "Dr.
    Lee").
    """
    joined: list[str] = []
    for part in parts:
        if joined and len(joined[-1]) < SENTENCE_CHARS and _is_abbreviated(joined[-1][-6:], part):
            joined[-1] = f"{joined[-1]} {part}"
        else:
            joined.append(part)
    return joined


def _is_abbreviated(end: str, rest: str) -> bool:
    """Whether the stop at the `end` is that of an abbreviation. Of everyday words only "No. 5" is one."""
    found = _ABBREVIATION.search(end)
    word = found[0].strip(" (.").casefold() if found else ""
    return bool(word) and (word not in COMMON_WORDS or (word == "no" and rest[0].isdigit()))


def span_worth(said: Sequence[str], stressed: Iterable[str]) -> dict[str, float]:
    """What each span (in lower case) is worth, by its kind, by how often and by whom it was said."""
    spans = [(span.casefold(), hard) for sentence in said for span, hard in scan(sentence)]
    often = Counter(span for span, _ in spans)
    hers = {span.casefold() for text in stressed for span, _ in scan(text)}
    return {
        span: kind_worth(span, hard) * (1 + math.log(often[span])) * (STRESS if span in hers else 1.0)
        for span, hard in spans
    }


def kind_worth(span: str, hard: bool) -> float:
    """What a span is worth by its kind."""
    if not hard:
        return NAME_WORTH
    return AMOUNT_WORTH if _AMOUNT.fullmatch(span) else HARD_WORTH


def _candidate(sentence: str, worth: Mapping[str, float]) -> _Candidate:
    text = clip_end(sentence, LONGEST_SENTENCE)
    covers = {span: worth.get(span, 0.0) for span in (span.casefold() for span, _ in scan(text))}
    base = PLAIN_WORTH if len(text.split(" ")) >= SHORT_WORDS else 0.0
    return _Candidate(text, count_tokens(f"- {text}\n"), covers, base)


def _choose(candidates: Sequence[_Candidate], max_tokens: int, covered: set[str]) -> list[int]:
    """Greedy cover. Gains only shrink, so that a gain that is still the best when looked at again is the
    best.
    """
    chosen: list[int] = []
    heap = [(-_gain(candidate, covered), at) for at, candidate in enumerate(candidates)]
    heapq.heapify(heap)
    room = max_tokens
    while heap and room > 0:
        _, at = heapq.heappop(heap)
        gain = _gain(candidates[at], covered)
        if gain <= 0 or candidates[at].cost > room:
            continue
        if heap and -gain > heap[0][0]:
            heapq.heappush(heap, (-gain, at))
            continue
        chosen.append(at)
        covered.update(candidates[at].spans)
        room -= candidates[at].cost
    return chosen


def _gain(candidate: _Candidate, covered: set[str]) -> float:
    fresh = sum(worth for span, worth in candidate.spans.items() if span not in covered)
    return (fresh + candidate.base) / (candidate.cost + BULLET_COST)


def terms_of(text: str) -> set[str]:
    """Words that can tell sentences apart, plurals folded; pairs of characters where no spaces are."""
    words = {word.rstrip("s") for word in _WORD.findall(text.casefold()) if word not in COMMON_WORDS}
    terms = {word for word in words if len(word) > 2 or word.isdigit()}
    ideographs = "".join(CJK.findall(text))
    return terms | {ideographs[at : at + 2] for at in range(len(ideographs) - 1)}
