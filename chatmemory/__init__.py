"""The shared base: HTTP, database and process plumbing, the clients for models, pure text tools."""
