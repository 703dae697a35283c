"""Policies compared on one chat: the pages, what the numbers say in a sentence, and the plot."""
