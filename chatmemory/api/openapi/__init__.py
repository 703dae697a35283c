"""The parts of the OpenAPI schema that drf-spectacular does not infer."""
