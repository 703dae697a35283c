"""Recall by meaning: vectors of messages are made, stored and compared with that of the question."""
