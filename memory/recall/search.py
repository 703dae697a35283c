"""Search all messages of a user, or those of one chat, with the recall index; best first.

For common words only the newest messages are found (on PostgreSQL: some); a message that has all words is always
among them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from heapq import nlargest
from operator import or_
from uuid import UUID

from django.contrib.auth.models import User
from django.db.models import Q, QuerySet

from chatmemory.database.rows import byte_size, count_fitting
from conversations.models import MEMORY_COLUMNS, Chat, Message
from memory.recall.index import owner_matches, postings
from memory.recall.question import Question, read_question
from memory.recall.ranking import Indexed, score_alone
from memory.recall.terms import highlights, passages, terms

MAX_READ = 80
"""Messages that are read closely."""
ASSUMED_MESSAGES = 20_000
"""Number of messages that rarity is computed against, as an owner's messages are not counted."""

Place = tuple[UUID, int]


@dataclass(frozen=True, slots=True)
class Hit:
    """A message that was found: the passage that matches best, and the ranges of the matches in it."""

    message: Message
    snippet: str
    matches: tuple[tuple[int, int], ...]


def search(owner: User, text: str, limit: int) -> list[Hit]:
    """Return the messages of `owner` that match `text`, best first, at most `limit`."""
    return _search(owner.pk, text, limit, lambda tokens: owner_matches(owner.pk, tokens))


def search_chat(chat: Chat, text: str, limit: int) -> list[Hit]:
    """Return the messages of one chat that match `text`, best first, at most `limit`."""

    def look_up(tokens: list[str]) -> list[list[Place]]:
        found = postings(chat.pk, tokens, before_seq=chat.last_seq + 1)
        return [[(chat.pk, seq) for seq in one.seqs] for one in found]

    return _search(chat.owner_id, text, limit, look_up)


def _search(
    owner_id: int, text: str, limit: int, look_up: Callable[[list[str]], list[list[Place]]]
) -> list[Hit]:
    asked = read_question(text, owner_id)
    if not asked.words:
        return []
    tokens = [word.token for word in asked.words]
    *each, together = look_up([*tokens, " ".join(tokens)])
    worth = [
        word.weight * ASSUMED_MESSAGES / (ASSUMED_MESSAGES + len(found) ** 2)
        for word, found in zip(asked.words, each, strict=True)
    ]
    promising = _promising(each, together, worth)
    ranked = sorted(_ranked(asked, worth, promising), key=lambda one: one[0], reverse=True)[:limit]
    return _hits([(pk, passage) for _, pk, passage in ranked], set(terms(text)))


@dataclass(frozen=True, slots=True)
class PassageMatches:
    """Messages of a chat that have all words in one passage, newest first. `is_cut`: older ones may, too."""

    seqs: tuple[int, ...] = ()
    hits: tuple[Hit, ...] = ()
    """The newest of them, as many as were requested and fit into a response."""
    is_cut: bool = False


def said_in(chat: Chat, asked: Question, limit: int) -> PassageMatches:
    """Find the messages of `chat` that have all words of `asked` in one passage, with hits for at most `limit`."""
    wanted = {word.token for word in asked.words}
    if not wanted:
        return PassageMatches()
    (found,) = postings(chat.pk, [" ".join(word.token for word in asked.words)], before_seq=chat.last_seq + 1)
    rows = _at([(chat.pk, seq) for seq in found.seqs]).order_by("-seq").values_list("pk", "seq", "terms")
    places = [
        (pk, seq, passage)
        for pk, seq, stored in rows
        if (passage := _passage_with(wanted, stored or "")) is not None
    ]
    hits = _hits([(pk, at) for pk, _, at in places[:limit]], {word.term for word in asked.words})
    return PassageMatches(tuple(seq for _, seq, _ in places), tuple(hits), found.is_cut)


def _passage_with(tokens: set[str], stored: str) -> int | None:
    """The index of the first passage in a message's stored terms that has all of `tokens`."""
    lines = stored.split("\n")
    return next((at for at, line in enumerate(lines) if tokens.issubset(line.split())), None)


def _promising(
    each: Sequence[Sequence[Place]], together: Sequence[Place], worth: Sequence[float]
) -> list[Place]:
    scores: dict[Place, float] = defaultdict(float)
    for found, gain in zip(each, worth, strict=True):
        for place in found:
            scores[place] += gain
    for place in together:
        scores[place] = sum(worth) + 1
    return nlargest(MAX_READ, scores, key=lambda place: (scores[place], place[0].int, place[1]))


def _ranked(
    asked: Question, worth: Sequence[float], places: Sequence[Place]
) -> list[tuple[tuple[float, int, int], UUID, int]]:
    """How well each message matches (of equal ones, the newer is better), and its best passage."""
    rows = _at(places).values_list("id", "chat_id", "seq", "role", "token_count", "terms")
    ranked = []
    for pk, chat_id, seq, role, tokens, stored in rows:
        indexed = Indexed(seq, role == "user", tokens, tuple((stored or "").split("\n")))
        score, passage = score_alone(asked, worth, indexed)
        ranked.append(((score, chat_id.int, seq), pk, passage))
    return ranked


def _at(places: Sequence[Place]) -> QuerySet[Message]:
    by_chat: dict[UUID, list[int]] = defaultdict(list)
    for chat_id, seq in places:
        by_chat[chat_id].append(seq)
    # Each alternative uses an index: with one more that has none, SQLite would read the whole table.
    each = [Q(chat_id=chat_id, seq__in=seqs) for chat_id, seqs in by_chat.items()]
    return Message.objects.filter(reduce(or_, each)) if each else Message.objects.none()


def _hits(ranked: Sequence[tuple[UUID, int]], wanted: set[str]) -> list[Hit]:
    """Make hits of the messages and their passages, in this order."""
    messages = _fitting([pk for pk, _ in ranked])
    return [_hit(messages[pk], passage, wanted) for pk, passage in ranked if pk in messages]


def _fitting(ranked: Sequence[UUID]) -> dict[UUID, Message]:
    """The first of these messages, as many as fit into a response."""
    rows = Message.objects.defer(*MEMORY_COLUMNS)
    sizes = dict(rows.filter(pk__in=ranked).values_list("pk", byte_size(rows)))
    there = [pk for pk in ranked if pk in sizes]
    return rows.in_bulk(there[: count_fitting([sizes[pk] for pk in there])])


def _hit(message: Message, passage: int, wanted: set[str]) -> Hit:
    spans = passages(message.content)
    start, end = spans[min(passage, len(spans) - 1)] if spans else (0, 0)
    snippet = message.content[start:end].strip()
    return Hit(message, snippet, tuple(highlights(snippet, wanted)))
