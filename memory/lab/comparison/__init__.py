"""The comparison of policies on a stored chat, which the admin shows."""
