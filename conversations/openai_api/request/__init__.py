"""The body of a Chat Completions request, checked: pure, and in OpenAI's words where it is wrong."""
