"""The endpoint `/mcp`: each message of the protocol is one POST, and its answer is JSON."""

from urllib.parse import urlsplit

from django.conf import settings
from django.core.exceptions import DisallowedHost
from drf_spectacular.utils import extend_schema
from rest_framework.exceptions import ParseError, PermissionDenied
from rest_framework.permissions import IsAuthenticated
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from chatmemory.api.error_handler import NO_SUCH_NAME
from chatmemory.api.http import EventStreamRenderer
from chatmemory.errors import InvalidRequest
from conversations.accounts.authentication import AgentAuthentication
from memory.mcp import protocol, tools
from memory.mcp.protocol import Asked, ProtocolError


class McpView(APIView):
    """Has neither sessions nor streams of its own: clients get 405 for GET and DELETE, as the protocol allows."""

    authentication_classes = [AgentAuthentication]  # never a session: another site could use a browser's
    permission_classes = [IsAuthenticated]
    throttle_classes = []
    renderer_classes = [JSONRenderer, EventStreamRenderer]  # the second for clients that ask for a stream by GET: 405

    def handle_exception(self, exc: Exception) -> Response:
        """Say which names the server has, and where agents get a token (RFC 9728)."""
        if isinstance(exc, DisallowedHost):
            exc = InvalidRequest(NO_SUCH_NAME)
        answer = super().handle_exception(exc)
        if answer.status_code == 401 and settings.MCP_OAUTH:
            document = self.request.build_absolute_uri(f"/.well-known/oauth-protected-resource{self.request.path_info}")
            answer["WWW-Authenticate"] = f'Bearer resource_metadata="{document}"'
        return answer

    @extend_schema(exclude=True)
    def post(self, request: Request) -> Response:
        host, origin = request.get_host(), request.headers.get("Origin")  # the first refuses hosts that are not ours
        if origin and urlsplit(origin).netloc != host and origin not in settings.CORS_ALLOWED_ORIGINS:
            # Also a page whose name was made to lead here (DNS rebinding) is of another site.
            raise PermissionDenied("Pages of this origin may not ask: see CORS_ALLOWED_ORIGINS.")
        asked = None
        try:
            asked = protocol.read(request.data, request.headers)
            if asked.id is None:
                return Response(status=202)
            if asked.stands_alone:
                protocol.check(asked, request.headers)
            return Response(protocol.result(asked, _served(request, asked)))
        except (ParseError, ProtocolError) as exc:
            error = exc if isinstance(exc, ProtocolError) else ProtocolError(protocol.PARSE_ERROR, str(exc))
            status, message = protocol.refused(error, asked)
            return Response(message, status=status)


def _served(request: Request, asked: Asked) -> dict[str, object]:
    """The result of a request. Raises `ProtocolError`."""
    allowed = tools.tools_for(request)
    match asked.method, asked.stands_alone:
        case ("initialize", False) | ("server/discover", True):
            return protocol.opening(asked)
        case "ping", False:
            return {}
        case "tools/list", _:
            return {"tools": [tool.described() for tool in allowed.values()], **protocol.CACHED}
        case "tools/call", _:
            if not (tool := allowed.get(str(asked.params.get("name")))):
                raise ProtocolError(protocol.INVALID_PARAMS, f"This token may call {', '.join(allowed)} alone.")
            return tools.call(tool, request, asked.params.get("arguments") or {})
    raise ProtocolError(
        protocol.NO_SUCH_METHOD, "There is no such method: this server has tools, but neither prompts nor resources."
    )
