"""Index, search, rank and quote the earlier turns that a question is about."""
