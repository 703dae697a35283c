"""Facts as key and value, and a narrative of at most three sentences (seed 003), quoted from a conversation.

Only facts that are new or have changed are returned. If a sentence says what something *is*, it corrects the fact of
that name; a second value that is merely mentioned gets a key of its own, so that two flights stay two.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chatmemory.llm.offline.bounded_json import cost, fit, take
from chatmemory.llm.offline.cues import decided, is_decision, is_question, key_of, preference, takes_back
from chatmemory.llm.offline.extract import STRESS, prose, span_worth
from chatmemory.llm.offline.parse_request import ParsedRequest, Sentence
from chatmemory.llm.offline.points import is_fragment
from chatmemory.llm.offline.value_names import Named, content_words, named_values, state_of
from chatmemory.text.spans import scan
from chatmemory.text.tokens import clip_end

FACTS_TOKENS = 400
"""Length of the answer in tokens if the prompt does not give one."""

NARRATIVE_TOKENS, NARRATIVE_SHARE, NARRATIVE_SENTENCES = 120, 0.25, 3
TELLING_WORDS = 3
"""Words that make a sentence informative; with fewer, it is most likely a courtesy."""

LEAST_CHARS = 40
"""Characters added to a length: prefers whole sentences to fragments, and counts the JSON around a fact."""

VALUE_TOKENS = 25

SETTLED_WORTH = 1.0
"""The weight of a decision, a state or a preference, compared with spans (`extract.span_worth`)."""

EQUATED = 1.5
"""How much more a value counts if a sentence says that something is it."""

SAME_NAME = 20
"""Maximum number of values of one name."""

SHORT_VALUE = 3
"""Characters; a shorter value is ambiguous."""

LONG_NUMBER = 4
"""Digits; a shorter number is ambiguous."""

_COUNT = re.compile(r"\d{1,3}")
"""A small number that is only a count says little by itself."""

_TAKEN_BACK = 50
"""How many of the newest sentences with a retraction are examined."""


def facts_and_narrative(talk: ParsedRequest, max_tokens: int) -> str:
    """Facts, most informative first, keys of facts that are no longer valid, and a narrative, as JSON.

    The JSON has at most `max_tokens`.
    """
    said = talk.sentences()
    worth = span_worth([each.text for each in said], talk.typed)
    narrative = _narrative(said, worth, int(NARRATIVE_SHARE * max_tokens))
    ledger = _Ledger(talk.facts)
    for each in said:
        for named in _values_in(each):
            ledger.note(named, _worth(named, worth, by_user=each.by_user), (each.turn, each.by_user))
    answer: dict[str, Any] = {"facts": [], "removed": [], "narrative": narrative}
    answer["removed"] = take(_removed(talk.facts, said, ledger), (max_tokens - cost(answer)) // 4)
    answer["facts"] = take(ledger.best_first(), max_tokens - cost(answer))
    return fit(answer, max_tokens, ("facts", "narrative", "removed"))


@dataclass(slots=True)
class _Fact:
    named: Named
    worth: float
    message: tuple[int, bool]
    """The turn in which it was said, and whether the user said it."""

    @property
    def density(self) -> float:
        return self.worth / (len(self.named.key) + len(self.named.value) + LEAST_CHARS)


class _Ledger:
    """The facts noted so far, by key."""

    def __init__(self, existing: Sequence[tuple[str, str]]) -> None:
        self._before = {key_of(key): (key, value) for key, value in existing}
        self._facts: dict[str, _Fact] = {}
        self._values = {value.casefold() for _, value in existing if _is_unmistakable(value)}

    def __contains__(self, key: str) -> bool:
        return key_of(key) in self._facts

    def note(self, named: Named, worth: float, message: tuple[int, bool]) -> None:
        """Note a fact, unless its value is known; under a numbered key if its name is taken."""
        value = named.value.casefold()
        if (value in self._values and not named.is_equated) or self._value(named.key) == value:
            return
        another = self._is_another(named, message)
        if another and named.category == "NUMERIC" and " " in self._value(named.key):
            return  # a day or an hour of a value that is known in full
        key = self._free(named.key) if another else named.key
        if key:
            self._facts[key] = _Fact(named, worth, message)
            if _is_unmistakable(value):
                self._values.add(value)

    def best_first(self) -> Iterator[dict[str, str]]:
        """All facts in the answer's format, those with the highest weight for their length first."""
        for key, fact in sorted(self._facts.items(), key=lambda item: -item[1].density):
            spelled = self._before[key][0] if key in self._before else key
            yield {
                "key": spelled,
                "value": clip_end(fact.named.value, VALUE_TOKENS),
                "category": fact.named.category,
            }

    def _is_another(self, named: Named, message: tuple[int, bool]) -> bool:
        """Whether the key belongs to another value that this one does not correct, such as one in the same message."""
        if named.key in self._facts:
            return not named.is_equated or self._facts[named.key].message == message
        return named.key in self._before and not named.is_equated

    def _value(self, key: str) -> str:
        if key in self._facts:
            return self._facts[key].named.value.casefold()
        return self._before[key][1].casefold() if key in self._before else ""

    def _free(self, key: str) -> str:
        """The key with a number that is not in use; empty if there are too many of them."""
        numbered = (f"{key}_{number}" for number in range(2, SAME_NAME + 1))
        return next((one for one in numbered if one not in self._facts and one not in self._before), "")


def _values_in(said: Sentence) -> Iterator[Named]:
    """The values, the state or decision, and the preference in a sentence. Questions count only for their values."""
    for named in named_values(said.text):
        if named.is_equated or not _COUNT.fullmatch(named.value):
            yield named
    if is_question(said.text):
        return
    if (state := state_of(said.text)) and not state.key[0].isdigit():
        yield state
    elif is_decision(said.text):
        key = key_of(" ".join(content_words(decided(said.text)))) or "decision"
        yield Named(key, said.text, "DECISION", "", is_hard=False, is_equated=False)
    if said.by_user and (liked := preference(said.text)):
        yield Named(liked[0], liked[1], "GENERAL", "", is_hard=False, is_equated=False)


def _worth(named: Named, worth: Mapping[str, float], *, by_user: bool) -> float:
    if not named.span:
        return SETTLED_WORTH * (STRESS if by_user else 1.0)
    return worth.get(named.span.casefold(), 0.0) * (EQUATED if named.is_equated else 1.0)


def _is_unmistakable(value: str) -> bool:
    """Whether a value means the same in any message: "HAT271" and "#1234" do, "2" does not."""
    return len(value) >= SHORT_VALUE and (
        any(map(str.isalpha, value)) or sum(map(str.isdigit, value)) >= LONG_NUMBER
    )


def _removed(facts: Sequence[tuple[str, str]], said: Sequence[Sentence], ledger: _Ledger) -> Iterator[str]:
    """Keys of facts that the user retracts, by their value or by all words of their name."""
    taken_back = [each.text.casefold() for each in said if each.by_user and takes_back(each.text)][
        -_TAKEN_BACK:
    ]
    for key, value in facts:
        words = key_of(key).split("_")
        hit = any(
            (len(value) >= SHORT_VALUE and value.casefold() in text) or all(word in text for word in words)
            for text in taken_back
        )
        if hit and key not in ledger:
            yield key


def _narrative(said: Sequence[Sentence], worth: Mapping[str, float], room: int) -> str:
    """The first sentence, the fullest one and the last, in at most `room` tokens.

    Statements are preferred, if there are any: a question does not say what came of it.
    """
    told = [each for each in said if not each.text.endswith(":")] or list(said)
    if not told:
        return ""
    weighty = [each for each in told if not is_fragment(each.text)] or told
    telling = [each for each in weighty if _tells(each.text)] or weighty
    typed = [each for each in telling if each.by_user] or telling
    settled = [each for each in telling if is_decision(each.text) or state_of(each.text)] or typed
    fullest = max(telling, key=lambda each: _density(each.text, worth))
    picked = {id(each) for each in (typed[0], fullest, settled[-1])}
    share = min(room, NARRATIVE_TOKENS) // NARRATIVE_SENTENCES - 1
    return prose(clip_end(each.text, share) for each in told if id(each) in picked)


def _tells(sentence: str) -> bool:
    """Whether a sentence is a statement, not a mere courtesy. In scripts without spaces, words cannot be counted."""
    if is_question(sentence):
        return False
    has_words = len(content_words(sentence)) >= TELLING_WORDS or " " not in sentence.strip()
    return has_words or any(hard for _, hard in scan(sentence))


def _density(text: str, worth: Mapping[str, float]) -> float:
    found = sum(worth.get(span.casefold(), 0.0) for span, _ in scan(text))
    return found / (len(text) + LEAST_CHARS)
