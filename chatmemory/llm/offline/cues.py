"""Cues: English phrases that mark a sentence as a decision, a preference or a goal, found by regular expressions.

A heuristic for one sentence at a time (at most some hundred characters); no pattern is tried on longer text. Results
are quoted from the sentence verbatim.
"""

from __future__ import annotations

import re

from chatmemory.text.spans import COMMON_WORDS

LONGEST_LINK = 500
"""Maximum characters of an address. Longer ones are ignored, because half an address is none."""

MOST_PARTS, LONGEST_PART = 12, 6
"""Maximum parts of a document, and maximum words of a part's name."""

_LINK = re.compile(r"https?://(?=\w)[^\s<>\"'`{}|\\^、。，；（）「」]{1,501}", re.IGNORECASE)
_PAIRS = {")": "(", "]": "["}

_WHO = r"\b(?:I|we)(?:['’](?:d|ve|m|re))?(?: (?:would|have|am|are|do|also|really|always|usually|just|only|much|now))*"
_LIKES = re.compile(
    rf"{_WHO} (?P<verb>prefer|rather|like|love|want|favou?r|enjoy) (?P<what>\S.*)", re.IGNORECASE
)
_FAVOURITE = re.compile(
    r"\b(?:my|our) (?:favou?rite|preferred|usual) (?P<key>[\w-]+(?: [\w-]+)?) (?:is|are) (?P<what>\S.*)",
    re.IGNORECASE,
)
_DISLIKES = re.compile(
    rf"{_WHO} (?P<what>(?:dislike|hate|avoid|can(?:no|['’])t stand"
    r"|(?:do not|don['’]t|never) (?:like|want|eat|drink|use|need)) (?P<object>\S.*))",
    re.IGNORECASE,
)
_NO_PREFERENCE = re.compile(
    r"(?:to|you|it|that|this|these|those|them|him|her|us|help|if|how|what|some help|your help)\b",
    re.IGNORECASE,
)
_CLAUSE_END = re.compile(
    r"[,;:!?()]|\.(?:\s|$)|\s(?:because|since|but|so|if|when|unless|although|which|please|and (?:I|we|you))\b",
    re.IGNORECASE,
)
_PHRASE_END = re.compile(r"\s(?:in|on|at|for|with|without|over|to|from|of|than|as|by|near|about|and|or)\b")
_DETERMINER = re.compile(r"(?:a|an|the|my|our|your|some|any|more|to|have|be)\s+", re.IGNORECASE)

_DECIDED = re.compile(
    r"\b(?:(?:I|we)(?:['’]ve| have)? (?:now )?(?:decided|agreed|chose|chosen|settled|booked|confirmed|picked|opted)\b"
    r"|let['’]?s (?!see\b|say\b|look\b|check\b|start\b|not\b)(?=\w)"
    r"|(?:I|we)(?:['’]ll| will| am going to| are going to) (?:take|go with|choose|pick|book|have|use|keep|buy|stick)\b"
    r"|(?:I|we)(?:['’]d| would) like to (?:go with|proceed with|go ahead)"
    r"|(?:go|going|went|proceed) (?:ahead )?with\b|agreed (?:to|on|that)\b|the decision is\b|decided (?:to|on|that)\b"
    r"|(?:has|have) (?:now |already )?been (?:successfully )?"
    r"(?:booked|confirmed|cancell?ed|approved|scheduled|changed|updated|upgraded|downgraded|refunded|added|removed|rejected)\b"
    r")",
    re.IGNORECASE,
)
_UNDECIDED = re.compile(
    r"\b(?:if|whether|once|would you|should|could|shall|please confirm|to confirm|want me to|unless|maybe|perhaps"
    r"|let me know|in order to)\b|\Ato ",
    re.IGNORECASE,
)
_CONDITION = re.compile(
    r"\b(?:must|cannot|can['’]t|can not|may not|only|at least|at most|no more than|no later than|within|unless|maximum"
    r"|minimum|not allowed|required|never|always|limit(?:ed)?|budget|deadline)\b",
    re.IGNORECASE,
)
_GOAL = re.compile(
    r"\b(?:(?:my|our|the) (?:main |next )?(?:goal|aim|objective|task) is\b"
    r"|(?:I|we)(?:['’]m|['’]re| am| are) (?:trying|looking|hoping|planning|working)\b"
    r"|(?:I|we)(?:['’]d| would) (?:also )?like to\b|(?:I|we) (?:also |really )?(?:want|need) (?:to|help)\b"
    r"|help me\b)",
    re.IGNORECASE,
)
_FORGET = re.compile(
    r"\b(?:forget|ignore|disregard|scrap|drop|remove|no longer|isn['’]t valid"
    r"|not (?:valid|true|needed|correct) any ?more)\b",
    re.IGNORECASE,
)
_STRESSED = re.compile(
    r"\b(?:important|critical|crucial|essential|key (?:finding|fact|point|result|figure)|remember|keep in mind"
    r"|note that|(?:do not|don['’]t) forget)\b",
    re.IGNORECASE,
)
_PARTS = re.compile(
    r"\b(?P<key>sections|chapters|headings|parts|paragraphs|steps|outline|structure|table of contents)\b"
    r"[^:]{0,40}?(?::|\b(?:for|are|named|called|titled|like|such as|including)\b)\s*(?P<list>\S.*)",
    re.IGNORECASE,
)
_LIST_BREAK = re.compile(r"\s*(?:[,;/|]|\band\b|\bthen\b)\s*")


def links(text: str) -> list[str]:
    """The addresses in `text` verbatim, without the punctuation around them."""
    found = (match for match in _LINK.findall(text) if len(match) <= LONGEST_LINK)
    return list(dict.fromkeys(_bare(match) for match in found))


_COURTESY = re.compile(
    r"(?i:(?:kind|best|warm) (?:regards|wishes)|regards|sincerely|cheers|welcome|you['’]re welcome|congratulations"
    r"|thanks|thank you|many thanks|hello|hi|hey|dear|good (?:morning|afternoon|evening|night)|sleep well)"
    r"(?:[,!. ]+[A-Z][\w'’-]*){0,4}[,!.]*"
)


def is_courtesy(sentence: str) -> bool:
    """Whether the sentence only greets, thanks or says goodbye."""
    return _COURTESY.fullmatch(sentence.strip()) is not None


def preference(sentence: str) -> tuple[str, str] | None:
    """What the speaker likes or dislikes: a key for the subject, and a quotation. None if the sentence says neither."""
    if match := _FAVOURITE.search(sentence):
        return key_of(match["key"]), clause(match["what"])
    if match := _DISLIKES.search(sentence):
        return _preferred(match["object"], clause(match["what"]))
    if match := _LIKES.search(sentence):
        wished = match["verb"].casefold() in ("prefer", "rather")
        if wished or not _NO_PREFERENCE.match(match["what"]):
            return _preferred(match["what"], clause(match["what"]))
    return None


def is_decision(sentence: str) -> bool:
    """Whether the sentence says that something is settled. Questions, conditionals and words before a list do not."""
    if is_question(sentence) or sentence.endswith(":"):
        return False
    return bool(_DECIDED.search(sentence)) and not _UNDECIDED.search(sentence)


def decided(sentence: str) -> str:
    """The sentence after the words that settle something; all of it without such words."""
    match = _DECIDED.search(sentence)
    return sentence[match.end() :] if match else sentence


def is_condition(sentence: str) -> bool:
    """Whether the sentence sets a limit to what may be done."""
    return bool(_CONDITION.search(sentence)) and not is_question(sentence)


def is_stressed(sentence: str) -> bool:
    """Whether the speaker says that something is important."""
    return bool(_STRESSED.search(sentence)) and not is_question(sentence)


def is_question(sentence: str) -> bool:
    """Whether the sentence is a question, by its last character."""
    return sentence.rstrip("\"'”’) ").endswith(("?", "？"))


def takes_back(sentence: str) -> bool:
    """Whether the sentence says that something is no longer valid."""
    return bool(_FORGET.search(sentence)) and not is_question(sentence)


def goal(sentence: str) -> str:
    """The speaker's goal, from its cue to the end of the sentence; empty if there is none."""
    match = _GOAL.search(sentence)
    return sentence[match.start() :] if match else ""


def parts_of_document(sentence: str) -> tuple[str, list[str]] | None:
    """The kind and the names of a document's parts, if the sentence lists at least two; otherwise None."""
    match = _PARTS.search(sentence)
    if not match:
        return None
    names = [name.strip(" .!?\"'“”") for name in _LIST_BREAK.split(match["list"])]
    parts = [name for name in names if name and len(name.split()) <= LONGEST_PART]
    return (key_of(match["key"]), parts[:MOST_PARTS]) if len(parts) > 1 else None


def clause(text: str) -> str:
    """The beginning of `text`, up to the end of its first clause."""
    match = _CLAUSE_END.search(text)
    return (text[: match.start()] if match else text).strip(' .!?"“”')


def key_of(words: str) -> str:
    """Words as a key: lower case, joined by underscores, at most 40 characters."""
    return "_".join(re.findall(r"\w+", words.casefold()))[:40].strip("_")


def _preferred(matter: str, value: str) -> tuple[str, str] | None:
    """The key is the last noun of the phrase ("dark mode for the editor": mode), the value a quotation."""
    phrase = _PHRASE_END.split(_bared(clause(matter)), maxsplit=1)[0]
    words = [word for word in re.findall(r"[\w-]+", phrase) if word.casefold() not in COMMON_WORDS]
    key = key_of(words[-1]) if words else ""
    return (key, value) if key and value else None


def _bared(text: str) -> str:
    while match := _DETERMINER.match(text):
        text = text[match.end() :]
    return text


def _bare(link: str) -> str:
    while link and (link[-1] in ".,;:!?*_~…" or _is_unpaired(link)):
        link = link[:-1]
    return link


def _is_unpaired(link: str) -> bool:
    opening = _PAIRS.get(link[-1])
    return opening is not None and link.count(link[-1]) > link.count(opening)
