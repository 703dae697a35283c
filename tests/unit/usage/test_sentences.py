"""The sentence that describes the sums of a period."""

from __future__ import annotations

from dataclasses import replace

import pytest

from memory.admin.overview.sentences import FEWEST_CARDS, cards_sentence, kept_sentence, net, too_many_bad
from memory.admin.overview.totals import totals_of

NOTHING = totals_of([], [])
SOME = replace(NOTHING, compared=9, saved_tokens=12_800, fold_tokens=142_000, saved_usd=0.02, fold_usd=0.05)


def test_net_that_costs_more_says_why() -> None:
    assert net(SOME, cost=False, is_priced=True) == (
        "Net: memory saved 12.8k tokens and summary updates took 142k: 129k tokens more than sending whole chats. "
        "Short chats take more to summarize than they save; this reverses as they grow."
    )
    assert " In money: $0.0200 saved, $0.0500 spent: $0.0300 more." in net(SOME, cost=True, is_priced=True)


def test_what_is_not_known_is_not_told_as_zero() -> None:
    assert " What the updates cost is not known." in net(SOME, cost=True, is_priced=False)
    assert "$0.0300 more, as far as prices are known." in net(
        replace(SOME, unpriced=3), cost=True, is_priced=True
    )
    unknown = replace(SOME, compared=0)
    assert net(unknown, cost=True, is_priced=True) == (
        "Summary updates took 142k tokens. What memory saved is not yet known."
    )
    assert net(NOTHING, cost=True, is_priced=True) == ""


def test_without_updates_all_that_was_saved_is_net() -> None:
    told = net(replace(SOME, fold_tokens=0, fold_usd=0.0), cost=True, is_priced=False)
    assert "took 0: 12.8k tokens less" in told
    assert told.endswith("$0.0200 less.")


@pytest.mark.parametrize(
    ("asked", "kept", "bad"), [(0, 0, False), (100, 95, False), (100, 94, True), (FEWEST_CARDS - 1, 0, False)]
)
def test_more_than_five_in_a_hundred_are_too_many(asked: int, kept: int, *, bad: bool) -> None:
    assert too_many_bad(replace(NOTHING, cards=asked, cards_kept=kept)) == bad


def test_few_cards_are_not_judged() -> None:
    assert cards_sentence(replace(NOTHING, cards=3, cards_kept=1)).endswith("Too few to judge.")


def test_what_is_not_kept_is_not_lost() -> None:
    assert kept_sentence(0.39, is_recalled=True) == (
        "39% of names, numbers and dates kept in summaries; everything can still be found by recall."
    )
    assert kept_sentence(0.39, is_recalled=False).endswith("everything is still stored.")
    assert kept_sentence(None, is_recalled=True) == ""
