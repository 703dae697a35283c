"""The page of one chat, for staff, and the pages behind it."""
