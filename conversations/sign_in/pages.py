"""allauth's views in our pages, and the two of the OpenID provider."""

from typing import Any

from allauth.account.views import ReauthenticateView
from allauth.mfa.base import views as mfa
from allauth.mfa.recovery_codes import views as recovery
from allauth.mfa.totp import views as totp
from allauth.mfa.webauthn import views as webauthn
from allauth.socialaccount.providers.oauth2.views import OAuth2CallbackView, OAuth2LoginView
from django.conf import settings
from django.contrib.auth.views import LoginView
from django.http import Http404, HttpRequest, HttpResponseBase
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from conversations.sign_in.oidc import OidcAdapter
from conversations.sign_in.password import PasswordSignIn


@require_safe
def oidc_begin(request: HttpRequest) -> HttpResponseBase:
    """To the provider. By a link: browsers forbid a form of a page with our policy to lead elsewhere."""
    return _oidc(request, OAuth2LoginView)


@never_cache
@require_safe
def oidc_callback(request: HttpRequest) -> HttpResponseBase:
    """Back from the provider."""
    return _oidc(request, OAuth2CallbackView)


def _oidc(request: HttpRequest, view: Any) -> HttpResponseBase:
    if not settings.OIDC_ISSUER:
        raise Http404
    answer: HttpResponseBase = view.adapter_view(OidcAdapter(request, settings.OIDC_ISSUER))(request)
    return answer


sign_in = LoginView.as_view(
    template_name="admin/login.html",
    authentication_form=PasswordSignIn,
    next_page="landing",
    extra_context={"title": "Sign in", "passkeys": True},
)


def _page(view: Any, template: str, title: str) -> Any:
    return never_cache(view.as_view(template_name=f"sign_in/{template}.html", extra_context={"title": title}))


password_again = _page(ReauthenticateView, "again", "Confirm that it is you")
code_again = _page(mfa.ReauthenticateView, "again", "Confirm that it is you")
passkey_again = _page(webauthn.ReauthenticateWebAuthnView, "again", "Confirm that it is you")
code = _page(mfa.AuthenticateView, "code", "Second factor")
index = _page(mfa.IndexView, "index", "Second factors")
add_app = _page(totp.ActivateTOTPView, "add_app", "Add an authenticator app")
remove_app = _page(totp.DeactivateTOTPView, "remove", "Remove the authenticator app")
codes = _page(recovery.ViewRecoveryCodesView, "codes", "Recovery codes")
new_codes = _page(recovery.GenerateRecoveryCodesView, "new_codes", "New recovery codes")
add_passkey = _page(webauthn.AddWebAuthnView, "add_passkey", "Add a passkey")
remove_passkey = _page(webauthn.RemoveWebAuthnView, "remove", "Remove a passkey")
passkey = webauthn.login_webauthn
