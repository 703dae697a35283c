"""Sign-in for agents whose hosts take no token: OAuth by allauth, for `/mcp` alone, where `MCP_OAUTH` is on.

An agent is known by a URL, whose document says its name and where its codes are sent. The signed-in user decides what
it may do; its tokens hold nowhere else (`AgentAuthentication`). There are no ID tokens, so no key.
"""

import asyncio
import json
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode, urlsplit

import httpcore2
import httpx2
from allauth.idp.oidc import views
from allauth.idp.oidc.internal import cimd, clientkit
from allauth.idp.oidc.internal.oauthlib import authorization_codes
from allauth.idp.oidc.models import Client, Token
from django.conf import settings
from django.contrib.auth.mixins import LoginRequiredMixin
from django.core.exceptions import ValidationError
from django.db import close_old_connections, transaction
from django.db.models import Min, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.shortcuts import redirect, render
from django.urls import include, path, re_path, reverse
from django.utils import timezone
from django.views.decorators.http import require_safe
from django.views.generic import ListView
from oauthlib.oauth2.rfc6749.errors import InvalidGrantError

from chatmemory.api.middleware import CSP_HEADER, PAGE
from chatmemory.errors import RateLimited
from conversations.accounts import quotas
from conversations.accounts.models import Scope
from conversations.webhooks.addresses import url_problem
from conversations.webhooks.delivery import PublicNetwork

SCOPES, GRANTS = [Scope.CHAT.value, Scope.READ_ONLY.value], ["authorization_code", "refresh_token"]
LOOPBACK = ("localhost", "127.0.0.1", "::1")
DOCUMENT_SECONDS, DOCUMENT_MAX_BYTES = 5.0, 16 * 1024


async def _fetched(url: str) -> bytes:
    """A document, from public addresses only, as webhooks are sent."""
    body, headers = b"", [("Accept", "application/json"), ("User-Agent", "chatmemory")]
    async with (
        asyncio.timeout(DOCUMENT_SECONDS),
        httpcore2.AsyncConnectionPool(httpx2.create_ssl_context(), network_backend=PublicNetwork()) as pool,
        pool.stream("GET", url, headers=headers) as answer,
    ):
        async for piece in answer.aiter_stream():
            body += piece
            if answer.status != 200 or len(body) > DOCUMENT_MAX_BYTES:
                raise ValueError(f"Its status is {answer.status}, or it is too long.")
    return body


def _known(client_id: str) -> None:
    """Store an agent as its document describes it now. Raises `ValidationError` with a sentence."""
    if problem := url_problem(client_id, allow_private=settings.WEBHOOK_ALLOW_PRIVATE):
        raise ValidationError(problem)
    url = cimd.validate_client_id(client_id)
    close_old_connections()
    try:
        said = json.loads(asyncio.run(_fetched(client_id)))
        name, addresses = said.get("client_name", url.hostname), said["redirect_uris"]
        if not "".join([name, *addresses]).isprintable():
            raise ValueError("It has invisible characters.")
    except Exception as exc:  # any error that a document provokes is its own
        raise ValidationError(f"The agent's document cannot be read. {str(exc) or type(exc).__name__}") from exc
    about = {"client_id": said.get("client_id"), "client_name": name, "redirect_uris": addresses}
    client = cimd.validate_metadata(client_id, url, {**about, "scope": " ".join(SCOPES), "grant_types": GRANTS})
    client._state.adding = False  # it may be known already
    client.save()


class AgentConsent(LoginRequiredMixin, views.AuthorizationView):
    """Asks the signed-in user. Until they answer, no browser is sent to an address that an agent chose."""

    def get(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        query, mcp = request.GET, request.build_absolute_uri(reverse("mcp"))
        if not query.get("scope"):
            return HttpResponseRedirect(f"?{urlencode({**query.dict(), 'scope': ' '.join(SCOPES)})}")
        try:
            asked = [one.rstrip("/") for one in query.getlist("resource")]
            if asked != [mcp] or query.get("code_challenge_method") != "S256":
                raise ValidationError(f"It must ask for the resource {mcp}, with a code challenge by S256.")
            quotas.require_request_left(request.user.pk)  # type: ignore[arg-type]  # a user is signed in
            quotas.count_request(request.user.pk)  # type: ignore[arg-type]
            _known(query.get("client_id", ""))
            answer = super().get(request, *args, **kwargs)
            if answer.status_code == 302 and not isinstance(answer, HttpResponseRedirect):  # back to the agent
                raise ValidationError("It asks for something that this server does not give.")
        except (ValidationError, RateLimited) as exc:
            return render(request, "idp/oidc/error.html", {"error": {"description": exc.message}}, status=400)
        return answer

    def render_to_response(self, context: dict[str, Any], **options: Any) -> HttpResponse:
        """The page's policy lets its form lead on to the agent, by whichever scheme that is called."""
        to = urlsplit(self._request_info["redirect_uri"])
        context |= {"host": urlsplit(context["client"].pk).hostname, "to": to.hostname or to.scheme}
        answer = super().render_to_response(context, **options)
        answer[CSP_HEADER] = PAGE.replace("form-action 'self'", f"form-action 'self' {to.scheme}:")
        return answer


class AgentTokens(views.TokenView):
    """Holds a refresh token during its exchange: it works once; a revocation waits, and ends the new tokens, too."""

    @transaction.atomic
    def post(self, request: HttpRequest) -> HttpResponse:
        Token.objects.select_for_update().by_value(request.POST.get("refresh_token", "")).first()
        return super().post(request)


class Agents(LoginRequiredMixin, ListView):  # type: ignore[type-arg]  # takes none when it runs
    """The agents that a person has let in, each to be sent away."""

    template_name = "sign_in/agents.html"

    def get_queryset(self) -> QuerySet[Client]:
        theirs = Token.objects.valid().filter(user=self.request.user.pk)
        known = Client.objects.filter(token__in=theirs.exclude(type=Token.Type.AUTHORIZATION_CODE))
        return known.annotate(since=Min("token__created_at"), may=Min("token__scopes")).order_by("name", "pk")

    def post(self, request: HttpRequest) -> HttpResponse:
        Token.objects.filter(user=request.user.pk, client=request.POST.get("agent", "")).delete()
        return redirect("agents")


class Codes:
    """allauth's codes in the database: its cache is a process's own, and the next request may come to another."""

    def set(self, key: str, code: dict[str, Any], timeout: int) -> None:
        kept = Token(type=Token.Type.AUTHORIZATION_CODE, client_id=code["client_id"], user_id=code["sub"], data=code)
        kept.expires_at = timezone.now() + timedelta(seconds=timeout)
        kept.set_value(key)
        kept.save()

    def get(self, key: str) -> Any:
        return getattr(Token.objects.lookup(Token.Type.AUTHORIZATION_CODE, key), "data", None)

    def delete(self, key: str) -> None:
        if not Token.objects.by_value(key).delete()[0]:
            raise InvalidGrantError  # another request was first


authorization_codes.cache = Codes()  # type: ignore[attr-defined, assignment]  # all that it uses of a cache
# Programs on a computer have ports of their own. Some use this name, which RFC 8252 advises against.
clientkit.is_loopback = lambda parsed_uri: parsed_uri.scheme == "http" and parsed_uri.hostname in LOOPBACK


@require_safe
def described(request: HttpRequest) -> HttpResponse:
    """What `/mcp` is (RFC 9728), and where agents get tokens for it (RFC 8414): readers of either skip the rest."""
    site = request.build_absolute_uri("/")[:-1]
    about = {
        "resource": site + reverse("mcp") + "/" * request.path.endswith("/"),  # as the agent calls it, to the letter
        "authorization_servers": [site],
        "bearer_methods_supported": ["header"],
        "issuer": site,
        "authorization_endpoint": site + reverse("idp:oidc:authorization"),
        "token_endpoint": site + reverse("idp:oidc:token"),
        "revocation_endpoint": site + reverse("idp:oidc:revoke"),
        "scopes_supported": SCOPES,
        "response_types_supported": ["code"],
        "grant_types_supported": GRANTS,
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": ["none"],
        "client_id_metadata_document_supported": True,
    }
    return JsonResponse(about, headers={"Access-Control-Allow-Origin": "*"})


_served = [
    path("authorize", AgentConsent.as_view(), name="authorization"),
    path("token", AgentTokens.as_view(), name="token"),
    path("revoke", views.revoke, name="revoke"),
]
urlpatterns = [
    path("accounts/agents/", Agents.as_view(), name="agents"),
    path("accounts/agents/", include(([path("", include((_served, "oidc")))], "idp"))),
    re_path(r"^\.well-known/oauth-(?:protected-resource(?:/mcp/?)?|authorization-server)$", described),
]
