"""Real server processes over a fake upstream: first tokens, streams, memory."""
