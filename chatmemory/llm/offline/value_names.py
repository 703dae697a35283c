"""Names for values: what the words around a number, an id or a name call it ("order number is #1234").

A heuristic for one sentence at a time, in English only. If no word names a value, its kind does, or it is left out.
Values are quoted from the sentence verbatim.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from chatmemory.llm.offline.cues import key_of
from chatmemory.text.spans import COMMON_WORDS, scan

Category = Literal["ENTITY", "DECISION", "CONDITION", "STATE", "NUMERIC", "GENERAL"]
"""The six categories of seed 003."""

REACH = 80
"""Characters before a value in which its name is searched."""

LONGEST_NAME = 3
"""Maximum words of a key."""

_WORD = re.compile(r"[\w'’#-]+|[^\w\s]")
_LINKS = frozenset("is are was were be been being am as = : # ( \" “ ' ‘ * a an the about around now".split())
_PLACES = frozenset("of to on at in for by from with into".split())
_EQUATES = frozenset("is are was were = :".split())
_LIMITS = frozenset("within until before after under over below above least most than".split())
_HELPERS = frozenset(
    "has have had having do does did will would can could may might must shall should get got need want like take "
    "go let make use see per each every and or but nor than between via using includes include including "
    "departing arriving ending".split()
)
_NO_NAMES = COMMON_WORDS | _LINKS | _PLACES | _HELPERS
_AFTER_THESE_A_VERB = frozenset(
    "to please i you we they he she it can could will would should must not also just really then".split()
)
_ENUMERATION = re.compile(r"[\s,;/&(\"“]*(?:and|or|to|plus)?[\s(\"“]*", re.IGNORECASE)

_MONEY = re.compile(r"[$€£¥₹]|\b(?:usd|eur|gbp|chf|jpy|inr|cad|aud|dollars?|euros?|pounds)\b", re.IGNORECASE)
_DATE = re.compile(
    r"\d{4}-\d\d-\d\d|\d{1,2}[/.]\d{1,2}[/.]\d{2,4}"
    r"|\b(?:jan|feb|mar|apr|may|june?|july?|aug|sept?|oct|nov|dec)(?:[a-z]{2,7})?\b",
    re.IGNORECASE,
)
_TIME = re.compile(r"\d{1,2}:\d\d|\d\s?[ap]\.?m\b", re.IGNORECASE)
_NUMBER = re.compile(r"[^\w#]*\d[\d.,%]*(?: ?[a-z%°]+)?", re.IGNORECASE)

_ADDRESS, _MAIL = re.compile("://"), re.compile("@")
_LABEL = re.compile(r"\s?[:=]")
_LABELLED = re.compile(
    r"[\s*•–-]*(?P<label>[^\W\d_][^:.,;!?()\n]{1,38}):\**\s+(?P<value>[^;()\n]{1,60})(?=[;(\n]|$)"
)
_PHONE = re.compile(r"\+\d[\d ()-]{6,18}\d")
_KINDS = frozenset(("time", "date", "amount"))
"""Names that add nothing, because the value itself shows them."""
_FOLLOWING = re.compile(r" ([^\W\d_]{3,})\b")

_STATES = (
    "approved|cancell?ed|confirmed|booked|closed|completed?|delayed|delivered|denied|done|failed|finished|fixed|open"
    "|paid|pending|ready|refunded|rejected|resolved|returned|scheduled|shipped|sold out|updated|upgraded|downgraded"
    "|changed|blocked|active|inactive|expired"
)
_STATE = re.compile(
    r"(?P<what>[\w#-]+(?: [\w#-]+){0,3})(?:\s?[:=]| (?:is|are|was|were|(?:has|have|had) been))"
    rf"(?: now| already| still| successfully| fully| not)* (?P<state>{_STATES})\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Named:
    """A value and its name. `is_equated`: the sentence says that the name *is* the value ("is", "=", ":")."""

    key: str
    value: str
    category: Category
    span: str
    """The span that makes the value worth keeping; empty if there is none."""
    is_hard: bool
    """Whether the span is a number, an id or an address, not a name."""
    is_equated: bool


def named_values(sentence: str) -> Iterator[Named]:
    """The spans of `sentence` that have a name, in order; for "Concert: Friday, 19:00", the whole value of the label.

    A telephone number is one value. A value that only its kind would name is left out.
    """
    spans = scan(sentence)
    if labelled := _labelled(sentence, spans):
        yield labelled
        return
    yield from (named for named in _by_words_before(sentence, spans) if _names(named.key, named.value))


_LOOSE = ("_of", "_on", "_at", "_in", "_for", "_into", "_by", "_with")
"""Ends of a key that say where a name occurs, not what it is."""

_WAYS = ("_to", "_from")
_ROUTES = frozenset(
    "flight flights fly train bus ticket tickets trip route travel journey transfer move moved drive ship shipped "
    "delivery departure arrival connection return change changed upgrade downgrade".split()
)
"""Words for going from one name to another. After other words, "to" and "from" name nothing."""

_WEAK = frozenset(
    "noted against ask leave roughly about second third first next half hour only still then now today tomorrow "
    "yesterday time".split()
)
"""Words that name nothing by themselves."""

_ORDERS = frozenset(
    "add ask bring call charge check count find get give keep leave make note noted plan put remember see send take "
    "tell use write".split()
)
"""Verbs of a request to do something: the words after them are no name."""

_SAYS = frozenset("say says said".split())


def _names(key: str, value: str) -> bool:
    """Whether `key` says what `value` is."""
    words = [word for word in key.split("_") if not word.isdigit()]
    if key in _KINDS or key[0].isdigit() or all(word in _WEAK or word in _PLACES for word in words):
        return False
    if value.isalpha() and key.endswith(_LOOSE):
        return False
    is_name = value.replace(" ", "").isalpha()
    return not (is_name and key.endswith(_WAYS)) or bool(_ROUTES & set(words))


def _labelled(sentence: str, spans: list[tuple[str, bool]]) -> Named | None:
    """The value of a sentence that begins with a label."""
    match = _LABELLED.match(sentence)
    words = content_words(match["label"]) if match else []
    key = key_of(" ".join(words))
    if not match or not key or words[0].casefold() in _ORDERS or words[-1].casefold() in _SAYS:
        return None
    if all(word.casefold() in _WEAK for word in words):
        return None
    phone = _PHONE.search(match["value"])
    value = phone[0] if phone else match["value"].strip().rstrip(".!*,").strip()
    within = [(span, hard) for span, hard in spans if span in value]
    if not within:
        return None
    span, hard = max(within, key=lambda one: one[1])
    category = _category(value, hard=hard) if " " not in value else "ENTITY"
    return Named(key, value, category, span, hard, is_equated=True)


def _by_words_before(sentence: str, spans: list[tuple[str, bool]]) -> Iterator[Named]:
    """Yield each span with the name from the words before it, or from its kind."""
    at, last, base = 0, 0, ""
    for span, hard in spans:
        start = sentence.find(span, at)
        if start < 0:
            continue
        if phone := _PHONE.match(sentence, start):
            span = phone[0]
        at = start + len(span)
        if _LABEL.match(sentence, at) and not any(map(str.isdigit, span)):
            continue  # "order_status: …" is a name, not a value
        between = sentence[last:start]
        name = _name_before(between)
        listed = bool(base) and not name.key and _ENUMERATION.fullmatch(between) is not None
        key = name.key or (base if listed else "") or _own_name(span, sentence[at:], hard=hard)
        if key and (hard or (len(span) > 2 and (name.is_equated or name.place))):
            last, base = at, key
            yield _named(key, span, name, hard=hard, sentence=sentence)


def state_of(sentence: str) -> Named | None:
    """The state of something, if the sentence gives it: "order #1234 has been cancelled" → order_1234_status."""
    match = _STATE.search(sentence)
    words = _content(_WORD.findall(match["what"])) if match else []
    if not match or not words:
        return None
    key = key_of(" ".join(words)).removesuffix("status").strip("_")
    return Named(f"{key}_status".lstrip("_"), match["state"], "STATE", "", is_hard=False, is_equated=True)


def content_words(text: str) -> list[str]:
    """The first words of `text` that say what it is about, at most `LONGEST_NAME`."""
    words = [word for word in _WORD.findall(text) if word[0].isalnum() and word.casefold() not in _NO_NAMES]
    return words[:LONGEST_NAME]


@dataclass(frozen=True, slots=True)
class _Name:
    key: str
    place: str = ""
    """The preposition before the value."""
    limit: str = ""
    """The word before the value that makes it a limit."""
    is_equated: bool = False


def _name_before(text: str) -> _Name:
    """The name that the words at the end of `text` give to a value after them."""
    words = [word.casefold() for word in _WORD.findall(text[-REACH:])]
    if len(text) > REACH:
        words = words[1:]  # the first word may be cut in half
    place = limit = ""
    is_equated = False
    while words and (words[-1] in _LINKS or words[-1] in _PLACES or words[-1] in _LIMITS):
        word = words.pop()
        is_equated = is_equated or word in _EQUATES
        place = word if word in _PLACES else place
        limit = limit or (word if word in _LIMITS else "")
    return _Name(key_of(" ".join(_content(words))), place, limit, is_equated)


def _content(words: list[str]) -> list[str]:
    """The last words that can name a thing, at most `LONGEST_NAME`, without a verb after a pronoun or "to"."""
    found: list[str] = []
    stop = ""
    for word in reversed(words):
        if (not word[0].isalnum() and word[0] != "#") or word.casefold() in _NO_NAMES:
            stop = word.casefold()
            break
        found.insert(0, word)
    if stop in _AFTER_THESE_A_VERB and len(found) > 1:
        found = found[1:]
    return found[-LONGEST_NAME:]


def _named(key: str, span: str, name: _Name, *, hard: bool, sentence: str) -> Named:
    words = (f"at {name.limit}", name.limit, name.limit.capitalize()) if name.limit else ()
    limit = next((word for word in words if f"{word} {span}" in sentence), "")
    toward = name.place if name.place in ("from", "to") or not hard else ""
    full = key if name.is_equated or not toward else key_of(f"{key} {toward}")
    value = f"{limit} {span}" if limit else span
    category: Category = "CONDITION" if limit else _category(span, hard=hard)
    return Named(full, value, category, span, hard, name.is_equated)


def _category(span: str, *, hard: bool) -> Category:
    counts = any(kind.search(span) for kind in (_MONEY, _DATE, _TIME)) or _NUMBER.fullmatch(span)
    return "NUMERIC" if hard and counts else "ENTITY"


def _own_name(span: str, after: str, *, hard: bool) -> str:
    """A name for a value that the words before it do not name: its kind, its unit, or the word after it."""
    if not hard:
        return ""
    for kind, name in (
        (_ADDRESS, "link"),
        (_MAIL, "email"),
        (_MONEY, "amount"),
        (_DATE, "date"),
        (_TIME, "time"),
    ):
        if kind.search(span):
            return name
    unit = span.split(" ")[-1]
    if unit.isalpha() and unit != span:
        return key_of(unit)
    following = _FOLLOWING.match(after)
    if following and following[1].casefold() not in _NO_NAMES:
        return key_of(following[1])
    return "" if _NUMBER.fullmatch(span) else "id"
