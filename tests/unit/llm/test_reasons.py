"""What an upstream wrote about a request that it rejected: its own words are told, what it quotes is not."""

import pytest

from chatmemory.llm.openai import failures
from chatmemory.llm.protocol import Prompt, PromptMessage

REJECTED = "The model provider rejected the request (400)"
PROMPT = Prompt((PromptMessage("user", "My PIN is 4711 and my dog's name is Rex."),))


@pytest.mark.parametrize(
    ("wrote", "told"),
    [
        (
            "Conversation roles must alternate user/assistant/user/assistant/...",
            f"{REJECTED}: Conversation roles must alternate user/assistant/user/assistant/...",
        ),
        (
            "This model's context doesn't hold it",
            f"{REJECTED}: This model's context doesn't hold it",
        ),
        ("Bad input 'my dog' in \"PIN is\" of `4711`", f"{REJECTED}: Bad input … in … of …"),
        ("[{'input': 'My PIN is 47", f"{REJECTED}: [{{…: …"),
        ("Bad input: My PIN is 4711 and more", f"{REJECTED}."),
        ("", f"{REJECTED}."),
    ],
)
def test_reason_of_a_rejected_request_is_told_without_quotations(wrote: str, told: str) -> None:
    error = failures.from_status(400, {"message": wrote}).reason
    assert failures.explained(error, PROMPT).sentence == told
