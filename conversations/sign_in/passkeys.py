"""How a passkey is added. Not in `password`, which the worker loads as well: the libraries for it take 11 MB."""

from allauth.mfa.webauthn.forms import AddWebAuthnForm
from django import forms


class AddPasskey(AddWebAuthnForm):
    """A key is a passkey, unless the user unchecks it."""

    passwordless = forms.BooleanField(
        required=False,
        initial=True,
        help_text="The key signs you in without a password. If you come by single sign-on, it is asked for after that.",
    )
