"""Tests of the API as clients see it: every request here goes over HTTP to a real server."""
