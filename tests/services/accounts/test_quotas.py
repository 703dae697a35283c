"""How long the tokens stay reserved for a call that is not stored."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.conf import settings
from django.utils import timezone

from conversations.accounts import quotas
from conversations.models import PassingCall
from tests.support.factories import make_user


@pytest.mark.django_db
def test_it_is_held_for_longer_than_a_call_may_take() -> None:
    """A call found expired is taken for one whose server is gone, and its reserved tokens are given back."""
    call = PassingCall.objects.get(pk=quotas.begin_passing(make_user("alice").pk, 10))
    assert call.expires_at - timezone.now() > timedelta(seconds=settings.REPLY_DEADLINES.total)
