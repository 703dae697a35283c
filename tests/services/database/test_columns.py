"""The limits on an upstream's answers fit the columns that store them, on every database."""

from decimal import Decimal
from typing import Any

import pytest
from django.db.models import DecimalField, Model

from chatmemory.config.declared import MAX_VARIANT_CHARS
from chatmemory.llm.openai import reading
from chatmemory.llm.protocol import MAX_COST_USD
from conversations.models import ActiveReply, ChatCompletion, Message
from memory.folding.publish import MAX_STORED_TOKENS
from memory.models import ChatEmbeddings, SummaryRevision, UsageDay

POSITIVE_INTEGER = 2**31 - 1
"""The largest value of PostgreSQL's `integer`."""


def field(model: type[Model], name: str) -> Any:
    return model._meta.get_field(name)


@pytest.mark.parametrize(
    ("model", "name", "most"),
    [
        (Message, "model", reading.MAX_MODEL_CHARS),
        (SummaryRevision, "model", reading.MAX_MODEL_CHARS),
        (Message, "response_id", reading.MAX_ID_CHARS),
        (ActiveReply, "model", reading.MAX_MODEL_CHARS),
        (ChatCompletion, "model", reading.MAX_MODEL_CHARS),
        (ChatEmbeddings, "model", reading.MAX_MODEL_CHARS),
        (Message, "model_variant", MAX_VARIANT_CHARS),
        (ActiveReply, "model_variant", MAX_VARIANT_CHARS),
        (UsageDay, "model_variant", MAX_VARIANT_CHARS),
    ],
)
def test_texts_fit(model: type[Model], name: str, most: int) -> None:
    assert most <= field(model, name).max_length


def test_token_counts_fit() -> None:
    assert reading.MAX_TOKENS * 2 <= POSITIVE_INTEGER, "a fold makes two calls at most"
    assert MAX_STORED_TOKENS == POSITIVE_INTEGER
    for model, names in (
        (Message, "input_tokens cached_tokens output_tokens"),
        (SummaryRevision, "input_tokens output_tokens"),
    ):
        for name in names.split():
            assert field(model, name).get_internal_type() == "PositiveIntegerField"


@pytest.mark.parametrize("model", [Message, SummaryRevision])
def test_costs_fit(model: type[Model]) -> None:
    column = field(model, "cost_usd")
    assert isinstance(column, DecimalField)
    assert Decimal(10) ** (column.max_digits - column.decimal_places) > MAX_COST_USD
    assert MAX_COST_USD.quantize(Decimal(1).scaleb(-column.decimal_places)) == MAX_COST_USD
