"""Validation of the body of a Chat Completions request. Pure; errors are in OpenAI's words."""
