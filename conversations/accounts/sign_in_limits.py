"""Limit sign-in attempts per minute: for a name from one address, for an address, and for a name.

An attempt is counted before the password is checked, and given back if the password was right. So parallel guesses
get no further than sequential ones, and users who know their password are not counted. Counts are as exact as those of
`quotas`.

The lowest limit is for a name together with an address, so that a stranger's guesses do not lock out a name's owner.
The limit for a name from all addresses is ten times as high: it slows down guesses that come from many addresses at
once.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from ipaddress import IPv6Address, IPv6Network, ip_address
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils.crypto import salted_hmac

from conversations.accounts import quotas

ADDRESS_FACTOR = 10
"""Factor for the attempts of one address on all names: a school may share one address, and a guesser changes names."""
NAME_FACTOR = 10
"""Factor for the attempts on one name from all addresses together."""
IPV6_NETWORK_BITS = 64
"""Prefix length of the smallest network that a provider gives a customer: its addresses count as one."""


@contextmanager
def attempt(username: str, address: str) -> Iterator[None]:
    """Count an attempt, and uncount it unless the block, which checks the password, raises. Raises `RateLimited`."""
    limit, name, origin = settings.LIMIT_SIGN_INS, username.casefold(), network_of(address)
    allowed = {
        _key("name-and-address", f"{origin} {name}"): limit,
        _key("address", origin): ADDRESS_FACTOR * limit,
        _key("name", name): NAME_FACTOR * limit,
    }
    with _counted("sign_ins", allowed):
        yield


@contextmanager
def code_attempt(user_id: int) -> Iterator[None]:
    """The same for a code of a second factor: as many an hour, from all addresses together.

    A guesser of codes knows the password already, so strangers lock out no user; and a code has only six digits.
    """
    with _counted("second_factors", {user_id: settings.LIMIT_SIGN_INS}):
        yield


@contextmanager
def _counted(kind: str, allowed: dict[Any, int]) -> Iterator[None]:
    if not quotas.enabled() or not settings.LIMIT_SIGN_INS:
        yield
        return
    keys = sorted(allowed)  # in a fixed order, so that two attempts cannot deadlock
    with transaction.atomic():
        for key in keys:
            quotas.take(kind, key, allowed[key])
    yield
    with transaction.atomic():
        for key in keys:
            quotas.give_back(kind, key)


def network_of(address: str) -> str:
    """Return the address by which attempts are counted: the network for IPv6; other text is unchanged."""
    with suppress(ValueError):
        found = ip_address(address)
        if isinstance(found, IPv6Address):
            if found.ipv4_mapped is not None:
                return str(found.ipv4_mapped)
            return str(IPv6Network((int(found), IPV6_NETWORK_BITS), strict=False))
    return address


def _key(kind: str, text: str) -> str:
    return salted_hmac(f"chatmemory.sign-in.{kind}", text, algorithm="sha256").hexdigest()
