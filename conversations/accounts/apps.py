"""Apps and their end users: make them, and find the account of an end user by the id that the app gives.

The account of an end user has the name `app/id`, which no other account can have: elsewhere a user's name has no
slash. It has neither a password nor tokens of its own.
"""

import hashlib
from typing import Final

from django.contrib.auth.models import User
from django.core.exceptions import ObjectDoesNotExist
from django.db import IntegrityError, transaction
from rest_framework.exceptions import ValidationError

from conversations.models import App, EndUser

MAX_ID_CHARS: Final = 200
"""Length of the longest id of an end user."""
_MAX_NAME_CHARS: Final = 150
"""Of Django's user model."""


def app_id_of(user: User) -> int | None:
    """Return the app that the chats of a user belong to; None for users who have nothing to do with one."""
    try:
        return int(user.end_user.app_id)
    except ObjectDoesNotExist:
        pass
    try:
        return int(user.app.pk)
    except ObjectDoesNotExist:
        return None


def create_app(name: str) -> App:
    """Make an app and its account, which has no password. Raises Django's `ValidationError` for a bad or taken name."""
    user = User(username=name)
    user.set_unusable_password()
    user.full_clean(exclude=["password"])
    with transaction.atomic():
        user.save()
        return App.objects.create(user=user)


def check_id(text: str) -> None:
    """Raise DRF's `ValidationError` unless `text` can be the id of an end user."""
    if not _is_id(text):
        raise ValidationError(f"The id of an end user has 1 to {MAX_ID_CHARS} printable characters.")


def find_end_user(app: App, external_id: str) -> EndUser | None:
    """Return an end user of an app, with the account; None if there is none of that id."""
    if not _is_id(external_id):
        return None
    return app.end_users.select_related("user").filter(external_id=external_id).first()


def create_end_user(app: App, external_id: str) -> EndUser:
    """Make an end user of an app, unless another request just did. Raises DRF's `ValidationError` for a bad id."""
    check_id(external_id)
    user = User(username=_account_name(app.user.get_username(), external_id))
    user.set_unusable_password()
    try:
        with transaction.atomic():
            user.save()
            return EndUser.objects.create(user=user, app=app, external_id=external_id)
    except IntegrityError:  # another request was first
        return app.end_users.select_related("user").get(external_id=external_id)


def _is_id(text: str) -> bool:
    return text.isprintable() and 0 < len(text) <= MAX_ID_CHARS


def _account_name(app_name: str, external_id: str) -> str:
    """Return the name of an end user's account; a hash tells apart what is too long for it."""
    name = f"{app_name}/{external_id}"
    if len(name) <= _MAX_NAME_CHARS:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:16]
    return f"{name[: _MAX_NAME_CHARS - 17]}/{digest}"
