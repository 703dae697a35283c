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
        ("This model's context doesn't hold it", f"{REJECTED}: This model's context doesn't hold it"),
        ("Bad input 'my dog' in \"PIN is\" of `4711`", f"{REJECTED}: Bad input … in … of …"),
        ("[{'input': 'My PIN is 47", f"{REJECTED}: [{{…: …"),
        ("Bad input: My PIN is 4711 and more", f"{REJECTED}."),
        ("", f"{REJECTED}."),
    ],
)
def test_rejection_reason_has_no_quotations(wrote: str, told: str) -> None:
    error = failures.from_status(400, {"message": wrote}).reason
    assert failures.with_quotable_reason(error, PROMPT).sentence == told


TOO_LONG = """\
prompt is too long: 205000 tokens > 200000 maximum
The input token count (40000) exceeds the maximum number of tokens allowed (32768).
Input length 40000 exceeds the maximum allowed input length of 32768 tokens
Input is too long for requested model.
This model's maximum prompt length is 131072 but the request contains 140000 tokens.
Range of input length should be [1, 30720]
the request exceeds the available context size (4096 tokens)
Your request exceeded model token limit: 131072
`inputs` tokens + `max_new_tokens` must be <= 4096.
`inputs` must have less than 4095 tokens. Given: 5000
Please reduce the length of the messages or completion.
This model's maximum context length is 4096 tokens. However, you requested 5000 tokens.
input length and `max_tokens` exceed context limit: 199211 + 20000 > 200000
The decoder prompt (length 5000) is longer than the maximum model length of 4096.
Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 300000 tokens.
prompt token count of 140000 exceeds the limit of 128000
Request body too large for gpt-4o model. Max size: 8000 tokens.
too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 5000
Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length
Request too large for model `x` on tokens per minute: Limit 6000, Requested 7000, please reduce your message size
prompt too long; exceeded max context length by 12 tokens
Prompt exceeds max length
Input length (5000) exceeds the maximum allowed length (4096). Use a shorter input or enable truncation.
input is too large to process. increase the physical batch size
Request length 71599 + 2048 is greater than max_seq_len 65536
length of prompt_tokens (40000) must be less than max_seq_len (32768).
The decoder prompt (length 5000) is longer than the maximum model length. For images, the number depends on their size.
unable to process request: the context window is full.
Prompt 超长
Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 40000. See /account/rate-limits
"""
FLAGGED = """\
Content Exists Risk
Input text data may contain inappropriate content.
Content violates usage guidelines. Failed check: SAFETY_CHECK_TYPE_BIO
Invalid prompt: your prompt was flagged as potentially violating our usage policy.
The request was rejected because it was considered high risk
The response was filtered due to the prompt triggering our content management policy.
input contains sensitive words: [x]
"""
OTHERWISE = """\
max_tokens is too large: 100000. This model supports at most 16384 completion tokens
Input validation error: `max_new_tokens` must be <= 512
Input image exceeds the maximum size of 5 MB
Invalid 'tools[0].function.name': string too long.
Too many messages in a row of one role
Too many tokens, please wait before trying again.
This request would exceed your rate limit of 40,000 input tokens per minute. Please reduce the prompt length.
The maximum tokens you requested exceeds the model limit of 4096.
Number of tools exceeds the limit of 128
"""


@pytest.mark.parametrize(
    ("wrote", "code"),
    [
        *((wrote, "context_length_exceeded") for wrote in TOO_LONG.splitlines()),
        *((wrote, "refused") for wrote in FLAGGED.splitlines()),
        *((wrote, "upstream_error") for wrote in OTHERWISE.splitlines()),
    ],
)
def test_prompt_that_is_too_long_or_refused_is_known_by_its_wording_under_any_status(wrote: str, code: str) -> None:
    for error in ({"message": wrote, "code": 400}, wrote, {"detail": [{"msg": wrote}]}):
        for status in (400, 403, 413, 422, 429, 500):
            failure = failures.from_status(status, error)
            assert failure.reason.code == code
            assert not failure.may_retry or code == "upstream_error"
