"""Invented numbers and codes."""

import pytest

from chatmemory.text.figures import KnownFigures

SAID = """My order is QX-7719 for $12,500.50, from 14 May 2026. Call 555-123-4567 or ٠٦٢٨١.
It weighs 2 500 g, see RB40718 and https://shop.example/a/98123."""


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ("My phone is 5551234567.", "Phone: 555-123-4567, (555) 123\u20114567"),
        ("DE89370400440532013000, 4111111111111111", "DE89 3704 0044 0532 0130 00, 4111 1111 1111 1111"),
        ("order ABC123456", "ABC-123-456"),
        ("500 milliliters in 120 square meters, in 1990, for $1,299", "500ml, 120m², 1990s, USD1299"),
        ("16 gigabytes, version 2024.10", "16GB, v2024"),
        ("I earn 15k of 1.5 million and 2 thousand", "15,000 of 1,500,000 and 2000"),
        ("150,000 of 2,000,000", "150k of 2M"),
        ("12 lakh, 3 crore and 2 bn", "1,200,000, then 30,000,000 and 2,000,000,000"),
        ("it cost 1,25,000 rupees", "125,000 or ₹1,25,000"),
        ("it cost 125000 rupees", "₹1,25,000"),
        ("1500", "١٬٥٠٠ or 1️⃣5️⃣0️⃣0️⃣"),
        ("on 14 May 2026 at 9:30", "2026-05-14T09:30, 930"),
        ("我的电话是13912345678,预算1.5万", "用户的电话是13912345678。预算15000元"),
        (SAID, "Order QX7719, qx-7719: 12500.50, 12.500 or 12 500 dollars."),
        (SAID, "Call 5551234567. It has 2500 g."),
        (SAID, "code_rb_40718 of 2026-05-14, number 06281"),
        (SAID, "In 24h, the 3rd of 99 2-hour talks at 10am: 5 of 10."),
        (SAID, "0" * 41 + " and A1" + "b1" * 20),
        (SAID, ""),
    ],
)
def test_figures_in_other_notations_are_known(said: str, text: str) -> None:
    assert KnownFigures([said]).new_in(text) == []


@pytest.mark.parametrize(
    ("said", "text", "new"),
    [
        (SAID, "Order QX-7718 for $12,501.50", ["QX-7718", "12,501"]),
        (SAID, "of 2027, at 125 or １２６", ["2027", "125", "126"]),
        (SAID, "RB4071 and ZZ9", ["4071"]),
        (SAID, "call 555-123-4568", ["4568"]),
        ("My phone is 5551234567.", "Phone: 555-123-4568", ["555", "123", "4568"]),
        ("DE89370400440532013000", "DE89 3704 0044 0532 0131 00", ["3704", "0044", "0532", "0131"]),
        ("order ABC123456", "ABC-123-457", ["ABC-123-457"]),
        ("500 milliliters", "550ml", ["550"]),
        ("I earn 15k", "16,000", ["16,000"]),
        ("1,25,000", "₹1,26,000", ["1,26,000"]),
        ("5,000 for 6", "6,000", ["6,000"]),
        ("12,500", "13,500", ["13,500"]),
        ("我的电话是13912345678", "用户的电话是13912345679。", ["13912345679"]),
    ],
)
def test_figures_that_were_not_said_are_new(said: str, text: str, new: list[str]) -> None:
    assert KnownFigures([said]).new_in(text) == new
