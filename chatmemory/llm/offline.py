"""The built-in model and summarizer, without key or network: which sentences it quotes, as an answer or as memory.

With it, the whole product works on one machine, and it folds in place of a summarizer that keeps failing. It says so
where it answers. It knows nothing of chats, storage or policies: a request names the schema of its answer.

`extract` fills the object of any schema, by the types and the names of its fields; `summarize` writes bullets;
`on_question` finds what was said on a question. A summarizer's request may have any layout in which what is said begins
with its speaker: `User: …` or `[user]: …`. Before the first speaker stands the memory so far.

What matters is told by spans: numbers, ids, dates, addresses and names. A language's words are not looked at. Pure.
"""

from __future__ import annotations

import asyncio
import heapq
import json
import math
import re
import textwrap
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from chatmemory.llm.openai.failures import TOO_LONG
from chatmemory.llm.protocol import Completion, Deadlines, Delta, Prompt, Reply, Usage, Variant
from chatmemory.text.cleaning import clean
from chatmemory.text.markers import is_marker
from chatmemory.text.spans import CJK, COMMON_WORDS, scan
from chatmemory.text.tokens import MESSAGE_OVERHEAD, clip_end, count_tokens

# The model: what it streams and completes


NAME = "offline"

INTRODUCTION = "This is the built-in offline model; it can only quote."
"""Begins each reply of the built-in model. What follows is quoted memory, so summaries leave it out."""

QUOTES = 3
QUESTION_CHARS = 8000
"""How many characters of a question are used for the search; of each message, ten times as many are searched."""

CARD_OPEN, CARD_CLOSE = "<MEMORY_CARD>", "</MEMORY_CARD>"
"""Instructions that show an object between both ask for such a memory card at the end of the reply (seed 002)."""
CARD_TOKENS = 120
FOUND = f"{INTRODUCTION} Matches in this chat:"
NOTHING = (
    f"{INTRODUCTION} No match in this chat. Your message was saved. "
    "Set OPENAI_API_KEY or OPENAI_BASE_URL and restart for real answers."
)
_ROLE = re.compile(r"(?:> )?(?:\[\d+\] )?(?:User|Assistant): ")
_DELTA = re.compile(r"(?<!\s)\s*+\S+")
FEW_TOKENS = 5
"""A shorter sentence needs a name or a number to be worth remembering."""
_JSON = re.compile(r"[^{\n]*+(\{.*\})")
_TEXT, _TEXTS = {"type": "string"}, {"type": "array", "items": {"type": "string"}}


class OfflineModel:
    """A deterministic `ChatModel` that only extracts. `pause`: the seconds between two words of a stream."""

    def __init__(self, pause: float = 0.01) -> None:
        self.pause = pause

    async def stream(self, prompt: Prompt, variant: Variant, deadlines: Deadlines) -> AsyncIterator[Delta | Reply]:
        """Yield the answer word by word, then a `complete` reply; with a memory card if the prompt asks for one."""
        # Searching and counting a long prompt takes milliseconds that other streams need.
        text, reply = await asyncio.to_thread(_reply, prompt, variant)
        for word in _DELTA.findall(text):
            yield Delta(word)
            await asyncio.sleep(self.pause)
        yield reply

    def complete(self, prompt: Prompt, variant: Variant, *, timeout: float) -> Completion:
        """Answer at once: with the object that the prompt's schema names, or a summary of a summarizer input.

        For any other prompt, answer as `stream` would, but without a card.
        """
        request, text = _last_text(prompt), ""
        if prompt.schema:
            text = extract(prompt.schema.schema, request, prompt.answer_tokens)
        elif quotes_a_talk(request):
            text = summarize(request, prompt.answer_tokens)
        text = text or _within_limit(_answer(prompt), variant)
        return Completion(text, model=NAME, usage=counted(prompt, text))


def _reply(prompt: Prompt, variant: Variant) -> tuple[str, Reply]:
    """The text of a reply, and how it ends."""
    answer = _answer(prompt)
    card = card_block(card_after(prompt, answer))
    text = _within_limit(answer, variant, reserved=count_tokens(card)) + card
    # A card is the end of the requested reply.
    ended = Reply("complete") if card or text == answer else Reply("incomplete", error=TOO_LONG)
    return text, replace(ended, usage=counted(prompt, text), model=NAME)


def _answer(prompt: Prompt) -> str:
    """Earlier messages that match the prompt's last one."""
    quotes = on_question(_remembered(prompt), _last_text(prompt)[:QUESTION_CHARS], QUOTES)
    return "\n".join([FOUND, *(f"- {quote}" for quote in quotes)]) if quotes else NOTHING


def _within_limit(text: str, variant: Variant, reserved: int = 0) -> str:
    limit = variant.max_output_tokens
    return clip_end(text, max(0, limit - reserved)) if limit else text


def _last_text(prompt: Prompt) -> str:
    return prompt.messages[-1].content if prompt.messages else ""


def _remembered(prompt: Prompt) -> Iterator[str]:
    """Everything before the question, without headings, markers and this model's own words."""
    for message in prompt.messages[:-1]:
        if not message.content.startswith(INTRODUCTION):
            yield "\n".join(_lines(message.content[: 10 * QUESTION_CHARS]))


def _lines(text: str) -> Iterator[str]:
    for line in text.splitlines():
        found = _JSON.match(line)
        if found and (memory := json_object(found[1])):
            yield from json_texts(memory)
        elif not is_marker(bare := _ROLE.sub("", line, count=1)) and INTRODUCTION not in bare:
            yield bare


def card_after(prompt: Prompt, reply: str) -> str:
    """The memory card after `reply`, from the card in the prompt, the last turn, the question and the reply.

    Empty if the prompt asks for none.
    """
    _, begins, form = prompt.instructions.partition(f"{CARD_OPEN}{{")
    example = json_object("{" + form.partition(CARD_CLOSE)[0]) if begins else {}
    if not example:
        return ""
    fields = {name: _TEXTS if isinstance(one, list) else _TEXT for name, one in example.items()}
    before = prompt.messages[:-1]
    firsts = (_JSON.match(message.content.partition("\n")[0]) for message in before)
    card = next((found[1] for found in firsts if found and json_object(found[1])), "")
    at = max((at for at, message in enumerate(before) if message.role == "assistant"), default=-1)
    last_reply = before[at].content if at >= 0 else ""
    question = before[at - 1].content if at > 0 and before[at - 1].role == "user" else ""
    if _JSON.match(question.partition("\n")[0]):  # it is the card
        question = ""
    sides = (
        ("User", question),
        ("Assistant", last_reply),
        ("User", _last_text(prompt)[:QUESTION_CHARS]),
        ("Assistant", reply),
    )
    talk = "\n".join(f"{name}: {text}" for name, text in sides if text)
    return extract({"properties": fields}, f"{card}\n{talk}", CARD_TOKENS)


def card_block(card: str) -> str:
    """A card in the form in which it ends a reply's text; empty without one."""
    return f"\n\n{CARD_OPEN}{card}{CARD_CLOSE}" if card else ""


def counted(prompt: Prompt, text: str) -> Usage:
    """The tokens of a call by our own count."""
    sent = [prompt.instructions, *(message.content for message in prompt.messages)]
    tokens = sum(count_tokens(part) + MESSAGE_OVERHEAD for part in sent if part)
    return Usage(input_tokens=tokens, cached_tokens=0, output_tokens=count_tokens(text))


# Its answers: sentences of its input, chosen by content, in the requested form


READ_CHARS = 400_000
"""How much of a request is read, from its end."""
DEFAULT_TOKENS = 400
"""Length of an answer if the request does not give one."""
SHORT_TOKENS, FACT_TOKENS = 24, 30
"""Maximum tokens of a goal or a context, and of one fact."""
LINKS, STORY, NESTED = 0.3, 0.25, 0.5
"""Shares of an answer's tokens: for links, for a text beside lists, and for an object in an object."""

NAMED = {
    "goal": "goal",
    "lesson_context": "latest",
    "source_urls": "links",
    **dict.fromkeys(("open_q", "constraints", "key_decisions", "removed", "user_preferences"), "nothing"),
    **dict.fromkeys(("document_structure", "custom_fields", "entities", "techniques"), "nothing"),
}
"""The content for fields, by name. Some need understanding: they stay empty."""
LONGEST_SENTENCE = 60
"""Maximum tokens of a sentence. Longer ones are cut, so that one sentence does not fill a digest."""
SENTENCE_CHARS = 600
"""Longer text without punctuation is cut into pieces of this size, between words where there is a space."""
HARD_WORTH, NAME_WORTH, AMOUNT_WORTH, PLAIN_WORTH = 1.0, 0.5, 0.2, 0.05
"""Weights of a span that is not yet covered: id, date or address; name; amount. The last is for any sentence."""
STRESS = 3.0
"""How much more a span counts if the user typed it, or an earlier digest kept it."""

_SPEAKER = re.compile(r"^(?:\[(user|assistant)\]|(User|Assistant)): ", re.MULTILINE)
_LINK = re.compile(r"https?://[^\s<>\"'`{}|\\^、。，；（）「」]{2,500}", re.IGNORECASE)
_LETTERS = re.compile(r"[^\W\d_]{3,}")
_STOPS = (".", "!", "?", "…", "。", "！", "？", '"', "”")
_SENTENCE = re.compile(r"(?<=[.!?…])\s+(?:[-*•]\s+)*(?=\S)|(?<=[。！？])")
"""Between two sentences. A memory that is one paragraph has its earlier bullets there."""
_BULLET = re.compile(r"\A\s*(?:[-*•]|\d{1,3}[.)]|#{1,6}|>)\s+")
_AMOUNT = re.compile(r"[^\w]?\s?\d{1,6}(?:[.,]\d+)*%?(?: \D+)?")
_WORD = re.compile(r"\w+")
_PIECES = textwrap.TextWrapper(SENTENCE_CHARS, expand_tabs=False, replace_whitespace=False, break_on_hyphens=False)
"""Half an address or number would be another one."""


@dataclass(frozen=True, slots=True)
class Talk:
    """A request's quotations: the memory so far, its texts except the goal if it is JSON, and the new messages."""

    before: tuple[str, ...]
    goal: str
    """The goal in the memory so far."""
    messages: tuple[tuple[str, bool], ...]
    """The texts of messages, and whether they are the user's."""

    @classmethod
    def of(cls, request: str) -> Talk:
        """Read a request; one without speakers is taken for one message of a user."""
        head, *parts = _SPEAKER.split(clean(request)[-READ_CHARS:])
        if not quotes_a_talk(request):
            return cls((), "", ((head, True),))
        messages = []
        for first, second, text in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
            by_user = (first or second).casefold() == "user"
            text = "\n".join(line for line in text.splitlines() if not is_marker(line))
            messages.append((text if by_user else text.partition(INTRODUCTION)[0], by_user))
        lines = [
            line for line in head.splitlines() if line.strip() not in ("", "NONE", "- none") and not is_marker(line)
        ]
        memory = json_object("\n".join(lines))
        goal = memory.get("goal", memory.get("g", ""))
        rest = {name: value for name, value in memory.items() if name not in ("goal", "g")}
        before = tuple(json_texts(rest) if memory else lines)
        return cls(before, goal if isinstance(goal, str) else "", tuple(messages))

    @property
    def stressed(self) -> list[str]:
        """The memory so far and what the user typed, whose spans count more."""
        return [*self.before, *(text for text, by_user in self.messages if by_user)]

    def sentences(self) -> list[str]:
        """The distinct sentences of the messages, in order."""
        return unique_sentences(text for text, _ in self.messages)


def quotes_a_talk(request: str) -> bool:
    """Whether a request quotes a talk, which may be empty: then it still begins with a heading."""
    return is_marker(request.partition("\n")[0]) or _SPEAKER.search(request) is not None


def summarize(request: str, max_tokens: int) -> str:
    """The most informative sentences of the memory so far and the new messages, as bullets (0 tokens: any)."""
    talk = Talk.of(request)
    said = unique_sentences([*talk.before, *talk.sentences()])
    sentences_so_far = [one for one in said if _tells_something(one)] or said
    room = max_tokens or DEFAULT_TOKENS
    bullets = "\n".join(f"- {one}" for one in best(sentences_so_far, room, talk.stressed))
    return bullets or clip_end(" ".join(sentences_so_far), room)


def _tells_something(sentence: str) -> bool:
    """Whether a sentence is more than a question, a greeting or an exclamation."""
    return not sentence.endswith("?") and (
        count_tokens(sentence) > FEW_TOKENS or (bool(scan(sentence)) and sentence[-1] != "!")
    )


def extract(schema: Mapping[str, Any], request: str, max_tokens: int) -> str:
    """An object of `schema` as JSON of about `max_tokens` (0: any), quoted from the request."""
    return dumps(_object(schema, Talk.of(request), max_tokens or DEFAULT_TOKENS))


def dumps(value: object) -> str:
    """`value` as compact JSON, with non-ASCII characters unescaped."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def json_object(text: str) -> dict[str, Any]:
    """The JSON object that is all of `text`; {} for any other text."""
    try:
        found = json.loads(text) if text.lstrip().startswith("{") else {}
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def json_texts(value: object, key: str = "") -> Iterator[str]:
    """The texts in a JSON value, with the keys of short ones."""
    if isinstance(value, dict):
        for name, one in value.items():
            yield from json_texts(one, str(name))
    elif isinstance(value, list):
        for one in value:
            yield from json_texts(one)
    elif isinstance(value, str) and value:
        yield value if not key or " " in value else f"{key}: {value}"


def _object(schema: Mapping[str, Any], talk: Talk, room: int) -> dict[str, Any]:
    """Fill the fields: first fields with a known share, then lists of quotations, which take the rest."""
    fields: Mapping[str, Mapping[str, Any]] = schema.get("properties", {})
    kinds = {name: NAMED.get(name) or _kind(field) for name, field in fields.items()}
    value: dict[str, Any] = {name: _empty(field) for name, field in fields.items()}
    left = room - count_tokens(dumps(value))
    for name, kind in kinds.items():
        if kind == "object":
            value[name] = _object(fields[name], talk, int(NESTED * room))
        elif kind in ("goal", "latest"):
            value[name] = _sentence(talk, is_goal=kind == "goal")
        elif kind == "links":
            value[name] = _links(talk, int(LINKS * left))
    lists = [name for name, kind in kinds.items() if kind in ("sentences", "facts")]
    left = room - count_tokens(dumps(value))
    for name in (name for name, kind in kinds.items() if kind == "text"):
        value[name] = _text(talk, int(STORY * left) if lists else left, is_story=bool(lists))
    left = room - count_tokens(dumps(value))
    for name in lists:
        if kinds[name] == "facts":
            value[name] = _facts(fields[name], talk, left // len(lists))
        else:
            value[name] = best(unique_sentences([*talk.before, *_stated(talk)]), left // len(lists), talk.stressed)
    return value


def _kind(field: Mapping[str, Any]) -> str:
    """The content of a field, by its type."""
    kind, items = field.get("type"), field.get("items", {})
    if kind in ("object", "string"):
        return "object" if kind == "object" else "text"
    if kind == "array" and items.get("type") == "string":
        return "sentences"
    return "facts" if kind == "array" and {"key", "value"} <= items.get("properties", {}).keys() else "nothing"


def _empty(field: Mapping[str, Any]) -> Any:
    kind = field.get("type")
    if kind == "object":
        return {name: _empty(one) for name, one in field.get("properties", {}).items()}
    return [] if kind == "array" else "" if kind == "string" else None


def _sentence(talk: Talk, *, is_goal: bool) -> str:
    """The goal so far, else the user's first sentence; or the user's last, unless it is the only one."""
    typed = [one for text, by_user in talk.messages if by_user for one in sentences(text)]
    telling = [one for one in typed if len(_content_words(one)) > 1] or typed  # no greetings and thanks
    found = [talk.goal, *telling] if is_goal else telling[:0:-1]
    return clip_end(next(filter(None, found), ""), SHORT_TOKENS)


def _links(talk: Talk, room: int) -> list[str]:
    """The first links that fit."""
    found = (link.rstrip(".,;:!?*_~)]") for text, _ in talk.messages for link in _LINK.findall(text))
    links = []
    for link in dict.fromkeys(found):
        room -= count_tokens(dumps(link))
        if room < 0:
            break
        links.append(link)
    return links


def _text(talk: Talk, room: int, *, is_story: bool) -> str:
    """The new messages as a story of at most `room` tokens; or the memory so far, and the new messages."""
    before = () if is_story else talk.before
    chosen = best(unique_sentences([*before, *talk.sentences()]), room, talk.stressed)
    # Sentences without a full stop get one, so that they can be split again.
    return " ".join(text if text.endswith(_STOPS) else f"{text.rstrip(':')}." for text in chosen)


def _stated(talk: Talk) -> list[str]:
    """The sentences with numbers, ids or dates."""
    return [one for one in talk.sentences() if any(hard for _, hard in scan(one))]


def _facts(field: Mapping[str, Any], talk: Talk, room: int) -> list[dict[str, str]]:
    """Facts by key. A key that is in use gets a number, so that no fact replaces another."""
    known = "\n".join(talk.before)
    used = {line.removeprefix("- ").partition(":")[0] for line in talk.before}
    categories = field["items"]["properties"].get("category", {}).get("enum", [])
    facts = []
    for sentence in best([one for one in _stated(talk) if one not in known], room // 2, talk.stressed):
        key = name = _key(sentence)
        number = 1
        while key in used:
            number += 1
            key = f"{name}_{number}"
        used.add(key)
        fact = {"key": key, "value": clip_end(sentence, FACT_TOKENS)}
        facts.append(fact | ({"category": categories[-1]} if categories else {}))
    return facts


def _key(sentence: str) -> str:
    """The last three words before the first number, id or date in a sentence, or the first ones after it."""
    first = next((span for span, hard in scan(sentence) if hard), "")
    before, _, after = sentence.partition(first) if first else (sentence, "", "")
    words = _content_words(before)[-3:] or _content_words(after)[:3]
    return "_".join(words) or "fact"


def _content_words(text: str) -> list[str]:
    return [word for word in _LETTERS.findall(text.casefold()) if word not in COMMON_WORDS]


def sentences(text: str) -> list[str]:
    """The sentences of `text` in order, without bullets and markup at their start, and without blank ones."""
    lines = (_BULLET.sub("", line, count=1).replace("**", "") for line in text.splitlines())
    parts = (part.strip() for line in lines for part in _SENTENCE.split(line))
    return [piece for part in parts for piece in _PIECES.wrap(part)]


def unique_sentences(texts: Iterable[str]) -> list[str]:
    """The distinct sentences of all `texts`, in order."""
    return list(dict.fromkeys(sentence for text in texts for sentence in sentences(text)))


def on_question(texts: Iterable[str], question: str, limit: int) -> list[str]:
    """Up to `limit` sentences of `texts` that share rare words with `question`, best first.

    A sentence scores 1 more for each of up to two numbers or ids, and a half if it begins with a word of the question,
    as labels do. Questions score half. Among equal ones, the latest wins; a repeated one counts at its last position.
    """
    repeated = [sentence for text in texts for sentence in sentences(text)]
    unique = list(dict.fromkeys(reversed(repeated)))[::-1]
    terms = [terms_of(sentence) for sentence in unique]
    seen_in = Counter(term for each in terms for term in each)
    question_terms = terms_of(question)
    scored = []
    for at, each in enumerate(terms):
        # Sets are in another order in each process, and a sum of floats depends on its order; this one does not.
        score = math.fsum(math.log(1 + len(unique) / seen_in[term]) for term in each & question_terms)
        if score > 0 and each != question_terms:
            score += min(2, sum(hard for _, hard in scan(unique[at])))
            score += 0.5 * bool(terms_of(unique[at].split(maxsplit=1)[0]) & question_terms)
            scored.append((score / (2 if unique[at].endswith("?") else 1), at))
    return [clip_end(unique[at], LONGEST_SENTENCE) for _, at in heapq.nlargest(limit, scored)]


def terms_of(text: str) -> set[str]:
    """Words that distinguish sentences, with plurals folded; pairs of characters in scripts without spaces."""
    words = {word.rstrip("s") for word in _WORD.findall(text.casefold()) if word not in COMMON_WORDS}
    terms = {word for word in words if len(word) > 2 or word.isdigit()}
    ideographs = "".join(CJK.findall(text))
    return terms | {ideographs[at : at + 2] for at in range(len(ideographs) - 1)}


def best(texts: Iterable[str], max_tokens: int, stressed: Iterable[str] = ()) -> list[str]:
    """The most informative of some sentences, in order; as bullets at most `max_tokens`. Very long ones are cut.

    The choice is greedy: next is the sentence whose spans not yet covered have the highest weight per token. A span
    weighs more the more sentences have it, and more if `stressed` texts do.
    """
    candidates = [clip_end(text, LONGEST_SENTENCE) for text in texts]
    costs = [count_tokens(f"- {text}\n") for text in candidates]
    spans = [{span.casefold(): hard for span, hard in scan(text)} for text in candidates]
    often = Counter(span for each in spans for span in each)
    stressed_spans = {span.casefold() for text in stressed for span, _ in scan(text)}
    covered: set[str] = set()

    def gain(at: int) -> float:
        fresh = (item for item in spans[at].items() if item[0] not in covered)
        weights = (
            _worth(span, hard) * (1 + math.log(often[span])) * (STRESS if span in stressed_spans else 1)
            for span, hard in fresh
        )
        return (sum(weights) + PLAIN_WORTH) / costs[at]

    chosen: list[int] = []
    heap = [(-gain(at), at) for at in range(len(candidates))]
    heapq.heapify(heap)
    while heap:
        before, at = heapq.heappop(heap)
        if costs[at] > max_tokens:
            continue
        # Gains only shrink, so one that is still the highest when it is computed again is the highest.
        if (now := -gain(at)) > before:
            heapq.heappush(heap, (now, at))
            continue
        chosen.append(at)
        covered.update(spans[at])
        max_tokens -= costs[at]
    return [candidates[at] for at in sorted(chosen)]


def _worth(span: str, hard: bool) -> float:
    if not hard:
        return NAME_WORTH
    return AMOUNT_WORTH if _AMOUNT.fullmatch(span) else HARD_WORTH
