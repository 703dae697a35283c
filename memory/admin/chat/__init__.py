"""The admin page of one chat, and the pages linked from it."""
