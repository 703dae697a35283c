"""Finds orders to a model in a text, and which are new: sentences that could steer a model that reads the text.

There are a few kinds, with a few rules each. They match the wording of typical attacks, in plain English and the most
common phrase in four other languages, but no meaning. So they are the last line of defence, not the first: text that
passes is still in the user role, quoted, under a heading that says what it is.

A known order may be repeated verbatim; an order of a known kind may be reported ("the user asked the assistant to
ignore its instructions"). Any other order is new.
"""

import re
from collections.abc import Iterable, Iterator

from chatmemory.text.markers import is_marker, skeleton

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
"""Searched in the words of a sentence, with any separators."""

_SHAPES = {
    "speaks": re.compile(
        r"\A(?:[\s>#*_\[<(|-]*(?:system|developer)(?: (?:prompt|message|note|instructions?))?"
        r"|[\s>#*_\[<(|]*(?:user|ass[il1|]stant|human|tool|function))[\]>)*_|\s]*:"
    ),
    "calls": re.compile(
        r"<\W{0,3}/?\s*(?:tool_call|tool_use|tool_result|function_call|function_results|invoke)"
        r"|['\"](?:tool_calls|tool_use|function_call)['\"]\s*:"
        r"|\{\s*['\"](?:name|function|tool|recipient_name)['\"]\s*:\s*['\"][^'\"]{1,100}['\"]\s*,"
        r"\s*['\"](?:arguments|parameters|input|args)['\"]\s*:"
    ),
    "marks": re.compile(
        r"<\s*\|[^|<>]{1,40}\|\s*>|\[\s*+(?:/\s*+)?inst\s*\]|<<\s*/?sys\s*>>|<(?:start|end)_of_turn\s*>"
        r"|<\s*+(?:/\s*+)?memory_card|(?<!=)={3,}+\s*+(?:end_)?(?:existing_summary|new_turns)"
    ),
}
"""Searched in a sentence as it looks: "speaks" at its beginning, the others anywhere."""

POSES = "poses"
"""The kind of a sentence that imitates a marker or heading of ours."""

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
    """The orders in some texts, and all their sentences."""

    def __init__(self, texts: Iterable[str]) -> None:
        sentences = [sentence for text in texts for sentence in _sentences(text)]
        self._kinds = {kind for sentence in sentences for kind in _kinds(sentence)}
        self._spoken = [_words(sentence) for sentence in sentences if _SHAPES["speaks"].search(sentence)]
        self._marks = _without_spaces("\n".join(sentences))
        self._words = f" {' | '.join(filter(None, map(_words, sentences)))} "

    def new_in(self, text: str) -> set[str]:
        """The kinds of orders in `text` that none of the known texts contains."""
        return {kind for sentence in _sentences(text) for kind in _kinds(sentence) if self._is_new(kind, sentence)}

    def _is_new(self, kind: str, sentence: str) -> bool:
        if kind == "speaks":
            # It may be the beginning of a known line, because it may have been cut.
            return not any(line.startswith(_words(sentence)) for line in self._spoken)
        if kind in _SHAPES:
            found = _SHAPES[kind].finditer(sentence)
            return any(_without_spaces(mark[0]) not in self._marks for mark in found)
        if kind == POSES:
            return kind not in self._kinds
        return any(self._is_order(kind, words) for words in _readings(sentence))

    def _is_order(self, kind: str, words: str) -> bool:
        """Whether the words contain a new order of that kind."""
        rule, courtesy = _PHRASES[kind], _COURTESY.match(words)
        if f" {words} " in self._words or not rule.search(words):
            return False
        # Words that begin with an order are one; if the order comes later, they may report it.
        return kind not in self._kinds or bool(rule.match(words, courtesy.end() if courtesy else 0))


def _sentences(text: str) -> Iterator[str]:
    """The sentences of `text` as they look, without our own quote marks."""
    for line in skeleton(text).splitlines():
        yield from filter(None, _SENTENCE.split(_QUOTED.sub("", line)))


def _without_spaces(text: str) -> str:
    """`text` without spaces: a model may have seen a mark with a space in it (`chatmemory.text.cleaning`)."""
    return _SPACES.sub("", text)


def _words(text: str) -> str:
    return " ".join(_WORD.findall(text))


def _readings(sentence: str) -> list[str]:
    """The words of a sentence, and of each of its clauses, which may be a sentence by itself."""
    return list(dict.fromkeys(map(_words, (sentence, *_CLAUSE.split(sentence)))))


def _kinds(sentence: str) -> set[str]:
    """The kinds of orders in a sentence."""
    readings = _readings(sentence)
    found = {kind for kind, rule in _PHRASES.items() if any(map(rule.search, readings))}
    found |= {kind for kind, rule in _SHAPES.items() if rule.search(sentence)}
    # "Turn 1:" imitates no marker: summaries number turns.
    item = sentence.lstrip(_BULLETS)
    is_other = _SHAPES["speaks"].search(item) or _TURN.match(item)
    return found if is_other or not is_marker(item) else found | {POSES}
