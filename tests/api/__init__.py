"""The API as its clients see it: everything here speaks HTTP to a real server and looks at the answers."""
