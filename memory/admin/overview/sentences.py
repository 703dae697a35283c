"""Sentences about the sums of a period: what memory saved net of what it cost, and how good cards are. Pure."""

from __future__ import annotations

from memory.admin.overview.totals import Totals
from memory.usage.figures import short, usd

MOST_BAD = 0.05
"""The largest acceptable share of unusable cards, of the replies that were to have one."""
FEWEST_CARDS = 20
"""The share is judged from this many cards on."""


def net(totals: Totals, *, cost: bool, is_priced: bool) -> str:
    """Say what memory saved, less what the summarizer used; "" if there was neither.

    It includes money with `cost`, and if `is_priced`: the summarizer's price is known.
    """
    if not totals.compared:
        spent = f"Summary updates took {short(totals.fold_tokens)} tokens."
        return f"{spent} What memory saved is not yet known." if totals.fold_tokens else ""
    more = totals.fold_tokens > totals.saved_tokens
    told = f"Net: {_net_tokens(totals)}"
    told += _net_usd(totals, is_priced=is_priced) if cost else ""
    hint = " Short chats take more to summarize than they save; this reverses as they grow." if more else ""
    return told + hint


def _net_tokens(totals: Totals) -> str:
    saved, spent = totals.saved_tokens, totals.fold_tokens
    left = saved - spent
    than = f"{short(abs(left))} tokens {'less' if left >= 0 else 'more'} than sending whole chats"
    return f"memory saved {short(saved)} tokens and summary updates took {short(spent)}: {than}."


def _net_usd(totals: Totals, *, is_priced: bool) -> str:
    if totals.fold_tokens and not is_priced:
        return " What the updates cost is not known."
    left = totals.saved_usd - totals.fold_usd
    than = f"{usd(abs(left))} {'less' if left >= 0 else 'more'}"
    known = ", as far as prices are known" if totals.unpriced else ""
    return f" In money: {usd(totals.saved_usd)} saved, {usd(totals.fold_usd)} spent: {than}{known}."


def cards_sentence(totals: Totals) -> str:
    """Say how many replies had a usable card, and whether that is enough."""
    counted = f"{totals.cards_kept:,} of {totals.cards:,} replies brought a memory card that could be used."
    if totals.cards < FEWEST_CARDS:
        return f"{counted} Too few to judge."
    if not too_many_bad(totals):
        return f"{counted} At least {1 - MOST_BAD:.0%} is good."
    return (
        f"{counted} Below {1 - MOST_BAD:.0%}, memory lags behind: have cards sent as a function call "
        "(the option as_tool), or choose another model or policy."
    )


def too_many_bad(totals: Totals) -> bool:
    """Whether more cards are bad than acceptable."""
    bad = totals.bad_cards
    return bad is not None and totals.cards >= FEWEST_CARDS and bad > MOST_BAD


def kept_sentence(share: float | None, *, is_recalled: bool) -> str:
    """Say what folds kept, and that the rest is not lost."""
    if share is None:
        return ""
    rest = "everything can still be found by recall" if is_recalled else "everything is still stored"
    return f"{share:.0%} of names, numbers and dates kept in summaries; {rest}."
