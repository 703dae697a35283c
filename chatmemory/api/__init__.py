"""HTTP for every view: request bodies, authentication, errors, middleware and the OpenAPI schema."""
