"""The pages below `/accounts/`: Django's sign-in, the provider's, and allauth's of second factors."""

from allauth.account.views import reauthenticate
from django.contrib.auth.views import LoginView, LogoutView
from django.urls import include, path

from conversations.sign_in import oidc
from conversations.sign_in.password import PasswordSignIn

SIGN_IN = {"template_name": "admin/login.html", "authentication_form": PasswordSignIn}
urlpatterns = [
    path("login/", LoginView.as_view(**SIGN_IN, extra_context={"title": "Sign in"}), name="account_login"),
    path("logout/", LogoutView.as_view(next_page="landing"), name="account_logout"),
    path("oidc/", oidc.begin, name="oidc"),
    path("oidc/callback/", oidc.back, {"provider_id": oidc.PROVIDER}, name="openid_connect_callback"),
    path("password/", reauthenticate, name="account_reauthenticate"),
    path("second-factors/", include("allauth.mfa.urls")),
]
