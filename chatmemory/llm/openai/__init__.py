"""The client for upstreams with OpenAI's Responses or Chat Completions API."""
