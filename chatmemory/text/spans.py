"""Spans: numbers, ids, addresses and names in a text, and which of them another text, such as a summary, kept or lost.

A heuristic, not a parser. Its time is linear for any text: words are split once, each is examined a fixed number of
times, and no pattern here can backtrack over more than one word. It knows a few English words, does not judge the
meaning of a text, and asks no model.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

LONGEST_WORD = 100
"""Longer words (lists without spaces, encoded data) are cut at their punctuation; addresses are not."""
LONGEST_ADDRESS = 500
LONGEST_NAME = 6
LONGEST_NUMBER = 5
"""Maximum words of one name, and of one number with its unit or date."""

_TOKEN = re.compile(r"\n|[^\s()\[\]{}<>|;=*`\"“”„«»…—•、。，！？：；（）「」『』《》]+|[^\s]")
_BREAKS = frozenset('\n()[]{}<>|;=*`"“”„«»…—•、。，！？：；（）「」『』《》')
_OPENS_SENTENCE = frozenset('\n*•"“„«。！？')
_TRIM = "'‘’.,:!?~-–"
_HARD = re.compile(r"[\d@_/\\#]|[^\W\d_]{2}\.[^\W\d_]{2}")
_DIGIT = re.compile(r"\d")
_FILE = re.compile(r"\w[\w-]*(?:\.[\w-]+)*\.[a-z]{2,6}")
CUTS = re.compile(r"[,:/\\|&?.!]+")
CJK = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_LATIN_RUN = re.compile(r"[A-Za-z0-9$€£¥][A-Za-z0-9.,:/_@%+-]*")
_YEAR = re.compile(r"(?:19|20)\d\d")
_LETTER = re.compile(r"\w")
POSSESSIVE = re.compile(r"['’]s\b")

_CURRENCIES = frozenset("$ € £ ¥ ₹ usd eur gbp chf jpy inr cad aud".split())
_MONTHS = frozenset(
    """
    january february march april may june july august september october november december
    jan feb mar apr jun jul aug sep sept oct nov dec
    """.split()
)
_UNITS = _CURRENCIES | frozenset(
    """
    % percent dollars dollar euros euro pounds cents am pm a.m p.m kg g mg lb lbs oz km m cm mm mi mile miles ml l
    liter liters litre litres ms s sec seconds second min mins minute minutes h hr hrs hour hours day days night
    nights week weeks month months year years kb mb gb tb tokens times people points degrees °c °f
    """.split()
)
_CONNECTORS = frozenset("of de del della di da do dos das du des van von der den la le al bin ibn ter y".split())
COMMON_WORDS = frozenset(
    """
    i i'm i'll i've i'd i’m i’ll i’ve i’d a about additionally after all also although an and another any anyway
    are as at based because before both but by can could dear despite did do does during each either else every
    finally first for from given good great had has have he hello her here hey hi his how however if in instead is
    it it's it’s its just last lastly let let's like may maybe me might more moreover most my next no none not
    note now of oh ok okay on once one only or other otherwise our perfect please regarding right second see
    several shall she should since so some sorry still such sure thank thanks that that's the their them then
    there therefore these they third this those though thus to today together tomorrow unfortunately until upon us
    was we we'll well were what what's when where whether which while who whose why will with would yes yesterday
    yet you you're you'll you've your yours
    """.split()
)
"""Words that are never a name on their own."""
LIST_CAP = 200
"""Maximum number of spans that are stored as kept, and as lost; the share counts them all."""
LONGEST_KEY = 8
"""Maximum number of a span's words that are compared."""

_KEY = re.compile(r"\w+(?:[.,:/@+'’-]\w+)*")
_PART = re.compile(r"[^\W_]+")
_GROUPING = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")


def scan(text: str) -> list[tuple[str, bool]]:
    """Find the spans of `text` in order, distinct ignoring case, and whether each is hard: a number, id or address."""
    return _Finder(text).spans()


class _Finder:
    """The state of one pass over the words of a text."""

    def __init__(self, text: str) -> None:
        self.words: list[str] = _TOKEN.findall(text)
        self.at = 0
        self.opening = True
        """Whether the next word begins a sentence or a line, where a capital means nothing."""
        self.found: dict[str, tuple[str, bool]] = {}
        self.doubtful: set[str] = set()
        """Keys of names seen only where any word has a capital."""

    def spans(self) -> list[tuple[str, bool]]:
        while self.at < len(self.words):
            word = self.words[self.at]
            if word.islower() and word.isalpha():
                self.opening = False
                self.at += 1
            elif word in _BREAKS:
                self.opening = self.opening or word in _OPENS_SENTENCE
                self.at += 1
            else:
                self._look(word)
        parts = {part for key in self.found if key not in self.doubtful for part in key.split()}
        return [span for key, span in self.found.items() if key not in self.doubtful or key in parts]

    def _look(self, word: str) -> None:
        core = word.strip(_TRIM)
        if len(core) > LONGEST_WORD or CJK.search(core):
            self._take_pieces(core)
        elif _DIGIT.search(core):
            self._take_number(word, core)
        elif _HARD.search(core):
            self._take_address(core)
        elif core != core.lower():
            self._take_name(core)
        else:
            self.at += 1
        if core.strip("#"):
            self.opening = self.words[self.at - 1][-1] in ".!?"

    def _take_pieces(self, core: str) -> None:
        """Add the parts of words without spaces between that contain a digit or an address; ignore the rest."""
        self.at += 1
        if "://" in core and len(core) <= LONGEST_ADDRESS:
            self._add(core, hard=True)
            return
        pieces = _LATIN_RUN.findall(core) if CJK.search(core) else CUTS.split(core)
        for piece in pieces:
            trimmed = piece.strip(_TRIM)
            if len(trimmed) <= LONGEST_WORD and _HARD.search(trimmed):
                self._add(trimmed, hard=True)

    def _take_number(self, word: str, core: str) -> None:
        if self.opening and word[-1] == "." and len(core) <= 2:
            self.at += 1  # the number of a list item
            return
        before = self.words[self.at - 1] if self.at else ""
        parts = [before, core] if before.casefold() in _CURRENCIES | _MONTHS else [core]
        self.at += 1
        while self.at < len(self.words) and len(parts) < LONGEST_NUMBER:
            after = self.words[self.at].rstrip(_TRIM)
            if not _joins(parts, self.words[self.at - 1][-1], after.casefold()):
                break
            if self.words[self.at - 1][-1] == ",":
                parts[-1] += ","
            parts.append(after)
            self.at += 1
        self._add(" ".join(parts), hard=True)

    def _take_address(self, core: str) -> None:
        self.at += 1
        path = core[0] in "/\\" or core.count("/") > 1 or "\\" in core
        if path or "@" in core or "_" in core.strip("_") or _FILE.fullmatch(core):
            self._add(core, hard=True)
        elif "/" in core:
            for piece in core.split("/"):
                if piece[:1].isupper() and piece.casefold() not in COMMON_WORDS:
                    self._add(piece, hard=False)

    def _take_name(self, core: str) -> None:
        words = self.words
        self.at += 1
        if core.casefold() in COMMON_WORDS:
            return
        parts = [POSSESSIVE.sub("", core)]
        while len(parts) < LONGEST_NAME and words[self.at - 1] == parts[-1]:
            # The next word belongs to the name if it has a capital, or is a connector before one that has.
            ahead = [word.strip(_TRIM) for word in words[self.at : self.at + 2]]
            if ahead and _is_name(ahead[0]):
                more = ahead[:1]
            elif len(ahead) == 2 and words[self.at] in _CONNECTORS and _is_name(ahead[1]):
                more = ahead
            else:
                break
            parts += [POSSESSIVE.sub("", part) for part in more]
            self.at += len(more)
        is_month = len(parts) == 1 and core.casefold() in _MONTHS
        if is_month and self.at < len(words) and words[self.at][0].isdigit():
            return  # it becomes part of the number
        label = words[self.at - 1][-1] == ":"
        plain = len(parts) == 1 and core[1:] == core[1:].lower()
        self._add(" ".join(parts), hard=False, doubtful=self.opening and (plain or label))

    def _add(self, span: str, *, hard: bool, doubtful: bool = False) -> None:
        key = span.casefold()
        if key not in self.found and _LETTER.search(span):
            self.found[key] = (span, hard)
            if doubtful:
                self.doubtful.add(key)
        elif not doubtful:
            self.doubtful.discard(key)


def _is_name(core: str) -> bool:
    return core[:1].isupper() and core.casefold() not in COMMON_WORDS and not _HARD.search(core)


def _joins(parts: list[str], stop: str, after: str) -> bool:
    """Whether the word `after` belongs to the number before it: a unit, a month, the year of a date."""
    if stop in ".!?:":
        return False
    if _YEAR.fullmatch(after) and any(part.casefold() in _MONTHS for part in parts):
        return True
    return stop != "," and (after in _UNITS or after in _MONTHS)


def spans(text: str) -> list[str]:
    """The salient spans of `text` in order of appearance, distinct ignoring case."""
    return [span for span, _ in scan(text)]


def is_hard(span: str) -> bool:
    """Whether a span is a number, an id or an address, and no name."""
    return _HARD.search(span) is not None


class SpanIndex:
    """The words of a text, indexed to look up many spans: as whole words, in sequence, ignoring case."""

    def __init__(self, text: str) -> None:
        words = _words(text)
        lengths = range(1, LONGEST_KEY + 1)
        self._runs = {words[at : at + length] for length in lengths for at in range(len(words) - length + 1)}
        # "HAT062/HAT039" contains both ids, but "2024-05-12" contains no 12.
        parts = (part for word in words if not word.isalnum() for part in _PART.findall(word))
        self._runs.update((part,) for part in parts if not part.isdigit())

    def __contains__(self, span: str) -> bool:
        return _words(span)[:LONGEST_KEY] in self._runs


@dataclass(frozen=True, slots=True)
class Retained:
    """Which salient spans of some sources are in a summary. A span counts once in each source that has it."""

    kept: list[str]
    lost: list[str]
    share: float
    """Kept spans divided by all, 0 to 1; 1.0 if there are none."""

    @property
    def listed(self) -> dict[str, Any]:
        """As stored with a revision."""
        return {"kept": self.kept[:LIST_CAP], "lost": self.lost[:LIST_CAP], "share": self.share}


def retained(sources: Iterable[str], summary: SpanIndex) -> Retained:
    """Compare `sources`, which are read one by one, with a summary."""
    kept, lost = dict[str, str](), dict[str, str]()
    kept_count = all_count = 0
    for source in sources:
        for span in spans(source):
            is_kept = span in summary
            (kept if is_kept else lost)[span.casefold()] = span
            kept_count += is_kept
            all_count += 1
    return Retained([*kept.values()], [*lost.values()], kept_count / all_count if all_count else 1.0)


def _words(text: str) -> tuple[str, ...]:
    """The words of a text in normalized form: without case, possessives and thousands separators."""
    plain = POSSESSIVE.sub("", _GROUPING.sub("", CJK.sub(" ", text.casefold())))
    words: list[str] = []
    for word in _KEY.findall(plain):
        words += [word] if len(word) <= LONGEST_WORD else CUTS.split(word)
    return tuple(words)
