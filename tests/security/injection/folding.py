"""Fold conversations under a policy without a database, to see how the checks judge every intermediate state."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from chatmemory.llm.offline import OfflineModel
from chatmemory.llm.protocol import Completion, Prompt, PromptMessage, Variant
from conversations.interchange.read import read_chats
from memory.folding import answer_checks
from memory.history.turns import Turn
from memory.limits import MemoryLimits
from memory.policies.protocol import Policy, Refusal, State
from tests.unit.context.makers import make_turn

OWN = Path(__file__).resolve().parents[3] / "conversations" / "samples"
VARIANT = Variant("v", "m")
BITE = 4
"""Turns per fold: few, so that there are many states."""

Summarizer = Callable[[Prompt], str]


@dataclass(frozen=True)
class Step:
    """One fold: the states before and after it, and the turns folded."""

    before: State
    after: State
    turns: Sequence[Turn]

    @property
    def refusal(self) -> str:
        """Why the checks refuse it; "" if they accept it."""
        try:
            answer_checks.check(self.before, self.after, answer_checks.turn_texts(self.turns))
        except Refusal as refusal:
            return refusal.reason
        return ""


def built_in(prompt: Prompt) -> str:
    """Return the built-in model's answer."""
    return OfflineModel().complete(prompt, VARIANT, timeout=1).text


def turns_of(said: Iterable[tuple[str, str]]) -> list[Turn]:
    """Make turns from pairs of a user's and the assistant's texts."""
    return [make_turn(at, user, reply) for at, (user, reply) in enumerate(said)]


def steps(policy: Policy, turns: Sequence[Turn], summarizer: Summarizer, limits: MemoryLimits) -> Iterator[Step]:
    """Yield each fold of `turns`, one batch after another."""
    state = State()
    for start in range(0, len(turns), BITE):
        batch = turns[start : start + BITE]
        after = fold_state(policy, state, batch, summarizer, limits)
        yield Step(state, after, batch)
        state = after


def fold_state(
    policy: Policy, state: State, turns: Sequence[Turn], summarizer: Summarizer, limits: MemoryLimits
) -> State:
    """Return the state after one fold, made as the engine does, but without the checks. Raises `Refusal`."""
    ask = policy.ask(state, turns, limits)
    prompt = Prompt(
        (PromptMessage("user", ask.input),),
        ask.instructions_under(limits),
        schema=ask.schema,
        answer_tokens=ask.answer_tokens,
    )
    return policy.absorb(state, turns, Completion(summarizer(prompt), model="m"), limits)


def recorded(folder: Path) -> Iterator[list[Turn]]:
    """Yield the conversations in the JSON files of a folder, as turns."""
    for path in sorted(folder.glob("*.json")):
        for chat in read_chats(path.read_text(encoding="utf-8")):
            said: list[tuple[str, str]] = []
            for message in chat.messages:
                if message.role == "user":
                    said.append((message.content, ""))
                elif said:
                    said[-1] = (said[-1][0], f"{said[-1][1]}\n\n{message.content}".strip())
            yield turns_of(pair for pair in said if any(pair))
