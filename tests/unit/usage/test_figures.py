"""How numbers are formatted for people."""

from decimal import Decimal

import pytest

from memory.usage.figures import short, usd


@pytest.mark.parametrize(
    ("number", "told"),
    [
        *((0, "0"), (7, "7"), (1234, "1,234"), (9999, "9,999"), (10_000, "10.0k"), (12_345, "12.3k")),
        *((123_456, "123k"), (999_499, "999k"), (999_600, "1.00M"), (4_560_000, "4.56M")),
        *((2.5e9, "2.50B"), (1.2e13, "12,000B")),
    ],
)
def test_numbers_for_people(number: float, told: str) -> None:
    assert short(number) == told


@pytest.mark.parametrize(
    ("amount", "told"),
    [
        *((0, "$0.00"), (0.0123, "$0.0123"), (0.00001234, "$0.000012")),
        *((Decimal("12.345"), "$12.35"), (1234.5, "$1,234.50")),
    ],
)
def test_money_for_people(amount: float, told: str) -> None:
    assert usd(amount) == told
