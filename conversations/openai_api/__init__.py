"""OpenAI-compatible API: Chat Completions with memory, and the list of models."""
