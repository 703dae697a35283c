"""Which chat a request of an OpenAI client goes to, whatever the client makes of its history.

The oracle is written down once, in `Conversation.check`: the chat that a request went to holds exactly the questions of
that conversation, in order, and no others, and so does the prompt. Only a first request, and one that goes back, makes
a chat, or the first one after a side request that looked like a question.
"""

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from conversations.models import Chat, ChatCompletion, Message
from tests.api.histories import DECISION, NAME, answer_text, assistant, questions, send, user
from tests.support.exhaustive import first_of
from tests.support.fakes.upstream import FakeUpstream
from tests.support.live_server import Client

# Examples of each class


def talk(client: Client, *texts: str, headers: dict[str, str] | None = None) -> list[dict[str, Any]]:
    """Ask these questions one by one, with the whole history, and return it."""
    told: list[dict[str, Any]] = []
    for text in texts:
        told.append(user(text))
        told.append(assistant(answer_text(send(client, told, headers))))
    return told


def test_trimmed_history_never_matches_another_users_chat(alice: Client, upstream: FakeUpstream) -> None:
    """Ann and Bob use one token, and the last they said was the same; Bob goes back to edit his last question."""
    ann = [user("My PIN is 4711."), assistant("Noted."), user("Thanks"), assistant("You said: Thanks")]
    bob = [user("I like tea."), assistant("Noted."), user("Thanks"), assistant("You said: Thanks")]
    anns = send(alice, [*ann, user("Good night")]).headers[NAME]
    bobs = send(alice, [*bob, user("Good morning")]).headers[NAME]
    edited = send(alice, [*bob[2:], user("What do I like?")])
    assert edited.headers[NAME] not in (anns,)
    assert "4711" not in upstream.requests[-1].text
    assert questions(bobs) == ["I like tea.", "Thanks", "Good morning"]


@pytest.mark.parametrize("field_name", ["user", "safety_identifier"])
def test_end_users_that_are_named_are_kept_apart(alice: Client, upstream: FakeUpstream, field_name: str) -> None:
    history = [user("My name is Ann and I live in the old harbour."), assistant("You said: so you do")]
    first = send(alice, [*history, user("One")], None, **{field_name: "ann"})
    chat = first.headers[NAME]
    told = [*history, user("One"), assistant(answer_text(first)), user("Two")]
    others: tuple[dict[str, Any], ...] = ({field_name: "bob"}, {})
    for value in others:
        other = send(alice, told, None, **value)
        assert (other.headers[DECISION], other.headers[NAME] != chat) == ("imported", True)
        named = send(alice, [user("Three")], {"x-conversation-id": chat}, **value)
        assert named.headers[NAME] != chat
    assert send(alice, told, None, **{field_name: "ann"}).headers[NAME] == chat


def test_the_name_is_part_of_a_request(alice: Client, upstream: FakeUpstream) -> None:
    body = [user("What is my name?")]
    first = send(alice, body, {"x-conversation-id": "a"})
    retry = send(alice, body, {"x-conversation-id": "b", "x-stainless-retry-count": "1"})
    assert retry.headers[NAME] != first.headers[NAME]
    key = {"Idempotency-Key": "k"}
    send(alice, body, {"x-conversation-id": "c", **key})
    asked = {"model": "arco", "messages": body}
    again = alice.post("chat/completions", json=asked, headers={"x-conversation-id": "d", **key})
    assert again.status_code == 422


def test_an_empty_answer_attaches_to_nothing(alice: Client, upstream: FakeUpstream) -> None:
    first = send(alice, [user("My secret is 4711."), assistant("Noted."), user("thanks")])
    sent = [user("x"), assistant("y"), user("thanks"), assistant(""), user("what did I say first?")]
    other = send(alice, sent)
    assert other.headers[NAME] != first.headers[NAME]
    assert "4711" not in upstream.requests[-1].text


@pytest.mark.parametrize(
    ("headers", "messages"),
    [
        ({"x-openwebui-task": "title_generation"}, [user("Name this chat in three words.")]),
        ({}, [user("### Task:\nGenerate a concise title.\n### Chat History:\nUSER: One")]),
        ({}, [user("Another agent's task"), assistant("Its answer"), user("Its next step")]),
    ],
)
def test_a_side_request_of_a_named_conversation_is_stored_nowhere(
    alice: Client, upstream: FakeUpstream, headers: dict[str, str], messages: list[dict[str, Any]]
) -> None:
    name = {"x-openwebui-chat-id": "chat-7"}
    chat = send(alice, [user("One")], name).headers[NAME]
    side = send(alice, messages, {**name, **headers})
    assert side.headers[DECISION] == "not stored"
    assert NAME not in side.headers
    assert questions(chat) == ["One"]
    assert Chat.objects.count() == 1
    assert "One" not in upstream.requests[-1].text.replace("USER: One", "")
    assert send(alice, [user("Two")], name).headers[NAME] == chat, "who sends only the new message goes on"


REWRITTEN: dict[str, Callable[[str], str]] = {
    "trimmed white space": lambda text: f"  {text}\r\n",
    "thinking removed": lambda text: text.removeprefix("You said: "),
    "citations": lambda text: f"{text} [1][2]",
    "a fence": lambda text: f"```\n{text}\n```\n</code>",
}


def test_an_answer_edited_by_hand_is_kept_as_an_edit(alice: Client, upstream: FakeUpstream) -> None:
    edited = "Nothing of what you had said was right."
    for headers in ({}, {"x-conversation-id": "edits"}):
        start = [user(f"One {len(headers)}"), assistant("You said: it"), user("Two")]
        first = send(alice, start, headers)
        after = send(alice, [*start, assistant(edited), user("Three")], headers)
        assert after.headers[NAME] == first.headers[NAME]
        reply = Message.objects.get(chat_id=after.headers[NAME], seq=4)
        assert (reply.content, reply.edited_at is not None) == (edited, True)
        assert edited in upstream.requests[-1].text


def test_a_named_conversation_follows_deletions(alice: Client, upstream: FakeUpstream) -> None:
    name = {"x-conversation-id": "deletions"}
    messages = talk(alice, "My name is Ada", "My PIN is 4711", "I live in Kiel", headers=name)
    kept = [*messages[:2], *messages[4:]]
    answer = send(alice, [*kept, user("What is my PIN?")], name)
    assert questions(answer.headers[NAME]) == ["My name is Ada", "I live in Kiel", "What is my PIN?"]
    assert "4711" not in upstream.requests[-1].text
    assert send(alice, [user("And now?")], name).headers[NAME] == answer.headers[NAME]


def test_an_empty_chat_that_is_named_takes_a_history(alice: Client, upstream: FakeUpstream) -> None:
    chat = alice.post("chats", json={"title": "Empty"}).json()["id"]
    answer = send(alice, [user("One"), assistant("Two"), user("Three")], {"x-conversation-id": chat})
    assert (answer.headers[NAME], answer.headers[DECISION]) == (chat, "continued")


REWORDED: dict[str, Callable[[str, int], str]] = {
    "retrieved documents": lambda text, n: f"Use these documents.\n<doc>{'lorem ' * 40}{n}</doc>\n\n{text}",
    "the date": lambda text, n: f"[2026-11-{n:02}] {text}",
    "open files": lambda text, n: f"{text}\n\nOpen files:\n```\nfile{n}.py\n```",
}


def test_the_same_turns_in_two_chats_lead_to_neither(alice: Client, upstream: FakeUpstream) -> None:
    """Bob goes back behind his last turn, with a history of the two before it, which Ann's chat ends with."""
    ann = talk(alice, "My PIN is 4711", "Hi", "Thanks")
    bob = talk(alice, "I like tea", "Hi", "Thanks", "Bye")
    for history in (bob[2:6], ann[2:6]):
        assert send(alice, [*history, user("What did I say first?")]).headers[DECISION] == "imported"
        assert "4711" not in upstream.requests[-1].text
    imported = [user("I like milk"), assistant("Good."), *bob[2:6]]
    send(alice, [*imported, user("Bye")])
    assert send(alice, [*imported[2:], user("What did I say first?")]).headers[DECISION] == "imported"
    assert "4711" not in upstream.requests[-1].text


def test_a_trimmed_history_is_not_known_by_its_hash(alice: Client, upstream: FakeUpstream) -> None:
    """Ann's client trims, and sends what Bob's sends when it trims."""
    ann = talk(alice, "My PIN is 4711", "Hi", "Thanks")
    assert send(alice, [*ann[2:], user("Sleep well")]).headers[DECISION] == "continued"
    bob = talk(alice, "I like tea", "Hi", "Thanks", "Sleep well", "Bye")
    assert send(alice, [*bob[2:8], user("What did I say first?")]).headers[DECISION] == "imported"
    assert "4711" not in upstream.requests[-1].text


@pytest.mark.parametrize(
    "answer",
    first_of(
        [
            "The balance of your account today is 5 dollars in total",
            "The balance of your account today is 5",
            "The",
            "Is in all the dollars and 1 2 3 words of today 900 account balance of your total is The",
        ]
    ),
)
def test_an_answer_with_another_number_is_another_persons(alice: Client, upstream: FakeUpstream, answer: str) -> None:
    text = "The balance of your account today is 900 dollars in total"
    upstream.script("stream", f"normal?text={quote(text)}", "normal?text=You%20are%20welcome")
    first = send(alice, [user("What is my balance?")])
    told = [user("What is my balance?"), assistant(answer_text(first)), user("Thanks")]
    send(alice, told)
    history = [user("What is my balance?"), assistant(answer), user("Thanks"), assistant("You are welcome")]
    assert send(alice, [*history, user("Repeat it")]).headers[DECISION] == "imported"
    assert "900" in answer or "900" not in upstream.requests[-1].text


def test_a_prompt_that_quotes_the_last_turn_is_a_side_request(alice: Client, upstream: FakeUpstream) -> None:
    name = {"x-conversation-id": "quoted"}
    told = answer_text(send(alice, [user("I would like to go to Oslo")], name))
    prompt = (
        "Please write a short title of at most five words for this conversation, in the language of the user, without "
        "quotation marks, punctuation or any explanation of what you did and why:\n\n"
        f"User: I would like to go to Oslo\nAI: {told}"
    )
    assert send(alice, [user(prompt)], name).headers[DECISION] == "not stored"
    assert send(alice, [user(prompt.replace(told, "What then?"))], name).headers[DECISION] == "continued"


# Many of them, against the oracle


ELSEWHERE = "It is there."


@dataclass
class Conversation:
    """A conversation as its person sees it, in a client that does one thing to its history."""

    client: Client
    upstream: FakeUpstream
    random: random.Random
    number: int
    end_user: str
    kind: str
    turns: list[tuple[str, str, str]] = field(default_factory=list)
    """Question as the client keeps it, question as it was sent, answer as the client keeps it."""
    chat: str = ""
    has_asked_aside: bool = False
    """Whether the last request looked like a question and was none."""
    wrong: list[str] = field(default_factory=list)

    @property
    def headers(self) -> dict[str, str]:
        return {"x-conversation-id": f"conversation {self.number}"} if self.kind.startswith("named") else {}

    @property
    def body(self) -> dict[str, Any]:
        return {"user": self.end_user} if self.end_user else {}

    def step(self) -> None:
        """Do one thing, and compare what became of it with what should."""
        chance = self.random.random()
        if chance < 0.1:
            self.ask_for_a_title()
        elif chance < 0.35 and "side lines" in self.kind and self.turns:
            self.ask_aside()
        elif chance < 0.2 and len(self.turns) > 3 and self.kind not in ("named only new", "reworded"):
            self.turns = self.turns[: -self.random.randint(1, 2)]
            while self.turns[-1][2] == ELSEWHERE:  # no request of ours ended there
                self.turns.pop()
            self.ask(goes_back=True)
        else:
            self.ask()

    def ask_aside(self) -> None:
        """Send the history and a message of the client's own."""
        text = f"Extract what is worth remembering, in run {self.random.randrange(10**9)}."
        self.check_prompt(send(self.client, [*self.history(), user(text)], self.headers, **self.body))
        self.has_asked_aside = True

    def ask_for_a_title(self) -> None:
        before = Chat.objects.count()
        answer = send(
            self.client,
            [user(f"### Task:\nA title for\n<chat_history>{self.turns[-1:]}</chat_history>")],
            self.headers,
            **self.body,
        )
        if answer.headers[DECISION] != "not stored" or Chat.objects.count() != before:
            self.wrong.append(f"a side request was {answer.headers[DECISION]}")

    def ask(self, *, goes_back: bool = False) -> None:
        """Ask the next question."""
        text = self.random.choice(("Thanks.", "Go on.", f"Item {self.random.randrange(10**6)} please"))
        if any(one in self.kind for one in ("trimmed", "summarized", "gap")):  # what two chats have leads to neither
            text = f"{text} It is for number {self.random.randrange(10**9)}"
        if "elsewhere" in self.kind and self.turns and not goes_back and self.random.random() < 0.3:
            other = f"Item {self.random.randrange(10**6)} of another server"
            self.turns += [(other, other, ELSEWHERE)] * self.random.randint(1, 2)
        if not self.turns:
            text = f"Hello, this is about order {self.random.randrange(10**9)}"
        sent = text
        if self.kind == "reworded":
            sent = self.random.choice(list(REWORDED.values()))(text, self.random.randint(10, 30))
        answer = send(self.client, [*self.history(), user(sent)], self.headers, **self.body)
        self.check_prompt(answer)
        told = answer_text(answer)
        if self.kind == "rewritten":
            told = self.random.choice(list(REWRITTEN.values()))(told)
        self.turns.append((text, sent, told))
        self.check(answer, goes_back)

    def history(self) -> list[dict[str, Any]]:
        """What the client keeps."""
        kept, before, last = self.turns, [], self.turns[-self.random.randint(2, 5) :]
        if "trimmed" in self.kind:
            kept = last
        if self.kind == "named only new":
            kept = []
        if "gap" in self.kind and len(self.turns) > len(last) + 1:
            kept = [self.turns[0], *last]
        messages = [one for asked, _, told in kept for one in (user(asked), assistant(told))]
        if "summarized" in self.kind and len(self.turns) > len(last) + 1:
            messages = messages[-2 * len(last) :]
            before = [user(f"Here is a summary of the conversation to date:\n\n{len(self.turns)} things were wanted.")]
            how = self.random.randrange(3)
            if how == 0:
                before.append(assistant("Understood."))
            elif how == 1 and len(last) > 2:
                messages = messages[1:]
        return [*before, *messages]

    def check_prompt(self, answer: httpx.Response) -> None:
        """Check that the model was sent nothing of another conversation."""
        orders = {f"order {one}" for one in re.findall(r"order (\d+)", self.upstream.requests[-1].text)}
        if any(one not in self.turns[0][0] for one in orders if self.turns):
            self.wrong.append(f"{self.kind}: the prompt has something of another conversation ({answer.headers})")

    def check(self, answer: httpx.Response, goes_back: bool) -> None:
        """The oracle."""
        decision, chat = answer.headers[DECISION], answer.headers[NAME]
        is_first = len(self.turns) == 1 and not goes_back
        again = {"branched", "regenerated"}
        if chat != self.chat:  # an earlier branch may end there
            again.add("continued")
        expected = {"new"} if is_first else again if goes_back else {"continued"}
        if self.has_asked_aside:
            expected |= {"branched", "continued"}
        if decision not in expected:
            self.wrong.append(f"{self.kind}: {decision}, not {expected}")
        if not is_first and not goes_back and chat != self.chat and decision == "continued":
            self.wrong.append(f"{self.kind}: it went to another chat")
        if questions(chat) != [sent for _, sent, _ in self.turns]:
            self.wrong.append(f"{self.kind}: the chat holds other questions")
        self.chat, self.has_asked_aside = chat, False


KINDS = [
    *("whole", "trimmed", "rewritten", "reworded", "named", "named trimmed", "named only new", "summarized", "gap"),
    *("elsewhere", "named elsewhere"),
    *(f"{kind} with side lines" for kind in ("whole", "trimmed", "named", "summarized")),
]


def play(clients: list[Client], upstream: FakeUpstream, count: int, seed: int) -> Iterator[Conversation]:
    """Play conversations of two users, each with two end users, six at a time and mixed."""
    dice = random.Random(seed)
    for start in range(0, count, 6):
        group = [
            Conversation(
                dice.choice(clients), upstream, dice, at, dice.choice(("", "ann", "bob")), KINDS[at % len(KINDS)]
            )
            for at in range(start, min(count, start + 6))
        ]
        for _ in range(9 * len(group)):
            dice.choice(group).step()
        yield from group


@pytest.mark.parametrize("count", [15, pytest.param(1000, marks=pytest.mark.slow)])
def test_every_request_goes_where_the_oracle_says(
    alice: Client, bob: Client, upstream: FakeUpstream, settings: Any, count: int
) -> None:
    settings.RATE_LIMITS = False
    wrong = [sentence for one in play([alice, bob], upstream, count, seed=29) for sentence in one.wrong]
    print(f"{len(wrong)} wrong of {count:,} histories, {ChatCompletion.objects.count():,} turns")
    assert wrong == []
