"""The parts of `conversations.interchange`: a module for each step from a file's text to values and back."""
