"""What a prompt quotes of the owner's other chats: whether the question calls for it, and which excerpts have room.

The question is searched in all that was said in the chat's scope, as if that were one long chat. It must call for
earlier turns in the same way as within a chat, and this one must not answer it.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from chatmemory.text.markers import ELSEWHERE_HEADING
from chatmemory.text.thoughts import visible_text
from chatmemory.text.tokens import count_tokens, heading_cost
from conversations.models import Chat, messages_at
from memory.context.plan import ChatQuotes, QuotedChat, Section, elsewhere_section
from memory.context.prompt import NOTHING_ELSEWHERE
from memory.limits import MemoryLimits
from memory.models import MemoryScope, ScopedMessage
from memory.recall.question_search import Corpus, Recalled, Search
from memory.recall.ranking import DAY, Quote, Recall, RecalledMessage

SHARE, SHARE_OF_WHOLE = 0.2, 0.7
"""Largest share of the prompt's budget for excerpts of other chats: they displace excerpts of this one, or, while this
chat is whole in the prompt, nothing.

When it was chosen, separate sessions had 94 % of the evidence of one long chat with 0.7, in RealMem and in REALTALK;
with 0.65 91 and 94 %, with 0.2 47 and 75 % (`make evidence`).
"""
ANSWERED = 0.9
"""A message answers a question if it has, together with its neighbours, this share of the weight of its words."""


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """What is quoted of other chats, and why, or why not. `recall` is None in a chat that shares nothing of that."""

    recall: Recall | None = None
    quotes: tuple[ChatQuotes, ...] = ()
    section: Section = NOTHING_ELSEWHERE


def find_elsewhere(
    chat: Chat, question: str, before_seq: int, limits: MemoryLimits, free: int, *, disarms: bool, is_whole: bool
) -> Elsewhere:
    """Find excerpts of other chats for `question`, the message `before_seq` of `chat`, in at most `free` tokens.

    The chat shares what is said. None if this chat answers it: while it `is_whole` in the prompt, by all words of the
    question that were said anywhere, otherwise by as many as the best of the excerpts has.
    """
    if not limits.recalls:
        return Elsewhere(Recall("none", "off"))
    scope = MemoryScope.objects.filter(owner=chat.owner_id, project=chat.project).first()
    if scope is None:
        return Elsewhere(Recall("none", "nothing_new"))
    search = Search(Corpus.of_scope(scope, chat.key), question)
    here = Search(Corpus.of_chat(chat.key, before_seq), question)
    recall = search.decision(limits, known=here.matches.words)
    share = SHARE_OF_WHOLE if is_whole else SHARE
    room = min(free, int(limits.prompt_budget * share)) if recall.sought != "none" else 0
    found = search.recalled(room)
    if not found.excerpts:
        return Elsewhere(recall)
    words = search.matches.words | here.matches.words if is_whole else found.words
    if here.matches.best(search.matches.total) >= ANSWERED * search.matches.total(words):
        return Elsewhere(Recall("none", "answered_here"))
    return _fitting(scope, recall, found, room, disarms=disarms)


def _fitting(scope: MemoryScope, recall: Recall, found: Recalled, room: int, *, disarms: bool) -> Elsewhere:
    """Quote as much of what was `found` as fits into `room` tokens, the best first."""
    chosen: list[tuple[str, Quote]] = []
    chats: dict[str, QuotedChat] = {}
    places, left = _places(scope, found.messages), room - heading_cost(ELSEWHERE_HEADING)
    for excerpt in found.excerpts:
        if (number := excerpt.quote.seq) not in places:
            continue
        other, seq, title = places[number]
        cost = excerpt.tokens + (-DAY if other in chats else count_tokens(title))
        if cost <= left:
            left -= cost
            chosen.append((other, excerpt.quote._replace(seq=seq)))
            chats.setdefault(other, QuotedChat(title, {})).messages[seq] = replace(found.messages[number], seq=seq)
    while chosen:  # joined text can cost more than its parts
        quotes = _in_order(chosen, chats)
        section = elsewhere_section(quotes, chats, disarms=disarms)
        if section.tokens <= room:
            return Elsewhere(recall, quotes, section)
        chosen.pop()
    return Elsewhere(recall)


def quoted_chats(owner_id: int, quotes: Iterable[tuple[str, Quote]]) -> dict[str, QuotedChat]:
    """Return the other chats that are quoted, by id, as they are now, with the quoted messages that still exist."""
    rows = messages_at(owner_id, {(UUID(chat), quote.seq) for chat, quote in quotes}).exclude(content="")
    chats: dict[str, QuotedChat] = {}
    columns = ("chat_id", "chat__title", "id", "seq", "role", "created_at", "content", "token_count")
    for chat_id, title, pk, seq, role, at, text, tokens in rows.values_list(*columns):
        there = chats.setdefault(str(chat_id), QuotedChat(title, {}))
        there.messages[seq] = RecalledMessage(pk, seq, role, str(at)[:10], visible_text(text, role), tokens)
    return chats


def _places(scope: MemoryScope, numbers: Iterable[int]) -> dict[int, tuple[str, int, str]]:
    """Return the chat, the seq and the chat's title of the scope's messages with these numbers."""
    rows = ScopedMessage.objects.filter(scope=scope, number__in=list(numbers))
    columns = rows.values_list("number", "chat_id", "seq", "chat__title")
    return {number: (str(chat), seq, title) for number, chat, seq, title in columns}


def _in_order(chosen: Sequence[tuple[str, Quote]], chats: Mapping[str, QuotedChat]) -> tuple[ChatQuotes, ...]:
    """Sort quotes by chat, the chats by the day of their first quote."""
    by_chat: dict[str, list[Quote]] = defaultdict(list)
    for chat, quote in sorted(chosen):
        by_chat[chat].append(quote)
    first = {chat: chats[chat].messages[quotes[0].seq].on for chat, quotes in by_chat.items()}
    return tuple(ChatQuotes(chat, tuple(by_chat[chat])) for chat in sorted(by_chat, key=lambda one: (first[one], one)))
