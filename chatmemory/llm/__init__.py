"""The clients for models: the interface of a model, OpenAI and compatible servers, and the built-in model."""
