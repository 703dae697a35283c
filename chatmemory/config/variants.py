"""The setting `MODEL_VARIANTS`: a JSON object from public names to models."""

from __future__ import annotations

import json
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from chatmemory.config.kinds import MAX_MODEL_CHARS, bad_value, is_name, name_of
from chatmemory.llm.prices import price_of
from chatmemory.llm.protocol import Price, Variant

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh")
MAX_VARIANT_CHARS = 64
"""The maximum length of a variant's name: that of the columns that store it. A test compares them."""
MAX_PRICE = Decimal(1_000_000)
"""The highest price, in USD per million tokens. Only catches typing errors."""

DEFAULT_VARIANTS = {
    name: Variant(name, model, price=price_of(model))
    for name, model in (("arco", "gpt-5-mini"), ("arco-pro", "gpt-5"), ("deep-dive", "gpt-5.1"))
}


@dataclass(frozen=True, slots=True)
class VariantTable:
    """A JSON object from public name to `{"model", "reasoning_effort"?, "max_output_tokens"?, "price"?}`."""

    allowed: str = "JSON"

    def parse(self, name: str, raw: str) -> dict[str, Variant]:
        try:
            table = json.loads(raw)
        except ValueError:
            raise bad_value(name, raw, "a JSON object from names to model variants") from None
        if not isinstance(table, dict) or not table:
            raise bad_value(name, raw, "a JSON object from names to model variants, with at least one")
        return {key: _variant(f"{name}[{key!r}]", key, value) for key, value in table.items()}


def _variant(where: str, name: str, value: object) -> Variant:
    known = {"model", "reasoning_effort", "max_output_tokens", "price"}
    if not is_name(name, MAX_VARIANT_CHARS):
        raise bad_value(where, name, f"called by {name_of(MAX_VARIANT_CHARS)}")
    if not isinstance(value, dict) or not isinstance(value.get("model"), str) or not value["model"]:
        raise bad_value(where, value, 'an object with a "model"')
    if not is_name(value["model"], MAX_MODEL_CHARS):
        raise bad_value(f"{where}.model", value["model"], name_of(MAX_MODEL_CHARS))
    if unknown := set(value) - known:
        raise bad_value(where, sorted(unknown), f"made of {', '.join(sorted(known))} alone")
    effort, limit = value.get("reasoning_effort"), value.get("max_output_tokens")
    if effort is not None and effort not in EFFORTS:
        raise bad_value(f"{where}.reasoning_effort", effort, f"one of {', '.join(EFFORTS)}")
    if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 1):
        raise bad_value(f"{where}.max_output_tokens", limit, "a whole number of tokens, at least 1")
    price = _price(f"{where}.price", value["price"]) if "price" in value else price_of(value["model"])
    return Variant(name, value["model"], effort, limit, price)


def _price(where: str, value: object) -> Price:
    wanted = f'{{"input", "cached", "output"}} in USD per million tokens, each from 0 to {MAX_PRICE:,}'
    if not isinstance(value, dict) or set(value) != {"input", "cached", "output"}:
        raise bad_value(where, value, wanted)
    try:
        numbers = {key: Decimal(str(number)) for key, number in value.items()}
    except InvalidOperation:
        raise bad_value(where, value, wanted) from None
    if any(not number.is_finite() or not 0 <= number <= MAX_PRICE for number in numbers.values()):
        raise bad_value(where, value, wanted)
    return Price(**numbers)
