"""OpenAI-compatible API: Chat Completions and Responses with memory, embeddings, and the list of models."""
