"""Sessions in the database. Anonymous sessions are short, since strangers make them."""

from django.contrib.auth import SESSION_KEY
from django.contrib.sessions.backends import db

STRANGERS_SECONDS = 15 * 60
"""Time to sign in: at the provider, with a passkey, or by the code after the password."""


class SessionStore(db.SessionStore):
    def get_session_cookie_age(self) -> int:
        return super().get_session_cookie_age() if SESSION_KEY in self else STRANGERS_SECONDS
