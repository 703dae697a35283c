"""The pages below `/accounts/`: Django's sign-in, the provider's, and allauth's that are needed, as we show them."""

from typing import Any

from django.contrib.auth.views import LoginView, LogoutView
from django.core.exceptions import BadRequest
from django.http import HttpRequest
from django.urls import include, path
from django.utils.module_loading import import_string
from django.views.decorators.cache import never_cache
from django.views.generic import RedirectView

from conversations.sign_in.password import PasswordSignIn


def _later(name: str, **options: Any) -> Any:
    """A view that is loaded by the first who needs it: libraries of passkeys and signatures take 11 MB."""

    @never_cache
    def view(request: HttpRequest, **kwargs: Any) -> Any:
        found = import_string(name)
        try:
            return (found.as_view(**options) if options else found)(request, **kwargs)
        except KeyError as exc:  # fido2's
            raise BadRequest("What a passkey answered lacks a part.") from exc

    return view


def _page(view: str, template: str) -> Any:
    package, _, name = view.rpartition(".")
    return _later(f"allauth.{package}.views.{name}View", template_name=f"sign_in/{template}.html")


SIGN_IN: Any = {
    "template_name": "admin/login.html",
    "authentication_form": PasswordSignIn,
    "extra_context": {"title": "Sign in", "passkeys": True},
}
CODES = "mfa.recovery_codes"
SECOND_FACTORS = [
    path("", _page("mfa.base.Index", "index"), name="mfa_index"),
    path("app/add/", _page("mfa.totp.ActivateTOTP", "add_app"), name="mfa_activate_totp"),
    path("app/remove/", _page("mfa.totp.DeactivateTOTP", "remove"), name="mfa_deactivate_totp"),
    path("codes/", _page(f"{CODES}.ViewRecoveryCodes", "codes"), name="mfa_view_recovery_codes"),
    path(
        "codes/new/", _page(f"{CODES}.GenerateRecoveryCodes", "new_codes"), name="mfa_generate_recovery_codes"
    ),
]
PASSKEYS = [
    path("", RedirectView.as_view(pattern_name="mfa_index"), name="mfa_list_webauthn"),
    path("add/", _page("mfa.webauthn.AddWebAuthn", "add_passkey"), name="mfa_add_webauthn"),
    path("<int:pk>/remove/", _page("mfa.webauthn.RemoveWebAuthn", "remove"), name="mfa_remove_webauthn"),
    path("again/", _page("mfa.webauthn.ReauthenticateWebAuthn", "again"), name="mfa_reauthenticate_webauthn"),
    path("login/", _page("mfa.webauthn.LoginWebAuthn", "again"), name="mfa_login_webauthn"),
]
urlpatterns = [
    path("login/", LoginView.as_view(**SIGN_IN), name="account_login"),
    path("logout/", LogoutView.as_view(next_page="landing"), name="account_logout"),
    path("oidc/", _later("conversations.sign_in.oidc.begin"), name="oidc"),
    path("oidc/callback/", _later("conversations.sign_in.oidc.back"), name="oidc_callback"),
    path("password/", _page("account.Reauthenticate", "again"), name="account_reauthenticate"),
    path("code/", _page("mfa.base.Authenticate", "code"), name="mfa_authenticate"),
    path("code/again/", _page("mfa.base.Reauthenticate", "again"), name="mfa_reauthenticate"),
    path("second-factors/", include(SECOND_FACTORS)),
    path("passkeys/", include(PASSKEYS)),
]
