"""The pages of sign-in below `/accounts/`. They are loaded by the first who needs one: their libraries take 11 MB."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

from django.contrib.auth.views import LogoutView
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.urls import path
from django.views.generic import RedirectView


def page(name: str) -> Callable[..., HttpResponseBase]:
    """The view of this name in `pages`."""

    def view(request: HttpRequest, **kwargs: Any) -> HttpResponseBase:
        answer: HttpResponseBase = getattr(import_module("conversations.sign_in.pages"), name)(
            request, **kwargs
        )
        return answer

    return view


urlpatterns = [
    path("login/", page("sign_in"), name="account_login"),
    path("logout/", LogoutView.as_view(next_page="landing"), name="account_logout"),
    path("oidc/", page("oidc_begin"), name="oidc"),
    path("oidc/callback/", page("oidc_callback"), name="oidc_callback"),
    path("password/", page("password_again"), name="account_reauthenticate"),
    path("code/", page("code"), name="mfa_authenticate"),
    path("code/again/", page("code_again"), name="mfa_reauthenticate"),
    path("second-factors/", page("index"), name="mfa_index"),
    path("second-factors/app/add/", page("add_app"), name="mfa_activate_totp"),
    path("second-factors/app/remove/", page("remove_app"), name="mfa_deactivate_totp"),
    path("second-factors/codes/", page("codes"), name="mfa_view_recovery_codes"),
    path("second-factors/codes/new/", page("new_codes"), name="mfa_generate_recovery_codes"),
    path("passkeys/", RedirectView.as_view(pattern_name="mfa_index"), name="mfa_list_webauthn"),
    path("passkeys/add/", page("add_passkey"), name="mfa_add_webauthn"),
    path("passkeys/<int:pk>/remove/", page("remove_passkey"), name="mfa_remove_webauthn"),
    path("passkeys/again/", page("passkey_again"), name="mfa_reauthenticate_webauthn"),
    path("passkeys/login/", page("passkey"), name="mfa_login_webauthn"),
]
