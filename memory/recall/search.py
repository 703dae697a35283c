"""Search all messages of a user, or those of one chat, with the recall index; best first.

For common words only the newest messages are found (on PostgreSQL: some); a message that has all words is always
among them.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import nlargest
from uuid import UUID

from django.contrib.auth.models import User

from chatmemory.database.rows import byte_size, count_fitting
from chatmemory.text.thoughts import visible_text
from conversations.models import MEMORY_COLUMNS, Chat, Message, messages_at
from memory.recall.index import OF_MESSAGES, owner_matches
from memory.recall.question import Question, read_question
from memory.recall.question_search import MAX_PER_TERM
from memory.recall.ranking import Indexed, score_alone
from memory.recall.terms import highlights, passages, terms

MAX_QUERY_CHARS = 2000
"""The longest query, in characters: more would not find more."""
MAX_READ = 80
"""Messages that are read closely."""
ASSUMED_MESSAGES = 20_000
"""Number of messages that rarity is computed against, as an owner's messages are not counted."""

Place = tuple[UUID, int]
Passage = tuple[int, int]
"""The index of a passage, and how many passages of its message the index has."""


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
        found = OF_MESSAGES.postings(chat.pk, chat.owner_id, tokens, before=chat.last_seq + 1, limit=MAX_PER_TERM)
        return [[(chat.pk, seq) for seq in seqs] for seqs in found]

    return _search(chat.owner_id, text, limit, look_up)


def _search(owner_id: int, text: str, limit: int, look_up: Callable[[list[str]], list[list[Place]]]) -> list[Hit]:
    question = read_question(text, owner_id)
    if not question.words:
        return []
    tokens = [word.token for word in question.words]
    *each, together = look_up([*tokens, " ".join(tokens)])
    worth = [
        word.weight * ASSUMED_MESSAGES / (ASSUMED_MESSAGES + len(found) ** 2)
        for word, found in zip(question.words, each, strict=True)
    ]
    scores: dict[Place, float] = defaultdict(float)
    for found, gain in zip(each, worth, strict=True):
        for place in found:
            scores[place] += gain
    scores |= dict.fromkeys(together, sum(worth) + 1)
    promising = nlargest(MAX_READ, scores, key=lambda place: (scores[place], place[0].int, place[1]))
    rows = messages_at(owner_id, promising).values_list("id", "chat_id", "seq", "role", "token_count", "terms")
    ranked: list[tuple[float, int, int, UUID, Passage]] = []
    for pk, chat_id, seq, role, count, stored in rows:
        indexed = Indexed(seq, role == "user", count, tuple((stored or "").split("\n")))
        score, passage = score_alone(question, worth, indexed)
        best = passage, len(indexed.passages)
        ranked.append((score, chat_id.int, seq, pk, best))  # of equal ones, the newer is better
    ranked.sort(reverse=True)
    return _hits(owner_id, [(pk, passage) for *_, pk, passage in ranked[:limit]], set(terms(text)))


@dataclass(frozen=True, slots=True)
class PassageMatches:
    """Messages of a chat that have all words in one passage, newest first. `is_cut`: older ones may, too."""

    seqs: tuple[int, ...] = ()
    hits: tuple[Hit, ...] = ()
    """The newest of them, as many as were requested and fit into a response."""
    is_cut: bool = False


def find_passages(chat: Chat, question: Question, limit: int) -> PassageMatches:
    """Find the messages of `chat` that have all words of `question` in one passage, with hits for at most `limit`."""
    tokens = [word.token for word in question.words]
    if not tokens:
        return PassageMatches()
    joined, before = [" ".join(tokens)], chat.last_seq + 1
    (found,) = OF_MESSAGES.postings(chat.pk, chat.owner_id, joined, before=before, limit=MAX_PER_TERM)
    there = messages_at(chat.owner_id, [(chat.pk, seq) for seq in found])
    rows = there.order_by("-seq").values_list("pk", "seq", "terms")
    places: list[tuple[UUID, int, Passage]] = []
    for pk, seq, stored in rows:
        lines = (stored or "").split("\n")
        passage = next((at for at, line in enumerate(lines) if set(tokens).issubset(line.split())), None)
        places += [] if passage is None else [(pk, seq, (passage, len(lines)))]
    words = {word.term for word in question.words}
    hits = _hits(chat.owner_id, [(pk, passage) for pk, _, passage in places[:limit]], words)
    return PassageMatches(tuple(seq for _, seq, _ in places), tuple(hits), len(found) >= MAX_PER_TERM)


def _hits(owner_id: int, places: Sequence[tuple[UUID, Passage]], words: set[str]) -> list[Hit]:
    """Make hits of messages and their passages, in this order: as many as fit into a response."""
    rows = Message.objects.filter(owner_id=owner_id).defer(*MEMORY_COLUMNS)
    sizes = dict(rows.filter(pk__in=[pk for pk, _ in places]).values_list("pk", byte_size(rows)))
    there = [place for place in places if place[0] in sizes]
    messages = rows.in_bulk([pk for pk, _ in there[: count_fitting([sizes[pk] for pk, _ in there])]])
    hits: list[Hit] = []
    for message, (passage, stored) in [(messages[pk], passage) for pk, passage in there if pk in messages]:
        text = visible_text(message.content, message.role)
        spans = passages(text, stored)
        start, end = spans[min(passage, len(spans) - 1)] if spans else (0, 0)
        snippet = text[start:end].strip()
        hits.append(Hit(message, snippet, tuple(highlights(snippet, words))))
    return hits
