"""The ways of choosing what a prompt shows of a chat, compared by `benchmarks.recall`: chat and question → texts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from itertools import chain
from math import inf, log

from benchmarks.recall.sets import Chat
from memory.recall.ranking import Near

WITH_EMBEDDINGS = "recall with embeddings"


class Stored:
    """A chat in the database, and as plain BM25 sees it: each message by itself, its terms counted."""

    def __init__(self, chat: Chat) -> None:
        from django.contrib.auth.models import User

        from chatmemory.text.tokens import count_tokens
        from conversations.interchange.rows import import_chat
        from conversations.interchange.values import ImportedChat, ImportedMessage
        from memory.models import ChatEmbeddings
        from memory.recall import embeddings
        from memory.recall.embeddings import near_now
        from memory.recall.terms import terms

        owner, _ = User.objects.get_or_create(username="recall")
        messages = tuple(ImportedMessage(one.role, one.text, created_at=one.at) for one in chat.messages)
        self.row = import_chat(owner, ImportedChat(messages=messages))
        self.row.refresh_from_db()
        self.texts = {seq: text for seq, (_, text, _) in enumerate(chat.messages, start=1)}
        self.tokens = {seq: count_tokens(text) + 4 for seq, text in self.texts.items()}
        self.terms = {seq: terms(text) for seq, text in self.texts.items()}
        self.usual = sum(map(len, self.terms.values())) / len(self.terms)
        self.embeds = embeddings.embeds()
        self.near = cache(partial(near_now, self.row.key))
        if self.embeds:
            embeddings.catch_up(self.row.key, until=inf)
            if ChatEmbeddings.objects.get(pk=self.row.pk).attempts:
                raise RuntimeError("The endpoint did not make all vectors; the log says why.")

    def shown(self, question: str, budget: int) -> dict[str, dict[int, str]]:
        """Return, by way of choosing, the texts by message that a prompt of `budget` tokens would show."""
        shown = {
            "last turns": self._filled({}, budget),
            "plain BM25": self._bm25(question, budget),
            "recall": self._recalled(question, budget),
        }
        if self.embeds:
            shown[WITH_EMBEDDINGS] = self._recalled(question, budget, self.near(question))
        return shown

    def _recalled(self, question: str, budget: int, near: Sequence[Near] = ()) -> dict[int, str]:
        from memory.context.planner import ExcerptChoice
        from memory.recall.question_search import Corpus, Search

        found = Search(Corpus.of_chat(self.row.key, self.row.last_seq + 1), question, near).recalled(budget)
        choice = ExcerptChoice(found.excerpts, budget)
        shown: dict[int, str] = {}
        for quote in chain.from_iterable(choice.quotes):
            piece = found.messages[quote.seq].text[quote.start : quote.end]
            shown[quote.seq] = f"{shown.get(quote.seq, '')} {piece}"
        return self._filled(shown, budget - choice.cost)

    def _bm25(self, question: str, budget: int) -> dict[int, str]:
        from memory.recall.terms import terms

        scores: dict[int, float] = {}
        for term in set(terms(question)):
            having = {seq: said.count(term) for seq, said in self.terms.items() if term in said}
            rarity = log(1 + (len(self.terms) - len(having) + 0.5) / (len(having) + 0.5))
            for seq, times in having.items():
                length = 0.25 + 0.75 * len(self.terms[seq]) / self.usual
                scores[seq] = scores.get(seq, 0.0) + rarity * times * 2.2 / (times + 1.2 * length)
        shown: dict[int, str] = {}
        for seq in sorted(scores, key=lambda seq: (-scores[seq], -seq)):
            if self.tokens[seq] <= budget:
                budget -= self.tokens[seq]
                shown[seq] = self.texts[seq]
        return self._filled(shown, budget)

    def _filled(self, shown: dict[int, str], left: int) -> dict[int, str]:
        """Add to `shown` the newest other messages that fit into the tokens left."""
        for seq in sorted(self.texts, reverse=True):
            if seq not in shown:
                left -= self.tokens[seq]
                if left < 0:
                    break
                shown[seq] = self.texts[seq]
        return shown
