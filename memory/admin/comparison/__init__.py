"""Policies compared on one chat: the pages, the result as a sentence, and the plot."""
