"""How often somebody may try to sign in: under one name, and from one address, within a minute.

An attempt counts before the password is looked at, and is given back when it was right; so guesses in parallel do not
get further than guesses in turn, and nobody who knows the password is counted. Exact as `quotas` are.
"""

from __future__ import annotations

from collections.abc import Iterable

from django.conf import settings
from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now
from django.utils.crypto import salted_hmac

from conversations import quotas
from conversations.limits import Window
from conversations.models import SignInAttempts

NAMES_PER_ADDRESS = 10
"""How many times as much one address may try: a school is behind one, and a guesser changes names."""


def take(username: str, address: str) -> tuple[str, ...]:
    """Count an attempt; what to give back by. Raises `RateLimited`."""
    most = settings.LIMIT_SIGN_INS
    if not quotas.are_on() or not most:
        return ()
    allowed = {_key("name", username.casefold()): most, _key("address", address): NAMES_PER_ADDRESS * most}
    with transaction.atomic():
        for key in sorted(allowed):  # in one order, so that two of them do not wait for each other
            _count(key, allowed[key])
    return tuple(allowed)


def give_back(keys: Iterable[str]) -> None:
    """The password was right."""
    SignInAttempts.objects.filter(key__in=keys).update(count=F("count") - 1)


def _count(key: str, allowed: int) -> None:
    SignInAttempts.objects.bulk_create([SignInAttempts(key=key, minute=Now())], ignore_conflicts=True)
    row = SignInAttempts.objects.select_for_update().annotate(now=Now()).get(key=key)
    window = Window(row.minute, row.count).at(row.now)
    if (refusal := window.refusal("sign_ins", allowed, row.now)) is not None:
        raise quotas.refused(refusal)
    after = window.one_more()
    SignInAttempts.objects.filter(key=key).update(minute=after.since, count=after.count)


def _key(kind: str, text: str) -> str:
    return salted_hmac(f"chatmemory.sign-in.{kind}", text, algorithm="sha256").hexdigest()
