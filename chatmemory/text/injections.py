"""Orders to a model in a text, and which of them are new: lines that could steer whoever reads the text next.

A few kinds, by a few rules each. They catch what attacks are written like, in plain English and the commonest phrase in
four other languages; they understand nothing. So they are the last line of defence and not the first: whatever gets
past them still stands in the user role, quoted, under a heading that says what it is.

An order that was said may be repeated to the letter; one that was said of a kind may be told of ("the user asked the
assistant to ignore its instructions"). What is neither is new.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from chatmemory.text.confusables import looks
from chatmemory.text.markers import is_marker

_FEW = r"(?: \w+){0,4}?"
_TOLD = r"(?:instructions?|prompts?|rules|guidelines|directives|guardrails|system message)"

_PHRASES = {
    "overrides": re.compile(
        rf"\b(?:(?:ignore|disregard|forget|override|bypass|do not follow|don t follow|stop following){_FEW} {_TOLD}"
        r"|(?:ignore|disregard|forget) (?:everything|all|anything|what was said)(?: \w+){0,2} (?:above|before|prior)"
        rf"|(?:ignoriere|vergiss|missachte){_FEW} (?:anweisungen|regeln|vorgaben|befehle)"
        rf"|(?:ignore[rz]?|oublie[rz]?){_FEW} (?:instructions|consignes|regles)"
        rf"|(?:ignora|ignore|olvida|olvide|dimentica|esqueca){_FEW} "
        r"(?:instrucciones|instrucoes|istruzioni|reglas|regras|regole))\b"
    ),
    "recasts": re.compile(
        r"\b(?:you (?:are|re) (?:now|no longer)|from now on you|act as (?:if|though) you|pretend (?:that )?you"
        r"|you must (?:obey|ignore|comply)|your (?:new|real|actual|true|only|updated) "
        r"(?:instructions?|task|goal|role|objective|mission|orders?|rules))\b"
    ),
    "addresses": re.compile(
        r"\A(?:(?:note|message|instructions?|reminder|orders?) (?:to|for) (?:the |any |all |every )?"
        r"(?:next |future )?(?:assistants?|ais?|llms?|chatbots?|language models?|models?)\b"
        r"|(?:here are )?(?:the |your )?(?:new|updated|additional)(?: system)? (?:instructions?|orders?|rules)"
        r"(?: (?:are|follow|below))?\Z)"
    ),
    "restricts": re.compile(
        r"\b(?:(?:respond|reply|answer|output|write|say) (?:only|exclusively|solely|just) with"
        r"|(?:respond|reply|answer|output) with (?:only|nothing but|exactly|just)"
        r"|only (?:respond|reply|answer|output)(?: ever)? with)\b"
    ),
    "pries": re.compile(
        rf"\b(?:(?:reveal|print|repeat|show|output|leak|disclose|display){_FEW} "
        r"(?:system prompt|system message|hidden prompt|(?:your|its) (?:prompt|instructions))"
        r"|(?:do not|don t|never|without) (?:tell|telling|inform|informing|warn|warning|alert|alerting) the user)\b"
    ),
}
"""Looked for in the words of a sentence, however they are set apart."""

_SHAPES = {
    "speaks": re.compile(
        r"(?:[\s>#*_\[<(|-]*(?:system|developer)(?: (?:prompt|message|note|instructions?))?"
        r"|[\s>#*_\[<(|]*(?:user|ass[il1|]stant|human|tool|function))[\]>)*_|\s]*:"
    ),
    "calls": re.compile(
        r"<\W{0,3}/?\s*(?:tool_call|tool_use|tool_result|function_call|function_results|invoke)"
        r"|['\"](?:tool_calls|tool_use|function_call)['\"]\s*:"
        r"|\{\s*['\"](?:name|function|tool|recipient_name)['\"]\s*:\s*['\"][^'\"]{1,100}['\"]\s*,"
        r"\s*['\"](?:arguments|parameters|input|args)['\"]\s*:"
    ),
    "marks": re.compile(
        r"<\s*\|[^|<>]{1,40}\|\s*>|\[\s*/?\s*inst\s*\]|<<\s*/?sys\s*>>|<(?:start|end)_of_turn\s*>"
        r"|<\s*/?\s*memory_card|(?<!=)={3,}+\s*+(?:end_)?(?:existing_summary|new_turns)"
    ),
}
"""Looked for in a sentence as it looks: the first at its beginning, the others anywhere."""

POSES = "poses"
"""As a marker or heading of ours."""

_BULLETS = "-*• \t"
_QUOTED = re.compile(r"\A(?:> )+")
_TURN = re.compile(r"turn [\do]+\s*:")
_SENTENCE = re.compile(r"(?<=[.!?…])\s+|(?<=[。！？])")
_CLAUSE = re.compile(r"[:;\"“”„«»]")
_WORD = re.compile(r"\w+")
_SPACES = re.compile(r"[^\S\n]+")
_COURTESY = re.compile(
    r"(?:(?:please|now|so|and|but|then|also|first|important|attention|warning|note|hey|ok|okay|assistant|ai|model) )+"
)


class KnownOrders:
    """The orders that some texts hold, and every sentence of them."""

    def __init__(self, texts: Iterable[str]) -> None:
        sentences = [sentence for text in texts for sentence in _sentences(text)]
        self._kinds = {kind for sentence in sentences for kind in _kinds(sentence)}
        self._spoken = [_words(sentence) for sentence in sentences if _SHAPES["speaks"].match(sentence)]
        self._marks = _tight("\n".join(sentences))
        self._words = f" {' | '.join(filter(None, map(_words, sentences)))} "

    def new_in(self, text: str) -> set[str]:
        """The kinds of orders in `text` that no known text holds."""
        return {
            kind for sentence in _sentences(text) for kind in _kinds(sentence) if self._is_new(kind, sentence)
        }

    def _is_new(self, kind: str, sentence: str) -> bool:
        if kind == "speaks":
            # To its end, unless it was cut.
            return not any(line.startswith(_words(sentence)) for line in self._spoken)
        if kind in _SHAPES:
            return any(_tight(found[0]) not in self._marks for found in _SHAPES[kind].finditer(sentence))
        if kind == POSES:
            return kind not in self._kinds
        return any(self._is_order(kind, words) for words in _readings(sentence))

    def _is_order(self, kind: str, words: str) -> bool:
        """Whether words hold an order of that kind that is new."""
        rule, courtesy = _PHRASES[kind], _COURTESY.match(words)
        if f" {words} " in self._words or not rule.search(words):
            return False
        # What begins with an order is one; what comes to speak of one later may tell of somebody.
        return kind not in self._kinds or bool(rule.match(words, courtesy.end() if courtesy else 0))


def _sentences(text: str) -> Iterator[str]:
    """The sentences of `text` as they look, without the marks of our own quoting."""
    for line in looks(text).splitlines():
        yield from filter(None, _SENTENCE.split(_QUOTED.sub("", line)))


def _tight(text: str) -> str:
    """`text` without spaces: a model may have been shown a mark with one in it (`chatmemory.text.control_tokens`)."""
    return _SPACES.sub("", text)


def _words(text: str) -> str:
    return " ".join(_WORD.findall(text))


def _readings(sentence: str) -> list[str]:
    """The words of a sentence, and of each of its parts that may be a sentence by itself."""
    return list(dict.fromkeys(map(_words, (sentence, *_CLAUSE.split(sentence)))))


def _kinds(sentence: str) -> set[str]:
    """The kinds of orders that a sentence holds."""
    readings = _readings(sentence)
    found = {kind for kind, rule in _PHRASES.items() if any(map(rule.search, readings))}
    found |= {kind for kind, rule in _SHAPES.items() if _in_shape(kind, rule, sentence)}
    return found | {POSES} if _is_marked(sentence) else found


def _in_shape(kind: str, rule: re.Pattern[str], sentence: str) -> bool:
    return bool(rule.match(sentence) if kind == "speaks" else rule.search(sentence))


def _is_marked(sentence: str) -> bool:
    """Whether it poses as a heading or marker of ours. Summaries that count turns do not: these are only quoted."""
    sentence = sentence.lstrip(_BULLETS)
    return is_marker(sentence) and not _SHAPES["speaks"].match(sentence) and not _TURN.match(sentence)
