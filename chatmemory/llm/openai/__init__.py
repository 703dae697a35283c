"""The client for upstreams that speak OpenAI's Responses or Chat Completions API."""
