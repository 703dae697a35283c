"""The API as OpenAI's clients know it: Chat Completions with memory, and the list of models."""
