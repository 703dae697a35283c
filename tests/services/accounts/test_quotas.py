"""What a call that is stored nowhere reserves, and for how long."""

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
    """Whoever finds it expired takes it for one whose server is gone, and gives back what it reserved."""
    call = PassingCall.objects.get(pk=quotas.begin_passing(make_user("alice").pk, 10))
    assert call.expires_at - timezone.now() > timedelta(seconds=settings.REPLY_DEADLINES.total)
