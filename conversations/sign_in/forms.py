"""allauth's forms that check a secret, each guarded by our counters of wrong ones, which all processes share."""

from typing import Any

from allauth.account.forms import ReauthenticateForm
from allauth.core import context
from allauth.mfa.base.forms import AuthenticateForm
from allauth.mfa.base.forms import ReauthenticateForm as CodeAgainForm
from allauth.mfa.models import Authenticator
from django.core.exceptions import ValidationError
from django.db import transaction

from conversations.accounts import sign_in_limits
from conversations.sign_in.password import told_in_form

REMEMBERED = 5
"""Used codes that are remembered: more than are valid at the same time."""


class OnceCode:
    """Check a code of an authenticator app, or a recovery code. Each is accepted once, in all processes together."""

    user: Any
    authenticator: Authenticator

    def clean_code(self) -> str:
        with told_in_form(), sign_in_limits.code_attempt(self.user.pk), transaction.atomic():
            list(Authenticator.objects.select_for_update().filter(user=self.user))
            code = str(super().clean_code())  # type: ignore[misc]  # of the form beside it
            if self.authenticator.type == Authenticator.Type.TOTP:
                self._use("".join(filter(str.isdigit, code)))  # allauth ignores all between digits
            return code

    def _use(self, code: str) -> None:
        used = self.authenticator.data.get("used", [])
        if code in used:
            raise ValidationError("This code was already used. Wait for the next one.")
        self.authenticator.data["used"] = [*used, code][-REMEMBERED:]
        self.authenticator.save(update_fields=["data"])


class SignInCode(OnceCode, AuthenticateForm):
    """The code after the password."""


class CodeAgain(OnceCode, CodeAgainForm):
    """The code before a change of what lets one in."""


class PasswordAgain(ReauthenticateForm):
    """The password before such a change."""

    def clean_password(self) -> str:
        address = context.request.META.get("REMOTE_ADDR", "")
        with told_in_form(), sign_in_limits.attempt(self.user.get_username(), address):
            return str(super().clean_password())
