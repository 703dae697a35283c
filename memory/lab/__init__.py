"""The lab: plays recorded conversations through the real engine and compares what policies cost and keep.

The measures are pure and work on values; `replay` feeds one conversation through the services, `runner` gives each
policy a process and a scratch database of its own. Nothing here touches the server's database.
"""
