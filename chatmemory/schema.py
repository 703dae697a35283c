"""What drf-spectacular cannot see by itself: how tokens are sent, and the one form of all errors."""

from __future__ import annotations

from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension

ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "message"],
            "properties": {
                "code": {"type": "string", "description": "snake_case, for programs"},
                "message": {"type": "string", "description": "for a person"},
                "details": {"type": "object", "additionalProperties": {}},
            },
        }
    },
}


class BearerScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]  # registers its subclasses
    target_class = "chatmemory.http.TokenAuthentication"
    name = "bearer"

    def get_security_definition(self, auto_schema: Any) -> dict[str, Any]:
        return {
            "type": "http",
            "scheme": "bearer",
            "description": "From `POST /v1/auth/token` or `create_token`.",
        }


def with_errors(result: dict[str, Any], generator: Any, request: Any, public: bool) -> dict[str, Any]:
    """A postprocessing hook: every operation may answer with the error body."""
    result["components"]["schemas"]["Error"] = ERROR
    answer = {
        "description": "An error.",
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
    }
    for path in result["paths"].values():
        for operation in path.values():
            if isinstance(operation, dict) and "responses" in operation:
                operation["responses"]["default"] = answer
    return result
