"""Decide which later statement replaces an earlier one: the same subject, another value. Pure.

Only if that is certain: if both may hold, both stay. Words are compared as terms of `memory.recall.analysis`, so that
endings, accents and stop words do not count.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from memory.pins.statements import StatementKind
from memory.recall.analysis.terms import fold, terms

ALIKE = 0.5
"""Two instructions are about the same thing if they have this share of all their words in common."""
NAMED = 0.6
"""Share of the words naming what is taken back that a statement must contain to be meant."""


@dataclass(frozen=True, slots=True)
class Stated:
    """A statement to compare."""

    kind: StatementKind
    text: str


def replaces(later: Stated, earlier: Stated) -> bool:
    """Whether `earlier` no longer holds once `later` was said."""
    if fold(later.text) == fold(earlier.text):
        return True
    if {later.kind, earlier.kind} == {StatementKind.IDENTITY}:
        return bool(_subjects(later.text) & _subjects(earlier.text))
    if StatementKind.IDENTITY in (later.kind, earlier.kind):
        return False
    if _differ_in_a_value(later.text, earlier.text):
        return True
    new, old = _words(later.text), _words(earlier.text)
    if StatementKind.PREFERENCE in (later.kind, earlier.kind):
        return later.kind == earlier.kind and _prefers_the_other(later.text, earlier.text, new, old)
    common = new & old
    return bool(new) and (new == old or len(common) >= max(2, ALIKE * len(new | old)))


def taken_back(about: str, statements: Sequence[Stated]) -> list[int]:
    """The indexes of the `statements` that are taken back: those that contain most of the words of `about`."""
    wanted = _words(about)
    if not wanted:
        return []
    shares = [len(wanted & _words(one.text)) / len(wanted) for one in statements]
    return [at for at, share in enumerate(shares) if share >= NAMED]


def _words(text: str) -> frozenset[str]:
    return frozenset(terms(text)) - _SAYS_NOTHING


_SAYS_NOTHING = frozenset(
    term
    for word in (
        "always never ever please prefer preference preferred really usually generally now instead anymore longer"
        " more mine want "
        "like need use using used answer answers reply respond response responses stop stopped thing things make"
        " sure "
        "immer nie niemals bitte bevorzuge lieber nur noch mehr jetzt ab antworte antworten verwende nutze "
        "toujours jamais préfère plus maintenant partir réponds réponse utilise utiliser "
        "siempre nunca prefiero ahora partir adelante responde usa usar sempre mai preferisco ora poi rispondi usare "
        "prefiro agora responda use usar altijd nooit liever voortaan vanaf nu antwoord gebruik gebruiken "
        "zawsze nigdy wolę teraz odpowiadaj używaj używać всегда никогда предпочитаю отвечай используй"
        " использовать момента"
    ).split()
    for term in terms(word)
)
"""Words that belong to the form of a statement, not to its subject; as `terms` returns them."""


def _compiled(pattern: str) -> re.Pattern[str]:
    """Compile a pattern for folded text, in which Cyrillic letters have lost their accents, too."""
    return re.compile(pattern.replace("й", "и").replace("ё", "е"))


_SUBJECTS = {
    "name": r"\bname\b|\bcall me\b|\bgo by\b|called|heisse|nenn\w* mich|m'appelle|appelle\w?-moi|prenom|\bnom\b|"
    r"llamo|nombre|llam[ae]me|"
    r"chiamo|chiamami|chiamo|nome\b|naam|heet|noem|na imie|nazywam|nazywaj|mow (?:mi|do mnie)|зовут|имя|называи|"
    r"зови|\bi'?m \w+(?: \w+)?, an?\b",
    "pronouns": r"pronoun|pronom|pronombre|pronomi\b|voornaamwoord|zaimki",
    "birthday": r"birthday|date of birth|geburtstag|anniversaire|cumpleanos|compleanno|aniversario|verjaardag|"
    r"рождения",
    "zone": r"time ?zone|zeitzone|fuseau|zona horaria|fuso|tijdzone|strefa|пояс",
    "tongue": r"native language|mother tongue|first language|muttersprache|langue maternelle|lengua materna|"
    r"lingua madre|madrelingua|"
    r"lingua materna|moedertaal|ojczysty|роднои язык",
}
"""Patterns (folded) for the subject of a sentence about oneself. Of two with the same subject the later one holds."""
_SUBJECT_PATTERNS = {name: _compiled(pattern) for name, pattern in _SUBJECTS.items()}

_VALUES: dict[str, dict[str, str]] = {
    "units": {
        "metric": r"metri\w*|metryczn\w*|метрическ\w*|celsius|kilomet\w*|kilogram\w*|centimet\w*",
        "imperial": r"imperial\w*|imperiaux|fahrenheit|miles|pounds|inches|дюйм\w*|имперск\w*",
    },
    "language": {
        "english": r"english|englisch\w*|anglais|ingles|inglese|engels|angielsk\w*|английск\w*|по-английски",
        "german": r"german|deutsch\w*|allemand|aleman|tedesco|alemao|duits|niemieck\w*|немецк\w*|по-немецки",
        "french": r"french|franzosisch\w*|francais|frances|francese|frans|francusk\w*|французск\w*|по-французски",
        "spanish": r"spanish|spanisch\w*|espagnol|espanol|spagnolo|espanhol|spaans|hiszpansk\w*|испанск\w*|"
        r"по-испански",
        "italian": r"italian|italienisch\w*|italien|italiano|italiaans|wlosk\w*|итальянск\w*|по-итальянски",
        "portuguese": r"portuguese|portugiesisch\w*|portugais|portugues|portoghese|portugees|portugalsk\w*|"
        r"португальск\w*",
        "dutch": r"dutch|niederlandisch\w*|neerlandais|neerlandes|olandese|holandes|nederlands|niderlandzk\w*|"
        r"нидерландск\w*",
        "polish": r"polish|polnisch\w*|polonais|polaco|polacco|polones|pools|po polsku|polsk\w*|польск\w*",
        "russian": r"russian|russisch\w*|russe|ruso|russo|rosyjsk\w*|русск\w*|по-русски",
    },
    "length": {
        "short": r"short\w*|brief\w*|concise\w*|terse|kurz\w*|knapp\w*|court\w*|breve\w*|bref\w*|cort[ao]s?|"
        r"conciso|curt[ao]s?|kort\w*|krotk\w*|кратк\w*|коротк\w*",
        "long": r"long\w*|detailed|in detail|thorough\w*|verbose|ausfuhrlich\w*|detaillier\w*|detaille\w*|"
        r"detallad\w*|dettagliat\w*|detalhad\w*|uitgebreid\w*|szczegolow\w*|подробн\w*",
    },
    "tone": {
        "formal": r"formal\w*|formell\w*|formel\w*|formeel|sie(?=z)|siez\w*|vouvoie\w*|vouvoyez|formaln\w*|"
        r"официальн\w*",
        "informal": r"informal\w*|casual\w*|informell\w*|duz\w*|tutoie\w*|tutoyez|informel\w*|informeel|tutea\w*|"
        r"неформальн\w*",
    },
}
"""The alternatives that instructions choose between, with the (folded) words for each."""
_VALUE_PATTERNS = {
    subject: {value: _compiled(rf"\b(?:{pattern})\b") for value, pattern in values.items()}
    for subject, values in _VALUES.items()
}
_SCOPE = re.compile(
    r"\b(?:when|whenever|if|every time|wenn|quand|chaque fois|cuando|quando|als|wanneer|kiedy|gdy|когда|если)\b(.*)"
)


def _subjects(text: str) -> set[str]:
    folded = fold(text)
    return {name for name, pattern in _SUBJECT_PATTERNS.items() if pattern.search(folded)}


def _differ_in_a_value(later: str, earlier: str) -> bool:
    """Whether both choose a value of the same kind, but different ones, and for the same occasions."""
    new, old = fold(later), fold(earlier)
    for values in _VALUE_PATTERNS.values():
        now = {value for value, pattern in values.items() if pattern.search(new)}
        before = {value for value, pattern in values.items() if pattern.search(old)}
        if len(now) == 1 and len(before) == 1 and now != before and _scope(new) == _scope(old):
            return True
    return False


def _scope(folded: str) -> frozenset[str]:
    """The words that say on which occasions something holds; empty if it always does."""
    found = _SCOPE.search(folded)
    return _words(found[1]) if found else frozenset()


_OVER = re.compile(
    r"\b(?:prefer\w*|favou?r|prefiero|preferisco|prefiro|bevorzuge|prefere|wole|preferuje|предпочитаю)\s+(.+?)\s+"
    r"(?:over|to|rather than|instead of|than|vor|gegenuber|a|al|au|aux|rispetto a|niz|boven|чем)\s+(.+?)(?:[,.;!?]|"
    r"\s(?:due|because|since|as|for|when)\b|$)"
)
_CHANGED = re.compile(
    r"\b(?:now|these days|nowadays|changed my mind|no longer|any ?more|instead|actually|jetzt|inzwischen|"
    r"maintenant|desormais|ahora|"
    r"adesso|ormai|agora|nu|tegenwoordig|teraz|теперь|сеичас)\b"
)
"""Says that somebody changed their mind, folded."""


def _prefers_the_other(later: str, earlier: str, new: frozenset[str], old: frozenset[str]) -> bool:
    """Whether a preference is the reverse of the earlier one, or says that it has changed."""
    pairs = [_OVER.search(fold(text)) for text in (later, earlier)]
    if pairs[0] and pairs[1]:
        (a, b), (c, d) = ((_words(pair[1]), _words(pair[2])) for pair in pairs if pair)
        if a and b and a == d and b == c:
            return True
    common = new & old
    return (
        bool(common) and bool(_CHANGED.search(fold(later))) and len(common) >= ALIKE * min(len(new), len(old))
    )
