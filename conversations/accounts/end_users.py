"""Apps and their end users: make them, and find the account of an end user by the id that the app gives.

The account of an end user has the name `app/id`, which no other account can have: elsewhere a user's name has no
slash. It has neither a password nor tokens of its own.
"""

import hashlib
from collections.abc import Iterator
from typing import Final

from django.conf import settings
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from rest_framework.exceptions import AuthenticationFailed, ValidationError

from chatmemory.text.cleaning import normalized
from conversations.accounts import quotas
from conversations.accounts.models import App, EndUser

MAX_ID_CHARS: Final = 200
"""Length of the longest id of an end user."""
RESERVED_ENDINGS: Final = ("/export", "/memory", "/deletion")
"""Endings that no id may have, as they are paths of an end user's resources."""
_MAX_NAME_CHARS: Final = 150
"""The longest name that Django's user model stores."""


def app_id_of(user: User) -> int | None:
    """Return the app that the chats of a user belong to; None for users who have nothing to do with one."""
    if (end_user := getattr(user, "end_user", None)) is not None:
        return int(end_user.app_id)
    app = getattr(user, "app", None)
    return None if app is None else int(app.pk)


def create_account(name: str) -> User:
    """Make a normal account without a password. Raises Django's `ValidationError` for a bad or taken name."""
    user = User(username=name)
    user.set_unusable_password()
    user.full_clean(exclude=["password"])
    user.save()
    return user


def create_app(name: str, *, requires_end_user: bool = True) -> App:
    """Make an app and its account. Raises Django's `ValidationError` for a bad or taken name."""
    with transaction.atomic():
        return App.objects.create(user=create_account(name), requires_end_user=requires_end_user)


def checked_id(text: str) -> str:
    """Return the id of an end user as it is stored. Raises DRF's `ValidationError` unless `text` can be one."""
    if not (external_id := _as_stored(text)):
        raise ValidationError(
            {
                "user": f"The id of an end user has 1 to {MAX_ID_CHARS} printable characters, and is neither `.` nor "
                f"`..`; it does not end with {' or '.join(f'`{end}`' for end in RESERVED_ENDINGS)}."
            }
        )
    return external_id


def find_end_user(app: App, external_id: str) -> EndUser | None:
    """Return an end user of an app, with the account; None if there is none of that id."""
    if not (stored := _as_stored(external_id)):
        return None
    return app.end_users.select_related("user").filter(external_id=stored).first()


def create_end_user(app: App, external_id: str) -> EndUser:
    """Make an end user of an app, unless another request just did.

    Raises DRF's `ValidationError` for a bad id, its `AuthenticationFailed` if the app is gone, and `RateLimited`.
    """
    external_id = checked_id(external_id)
    # Not in the transaction below: the deletion of an app locks the rows in another order.
    quotas.take_now("new_end_users", app.pk, settings.LIMIT_NEW_END_USERS_PER_MINUTE)
    for name in _account_names(app, external_id):
        user = User(username=name)
        user.set_unusable_password()
        try:
            with transaction.atomic():
                user.save()
                return EndUser.objects.create(user=user, app=app, external_id=external_id)
        except IntegrityError:  # another request was first, or another user's account has the name
            if found := find_end_user(app, external_id):
                return found
    raise AuthenticationFailed


def _as_stored(text: str) -> str:
    """Return an id trimmed and in composed form; "" if it is not valid in a URL path, by which it is deleted."""
    text = normalized("NFC", text.strip())
    is_text = text.isprintable() and len(text) <= MAX_ID_CHARS
    return text if is_text and text not in (".", "..") and not text.endswith(RESERVED_ENDINGS) else ""


def _account_names(app: App, external_id: str) -> Iterator[str]:
    """Yield names for the account of an end user. The second, for an id too long or taken, is unique to the app."""
    name = f"{app.user.get_username()}/{external_id}"
    if len(name) < _MAX_NAME_CHARS:
        yield name
    digest = hashlib.sha256(f"{app.pk}/{external_id}".encode()).hexdigest()[:16]
    yield f"{name[: _MAX_NAME_CHARS - 17]}/{digest}"
