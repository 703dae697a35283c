"""Analyse text into the terms by which it can be found, divide it into passages, and find terms in it again. Pure.

A term is a word without case, accents and ending; a number, id, date, path or address as a whole, and its parts; two
neighbouring characters of a script without spaces. Texts and questions are analysed alike, so a rule that is wrong for
a language costs precision, but never a match. Dates match across spellings: `2024-05-03`, `May 3rd, 2024`, `3.5.2024`
(read both ways).

The index stores terms as hashes (`stored_terms`), one line per passage, each once. The same term of two owners has two
hashes, and the index adds the key of a chat (`memory.recall.index`). A hash hides nothing from anyone who has the
messages; it keeps their words out of files that a deletion reaches late.
"""

import hashlib
import re
from calendar import monthrange
from collections.abc import Iterable, Iterator, Set
from datetime import date
from functools import lru_cache
from math import exp, inf
from typing import NamedTuple

from chatmemory.text.cleaning import normalized

PASSAGE_CHARS, DENSE_PASSAGE_CHARS = 250, 100
"""About 60 tokens of a language with spaces, and of one without."""
EARLIER = 1.6
"""How much longer the passages of messages are that were stored before 29 November 2026."""
LONGEST_TERM = 64
"""Longer words (encoded data) are cut to this many characters."""

_MARKS = "\u0900-\u0963\u0966-\u0dff"
"""Vowel signs of Indian scripts: parts of words, although Python does not class them as word characters."""
UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\U00020000-\U0003ffff"
)
"""Scripts that are searched by pairs of characters: Thai, Lao, Burmese, Khmer, Chinese, Japanese, Korean."""

_WORD = re.compile(rf"[\w{_MARKS}](?:[\w{_MARKS}.,:/\\@+'’&=~#%-]*[\w{_MARKS}])?[%°]?")
_PART = re.compile(rf"[^\W_]+[{_MARKS}\w]*?(?=_|[^\w{_MARKS}]|$)|[{_MARKS}]+")
_UNSPACED_RUN = re.compile(rf"[{UNSPACED}]+")
_ACCENTS = re.compile("[\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u0670\u0640]+")
_SUFFIX = re.compile(r"['’](?:s|t|re|ve|m|ll|d)\b")
_GROUPING = re.compile(r"(?<=\d)[,'’](?=\d{3}(?!\d))")
_BETWEEN = re.compile(r"[/\\]+")
_AMOUNT = re.compile(r"\d+(?:[.,]\d+)*%?")
_STOP = re.compile(r"(?<=[.!?…])[\"'”’)\]]?\s+|(?<=[。！？])|\n+")


_OURS = re.compile(
    r"\ACalled (?=[\w.-]{1,128}\()|\A\(No output: the conversation went on without it\.\)"
    r"|\[(?:image|file): (?:(?:\d{1,9}×\d{1,9} )?(?:PNG|JPEG|GIF|WebP)(?=, \d))?|, \d{1,9}(?:\.\d)? (?:B|kB|MB)\]"
)
"""Words of the server's own in messages: of a tool's call, of its missing output, and of marks of images and files."""


def terms(text: str) -> list[str]:
    """Return the terms of `text` in order, with repetitions. Words of the server's own are none."""
    folded = fold(_OURS.sub(" ", text))
    return [*_in_order(folded), *date_terms(folded)]


def passages(text: str, stored: int = 0) -> list[tuple[int, int]]:
    """Divide `text` into pieces of about 60 tokens, as spans of characters without gaps; [] if it is empty.

    `stored` is the number of pieces that the index has of it, which may be earlier, longer ones.
    """
    sample = text[:1000]
    dense = sum(map(len, _UNSPACED_RUN.findall(sample))) * 3 > len(sample)
    size = DENSE_PASSAGE_CHARS if dense else PASSAGE_CHARS
    spans = split_text(text, size)
    if stored and stored != len(spans) and len(earlier := split_text(text, int(size * EARLIER))) == stored:
        return earlier
    return spans


def split_text(text: str, size: int) -> list[tuple[int, int]]:
    """Divide `text` into pieces of about `size` characters, if possible where a sentence or a line ends."""
    spans: list[tuple[int, int]] = []
    start = 0
    while len(text) - start > size * 3 // 2:
        end = _cut(text, start, size)
        spans.append((start, end))
        start = end
    return [*spans, (start, len(text))] if text else []


def fold(text: str) -> str:
    """Return `text` without case, accents, possessives, thousands separators and differences of width."""
    if not text.isascii():
        text = normalized("NFKC", text.translate(_LOWER_EXCEPTIONS)).casefold()
        if not text.isascii():
            stripped = _ACCENTS.sub("", normalized("NFD", text))
            text = normalized("NFC", stripped)
    else:
        text = text.lower()
    return _GROUPING.sub("", _SUFFIX.sub("", text))


_LOWER_EXCEPTIONS = str.maketrans({"İ": "i", "ı": "i", "ё": "е", "Ё": "Е"})
"""Letters that `casefold` and the removal of accents would leave in two forms."""


def _cut(text: str, start: int, size: int) -> int:
    """The end of a passage that begins at `start`: after a sentence or a line, else after a word, else anywhere."""
    low, high = start + size * 2 // 3, start + size * 4 // 3
    best = 0
    for stop in _STOP.finditer(text, low, high):
        if not best or abs(stop.end() - start - size) < abs(best - start - size):
            best = stop.end()
    if best:
        return best
    space = text.rfind(" ", low, high)
    return space + 1 if space > 0 else start + size


def _in_order(folded: str) -> Iterator[str]:
    for word in _WORD.findall(folded):
        if word.isalpha() and word.isascii():
            if term := _plain(word):
                yield term
        elif not word.isascii() and _UNSPACED_RUN.search(word):
            yield from _unspaced(word)
        else:
            yield from _compound(word)


@lru_cache(maxsize=20_000)
def _plain(word: str) -> str:
    """The term of a word of unaccented letters; "" for a stop word."""
    return "" if len(word) == 1 or word in STOP_WORDS else stem(word)[:LONGEST_TERM]


def _compound(word: str) -> Iterator[str]:
    """Yield the terms of a word that contains other characters than letters: as a whole, and its parts."""
    parts = _PART.findall(word)
    if len(parts) > 1 or not parts:
        yield word[:LONGEST_TERM]
        if _AMOUNT.fullmatch(word):
            return
        if "/" in word or "\\" in word:
            yield from (piece[:LONGEST_TERM] for piece in _BETWEEN.split(word) if not piece.isalnum() and piece)
    for part in parts:
        if len(part) > 1 or part.isdigit():
            if part.isalpha() or not part.isalnum():
                part = "" if part in STOP_WORDS else stem(part)
            if part:
                yield part[:LONGEST_TERM]


def _unspaced(word: str) -> Iterator[str]:
    """Yield pairs of characters of each run without spaces, or its only character; the rest of the word as words."""
    at = 0
    for run in _UNSPACED_RUN.finditer(word):
        yield from _in_order(word[at : run.start()])
        chars = run[0]
        if len(chars) == 1:
            yield chars
        yield from (chars[i : i + 2] for i in range(len(chars) - 1))
        at = run.end()
    yield from _in_order(word[at:])


STOP_WORDS = frozenset(
    """
a about after again all also am an and any are as at be because been before being but by can could did do does doing
done down for from had has have having he her here hers him his how i if in into is it its just let may me might mine
more most must my no nor not now of off ok okay on once only or other our ours out over own please said same shall she
should so some such sure tell than thank thanks that the their theirs them then there these they this those through to
too under until up us very was we were what when where which while who whom whose why will with would yes you your yours
hello hi hey yeah yep oh well please get got know

aber als am an auch auf aus bei bin bis bist da damit dann das dass dem den der des dich die dies diese dieser dir doch
du ein eine einem einen einer eines er es euch fur habe haben hatte ich ihm ihn ihr im ist ja kann mein meine meinem
meinen meiner mich mir mit nach nein nicht noch nur ob oder schon sein seine sich sie sind so und uns unser von vor
waren was wann warum weil welche welchen welcher welches wem wen wenn wer wie wir wird wo wurde zu zum zur bitte danke

au aux avec avez avons bonjour ce ces cet cette dans de des donc du elle elles en est et etait ete il ils je la le
les leur lui ma mais me mes merci moi mon ne nos notre nous on ont ou par pas pour qu que quel quelle quels quelles
qui sa sans se ses si sont suis sur ta te tes toi ton tu un une vos votre vous

al como con cual cuales cuando de del donde el ella ellos en es esa ese eso esta estaba este esto fue gracias ha han
he hola la las le les lo los mas me mi mis muy nos o para pero por porque que quien se si sobre soy su sus
tambien te tengo tiene tu tus un una y ya yo

che chi ci ciao come con cosa cui da dal dalla dei del della delle di dove e ed gli grazie ha hanno ho i il in la
le lei lo lui ma mi mia mio ne nel nella non o per piu qual quale quali quando quello questa questo se si sono su sul ti
tu un una uno

ao aos as com como da das de do dos e ela ele em essa esse esta este eu foi isso ja mais mas me meu minha na nao nas
no nos o obrigado onde ou para pela pelo por porque qual quais quando que quem se sem ser seu sua tem um uma voce

aan als bij dan dat de den der deze dit een en er had heb hebben heeft het hij hoe ik in is je jij kan maar me met
mij mijn naar niet nog of om onze ook op te tot uit veel voor waar wanneer was wat we wel welke werd wie wij zijn zo

а бы был была были было в вам вас ваш вы где да для до его ее если есть еще же за и из или им их к как какая какие какой
каком когда кто ли меня мне мой моя мое мои мы на нам нас наш не нет но о об он она они оно от по при с со спасибо так
там то тоже только ты у уже что чтобы это этот эта эти я
""".split()
)
"""Folded (without case and accents): English, German, French, Spanish, Italian, Portuguese, Dutch, Russian."""

_LONG = 5
"""Letters that a word must have to lose -ies; two more to lose -ly, one less to lose a plural -s or a final e."""
_VOWEL = re.compile("[aeiouy]")
_CYRILLIC_END = re.compile(
    "(?:иями|ями|ами|ого|его|ому|ему|ыми|ими|иях|ях|ах|ов|ев|еи|ом|ем|ам|ям|ою|ею|ии|ои|ыи|ая|яя|ое|ее|ые|ие|ую|юю|ых"
    "|их|ым|им|ия|ию|ье|ья|ью|[аеиоуыьюя])$"
)
_ARABIC_START = re.compile("^(?:وال|بال|كال|فال|لل|ال)")
_ARABIC_END = re.compile("(?:ات|ون|ين|ية|ه|ة|ي)$")


def stem(word: str) -> str:
    """The common stem of the forms of `word` (folded, letters only); `word` itself if no rule is safe."""
    if word.isascii():
        return _ascii_stem(word)
    first = word[0]
    if "\u0400" <= first <= "\u04ff":
        return _shortened(_CYRILLIC_END, word)
    if "\u0600" <= first <= "\u06ff":
        return _shortened(_ARABIC_END, _shortened(_ARABIC_START, word, 3), 3)
    return word


def _ascii_stem(word: str) -> str:
    """Remove plural, -ly, -ing, -ed and a final e: the commonest English endings, which are safe in other languages."""
    if len(word) < _LONG - 1 or not word.isalpha():
        return word
    if word.endswith("ies") and len(word) >= _LONG:
        return word[:-3] + "y"
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    word = word.removesuffix("ly") if len(word) > _LONG + 1 else word
    for ending in ("ing", "ed"):
        rest = word.removesuffix(ending)
        if rest != word and len(rest) >= 3 and _VOWEL.search(rest):
            word = rest
            break
    if len(word) >= _LONG - 1 and word.endswith("e"):
        word = word[:-1]
    return word[:-1] if len(word) > 3 and word[-1] == word[-2] else word


def _shortened(pattern: re.Pattern[str], word: str, at_least: int = 4) -> str:
    """Remove what `pattern` matches if at least `at_least` letters remain."""
    rest = pattern.sub("", word, count=1)
    return rest if len(rest) >= at_least else word


HASH_BYTES = 4
"""Bytes of a hash. Of 100,000 words of one owner, about one pair collides; a match is one of many words."""
MOST_TERMS = 30_000
"""Maximum number of terms of one message: about 200,000 characters. A database limits the size of an index entry."""


def stored_terms(text: str, owner_id: int) -> str:
    """Return the text that the index stores for a message; "" if it has no terms."""
    lines: list[str] = []
    left = MOST_TERMS
    for start, end in passages(text):
        found = list(dict.fromkeys(hashed(term, owner_id) for term in terms(text[start:end])))
        if len(found) > left:
            break
        left -= len(found)
        lines.append(" ".join(found))
    return "\n".join(lines) if any(lines) else ""


@lru_cache(maxsize=50_000)
def hashed(term: str, owner_id: int) -> str:
    """Hash a term as it is stored for that owner."""
    key = owner_id.to_bytes(8, "big", signed=True)
    return hashlib.blake2b(term.encode("utf-8", "replace"), digest_size=HASH_BYTES, key=key).hexdigest()


_PIECE = re.compile(rf"[{UNSPACED}]+|[^\s{UNSPACED}]+")
_LETTERS = re.compile(r"[\w%°].*[\w%°]|[\w%°]", re.DOTALL)


def highlights(text: str, words: Set[str]) -> list[tuple[int, int]]:
    """Return the ranges of `text` whose terms are among `words`, in order, not touching each other."""
    ranges: list[tuple[int, int]] = []
    for piece in _PIECE.finditer(text):
        core = _LETTERS.search(piece[0])
        spans = [core.span()] if core else []
        if _UNSPACED_RUN.match(piece[0]):
            width = min(2, len(piece[0]))
            spans = [(at, at + width) for at in range(len(piece[0]) - width + 1)]
        for start, end in ((piece.start() + start, piece.start() + end) for start, end in spans):
            if words.isdisjoint(terms(text[start:end])):
                continue
            if ranges and start <= ranges[-1][1]:
                ranges[-1] = (ranges[-1][0], end)
            else:
                ranges.append((start, end))
    return ranges


_MONTH_NAMES = "january february march april may june july august september october november december".split()
_MONTHS = {"sept": 9} | {form: number for number, name in enumerate(_MONTH_NAMES, start=1) for form in (name, name[:3])}
_NAME = "|".join(sorted(_MONTHS, key=len, reverse=True))
_DIGIT = re.compile(r"\d")
_NUMERIC = re.compile(r"\d[-/.年月월]\s?\d")
_BEGINNINGS = tuple({name[:3] for name in _MONTHS})
# Each begins with a class of one character, which the search finds in C (measured: a third of the time); what may not
# precede it is tested after it.
_ISO = re.compile(r"(\d(?<!\w\d)\d{3})[-/.](\d{1,2})[-/.](\d{1,2})(?!\d)")
_SHORT = re.compile(r"(\d(?<![\d./-]\d)\d?)[-/.](\d{1,2})[-/.](\d{4}|\d{2})(?![\d]|[./-]\d)")
_CHINESE = re.compile(r"(?:(\d{4})\s?[年년]\s?)?(\d{1,2})\s?[月월]\s?(\d{1,2})\s?[日号일]")
_NAMED = re.compile(rf"({_NAME})\.? (\d{{1,2}})(?:st|nd|rd|th)?\b(?:,? (\d{{4}})\b)?")
_NAMED_AFTER = re.compile(rf"(\d\d?)(?:st|nd|rd|th)?(?: of)? ({_NAME})\b\.?(?:,? (\d{{4}})\b)?")
_MONTH = re.compile(
    rf"\b(?:in|of|during|since|until|by|last|this|early|mid|late) ({_NAME})\b(?:,? (?:of )?(\d{{4}})\b)?(?! \d)"
    rf"|\b({_NAME}),? (\d{{4}})\b"
)
"""Months without a day. May and march are months only if a word before them or a year after them says so."""


class Time(NamedTuple):
    """A day or a month that is named. `year` 0: of any year; `day` 0: the whole month."""

    year: int
    month: int
    day: int = 0

    def span(self, year: int) -> tuple[date, date] | None:
        """Its first and its last day in that year; None if there is no such day."""
        try:
            first = date(year, self.month, self.day or 1)
        except ValueError:
            return None
        return first, first if self.day else first.replace(day=monthrange(year, self.month)[1])


def times(folded: str) -> tuple[Time, ...]:
    """The days named in `folded`; if there are none, the months."""
    if days := tuple(one for day in _days(folded) if (one := Time(*day)).span(one.year or _LEAP)):
        return days
    found = _MONTH.findall(folded)
    return tuple(Time(int(one or other or 0), _MONTHS[name or again]) for name, one, again, other in found)


_LEAP = 2024
"""A year that has every day."""


def closeness(sent: str, times: Iterable[Time], within: float) -> float:
    """How close the day `sent` (2024-05-03) is to the nearest of `times`, from 0 to 1.

    It is 1 on that day or in that month, and about a third `within` days before or after.
    """
    day = date.fromisoformat(sent)
    return exp(-min([_days_between(day, one) for one in times]) / within)


def _days_between(day: date, time: Time) -> float:
    """Days from `day` to the day or month `time`, 0 within it; if that has no year, to the nearest one."""
    years = (time.year,) if time.year else (day.year - 1, day.year, day.year + 1)
    spans = [span for year in years if (span := time.span(year))]
    return min([max((first - day).days, (day - last).days, 0) for first, last in spans], default=inf)


def date_terms(folded: str) -> list[str]:
    """A term for each day named in `folded`, and another one with its year if the year is named."""
    if not _DIGIT.search(folded):
        return []
    found = [day for day in _days(folded) if 1 <= day[1] <= 12 and 1 <= day[2] <= 31]
    known = [f"@{month:02}-{day:02}" for _, month, day in found]
    return list(dict.fromkeys([*known, *(f"@{y}-{m:02}-{d:02}" for y, m, d in found if y)]))


def _days(folded: str) -> Iterator[tuple[int, int, int]]:
    """Yield year, month and day of what looks like a date, the year 0 if none is named."""
    if _NUMERIC.search(folded):
        for year, month, day in _ISO.findall(folded):
            yield int(year), int(month), int(day)
        for one, other, year in _SHORT.findall(folded):
            whole = int(year) if len(year) == 4 else 2000 + int(year)
            yield whole, int(one), int(other)
            yield whole, int(other), int(one)
        if "月" in folded or "월" in folded:
            for year, month, day in _CHINESE.findall(folded):
                yield int(year or 0), int(month), int(day)
    if any(beginning in folded for beginning in _BEGINNINGS):
        for name, day, year in _NAMED.findall(folded):
            yield int(year or 0), _MONTHS[name], int(day)
        for day, name, year in _NAMED_AFTER.findall(folded):
            yield int(year or 0), _MONTHS[name], int(day)
