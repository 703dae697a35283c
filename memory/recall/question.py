"""Parse a question into what to search for: terms, which are neighbours, its form, and the time it asks about. Pure.

The form (a question, a reference to the past) is classified by wordings, in the languages listed here. In any other
language than English, a question mark makes a question. `memory.recall.ranking` decides what follows from the form.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from memory.recall.terms import Time, fold, hashed, terms, times

READ_CHARS = 600
"""Characters that are read at either end of a message."""


def _compiled(pattern: str) -> re.Pattern[str]:
    """Compile `pattern`, folded like the texts it is matched with."""
    return re.compile(fold(pattern))


_SENTENCE = re.compile(
    r"(?:[^.!?。！؟\n]|\.(?=\w)|(?<=\b[^\W\d_])\.|(?<=\bdr)\.|(?<=\bmr)\.|(?<=\bms)\.|(?<=\bmrs)\.|(?<=\bst)\.)+[.!?。！؟]?"
)
_ENGLISH = re.compile(
    r"\b(?:the|are|you|it|this|that|there|my|your|they|can|could|would|should|does|did|have|any|some|and|what|how"
    r"|who|which|why|when|where|or|with|about|all)\b"
)
"""Words of almost every English message that asks, and of few in another language."""

_ASKS = _compiled(r"(?:^|[,:;–—-]\s)[^\w]{0,20}(?:[^\s,]+\s+){0,2}?(?:who|whom|whose|what|when|where|which|why|how)\b")
"""An interrogative at the beginning of a clause, or a few words after it ("By the way, in which …")."""
_ASKS_UNMARKED = _compiled(
    r"^(?:how (?:many|much|long|old|often)|(?:what|who|where|when) (?:is|was|are|were|did|do|does|will))\b[^.!]*$"
)
"""Wordings that can only be a question, even without a question mark."""
_ASKS_ANYWHERE = _compiled(
    r"什么|甚么|谁|哪|几[个点]|多少|怎么|为什么|何[がをはに時処]|誰|いつ|どこ|どの|どう|なぜ|いくつ|いくら|누구|무엇|뭐|언제|어디|왜|어떻게|몇|얼마"
    r"|(?:^|\s)(?:متى|أين|ماذا|كيف|لماذا|كم|ما هو|ما هي)\b"
)
_ASKS_YES_OR_NO = _compiled(
    r"^(?:so |and |but )?(?:(?:did|was|were|had)(?:n't)?\b|are there any\b|(?:have|has)(?:n't)? (?:\w+ ){1,3}?ever\b"
    r"|(?:(?:do|does|has|have|is|are|am)(?:n't)?|(?:will|would|can|could|should)(?:n't)?(?=\s+(?!i\b|we\b|they\b)))\s+"
    r"(?!you\b|there\b|it\b|this\b|that\b|these\b|those\b|the\b|an?\b|any|some|every)\w).*\?$"
)
"""Yes-or-no questions about the past, about what there is, or about people, as opposed to requests to the reader and
questions about the present."""
_FORGOT = _compiled(
    r"\bi (?:do not|don't|cannot|can't|could not|couldn't) (?:\w+ )?(?:remember|recall)\b"
    r"|\bi(?:'ve| have| keep)? (?:forgot|forget|forgotten|forgetting) (?:my|our|what|when|where|which|who|how)\b"
    r"|\b(?:erinnere mich nicht|mich nicht (?:mehr )?erinnern|weiß nicht mehr|weiß ich nicht mehr"
    r"|ne (?:me souviens|me rappelle) (?:pas|plus)|no (?:me acuerdo|recuerdo)|non (?:mi )?ricordo|não (?:me )?lembro"
    r"|(?:weet|herinner) (?:ik )?(?:\w+ )?niet meer|nie pamiętam|не помню)\b"
    r"|不记得|記得不|忘了|覚えてい?な|기억이 안|기억나지 않|لا أتذكر"
)
_TELLS = _compiled(
    r"(?:^[^\w]*|[,:;–—-]\s|\band )(?:(?:ok|okay|hi|hello|hey|so|and|then|now|just|also|please"
    r"|(?:can|could|will|would) you|kannst du|konnen sie|bitte|peux-tu|pouvez-vous"
    r"|puedes|puede|por favor|puoi|puo|pode|kun je|пожалуйста)[\s,]{1,3}){0,4}"
    r"(?:tell me|give me|show me|remind me|(?:recall|look up) (?:my|our)|walk me through|list|recap|summari[sz]e"
    r"|explain|describe"
    r"|where were we|suggest|recommend|help me (?:understand|learn|figure|decide|choose|plan|prepare|solve|prove|write)"
    r"|zeig\w* mir|nenn\w* mir|sag\w* mir|erinner\w* mich|fass\w* zusammen|dis-moi|donne-moi|montre-moi"
    r"|rappelle-moi|resume[zs]|dime|dame|muestrame|recuerdame|dimmi|dammi|mostrami|ricordami|riassum\w*|diga-me"
    r"|me (?:diga|mostre|lembre)|vertel|geef me|powiedz|podaj|przypomnij|podsumuj|скажи\w*|покажи\w*|расскажи\w*"
    r"|напомни\w*|перечисли\w*)\b"
    r"|告诉我|提醒我|列出|总结|教えて|まとめて|알려|요약|أخبرني|ذكرني|لخص"
)
"""Requests to be told something, or for advice: they ask as a question does. Help to do something is an order."""
_REFERS_BACK = _compiled(
    r"\b(?:earlier (?:i|you|we|today|in)|previously|last time (?:i|you|we)|the other day|remind me"
    r"|(?:do|can) you (?:still )?(?:remember|recall)|as (?:i|you|we) (?:said|discussed|agreed|mentioned)"
    r"|(?:what|which|that|like|as) (?:i|you|we) (?:\w+ )?(?:told|said|mentioned|suggested|recommended|discussed|agreed)"
    r"|i (?:already |have |'ve )*(?:told|mentioned|shared|gave) (?:you|it|that|this)|we (?:talked|spoke) about"
    r"|vorhin|letztes mal|neulich|erinnerst|erinnern sie|wie (?:ich|du|wir) \w*(?:gesagt|besprochen|vereinbart)\w*"
    r"|tout a l'heure|la derniere fois|rappelle\w*-moi|rappelez-moi|tu te souviens|vous vous souvenez|avons parle"
    r"|la ultima vez|recuerdas|recuerdame|como (?:te )?dije|hablamos|acordamos|quedamos"
    r"|l'ultima volta|ti ricordi|ricordami|abbiamo parlato|come ho detto|da ultima vez|lembras|voce lembra|falamos"
    r"|vorige keer|weet je nog|herinner je|zoals (?:ik|je) zei|poprzednio|pamietasz|przypomnij|jak mowil\w*"
    r"|в прошлый раз|помнишь|помните|напомни\w*|как я говорил\w*|мы обсуждали)\b"
    r"|之前说|上次|还记得|刚才说|说过|提到过|前に言|覚えて|さっき|前回|지난번|기억나|전에 말|هل تذكر|كما قلت"
)
_REPLY = _compiled(
    r"\byou (?:\w+ )?(?:told|said|mentioned|suggested|recommended|gave|explained|proposed|listed|wrote|sent|advised)"
    r"|\b(?:did|had|have) you (?:\w+ )?(?:tell|say|mention|suggest|recommend|give|explain|propose|list|told|said|given)"
    r"|\byour (?:last |previous |earlier |first )?(?:answer|suggestion|recommendation|advice|reply|explanation)s?\b"
)


@dataclass(frozen=True, slots=True)
class Form:
    """The form of a message."""

    asks: bool = False
    """It asks for something that may have been said before."""
    refers_back: bool = False
    """It refers to what was said before."""
    forgot: bool = False
    """It says that someone has forgotten something."""
    asks_for_reply: bool = False
    """It asks for what the assistant said."""
    continues_topic: bool = False
    """It has several sentences: it continues a topic of both sides rather than asks for one thing."""


SEVERAL = 3
"""Sentences of a message from which it continues a topic."""


def form_of(text: str) -> Form:
    """Return the form of a message. Of a long one only the beginning and the end are read."""
    if len(text) > 2 * READ_CHARS:
        text = f"{text[:READ_CHARS]}\n{text[-READ_CHARS:]}"
    folded = fold(text)
    is_english = _ENGLISH.search(folded) is not None
    sentences = [one.strip() for one in _SENTENCE.findall(folded) if any(map(str.isalnum, one))]
    return Form(
        asks=any(_asks(one, is_english=is_english) for one in sentences),
        refers_back=_REFERS_BACK.search(folded) is not None,
        forgot=_FORGOT.search(folded) is not None,
        asks_for_reply=_REPLY.search(folded) is not None,
        continues_topic=len(sentences) >= SEVERAL,
    )


def _asks(sentence: str, *, is_english: bool) -> bool:
    if _ASKS_ANYWHERE.search(sentence) or _TELLS.search(sentence):
        return True
    if not sentence.endswith(("?", "؟")):
        return _ASKS_UNMARKED.match(sentence) is not None
    return not is_english or bool(_ASKS.search(sentence) or _ASKS_YES_OR_NO.search(sentence))


MAX_TERMS = 24
"""Maximum number of terms that are looked up: of a longer question the most specific in what is read of it."""
HEAD_CHARS, TAIL_CHARS = 2000, 1000
"""Characters at the beginning and end of a very long question that are read."""

CODE_CHARS = 5
"""Length from which a word counts as an id, if it has letters and digits or is in capitals: "5 pm" does not, nor does
"NASA"."""
_CAPITALS = re.compile(rf"(?<!\w)[A-Z]{{{CODE_CHARS},}}(?!\w)")


@dataclass(frozen=True, slots=True)
class Word:
    """A term of a question, hashed (`token`) and plain (`term`). `weight` is multiplied with its rarity."""

    token: str
    weight: float
    term: str = ""
    is_code: bool = False
    """Whether it is an id or the like: a message that names one refers to what was said about it."""


@dataclass(frozen=True, slots=True)
class Question:
    """What to search for. `pairs` are indexes of neighbouring words."""

    words: tuple[Word, ...]
    pairs: tuple[tuple[int, int], ...] = ()
    times: tuple[Time, ...] = ()
    """Days or months that it names."""
    form: Form = Form()


def read_question(text: str, owner_id: int) -> Question:
    """Parse a question of that owner. It has no words if there is nothing to search for."""
    if len(text) > HEAD_CHARS + TAIL_CHARS:
        text = f"{text[:HEAD_CHARS]}\n{text[-TAIL_CHARS:]}"
    found = terms(text)
    # Those with digits are the most specific, then the longest; they stay in the order of the question.
    ranked = sorted(dict.fromkeys(found), key=lambda term: (-_weight(term), -len(term)))[:MAX_TERMS]
    kept = [term for term in dict.fromkeys(found) if term in ranked]
    places = {term: place for place, term in enumerate(kept)}
    codes = _codes(kept, text)
    words = tuple(Word(hashed(term, owner_id), _weight(term), term, term in codes) for term in kept)
    beside = {(a, b) for a, b in pairwise(found) if a != b and a in places and b in places}
    pairs = tuple(sorted((places[a], places[b]) for a, b in beside))
    return Question(words, pairs, times(fold(text[:HEAD_CHARS])), form_of(text))


def _weight(term: str) -> float:
    """Numbers, ids, dates and paths weigh more, because they are used on purpose."""
    if term.isalpha():
        return 1.0
    return 0.7 if len(term) == 1 else 1.5


def _codes(found: Sequence[str], text: str) -> set[str]:
    """The terms of a question that are ids. Capitals do not count if most of the text is in capitals."""
    is_shouted = 2 * sum(map(str.isupper, text)) > sum(map(str.isalpha, text))
    in_capitals = set() if is_shouted else {term for word in _CAPITALS.findall(text) for term in terms(word)}
    return {
        term
        for term in found
        if term in in_capitals
        or (len(term) >= CODE_CHARS and any(map(str.isalpha, term)) and any(map(str.isdigit, term)))
    }
