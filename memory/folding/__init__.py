"""Folding: deciding when to fold, asking the summarizer, checking its answer and publishing the new brief."""
