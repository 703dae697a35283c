"""The lab: recorded conversations through the real engine, one policy beside the other, and what each cost and kept.

What measures is pure and works on values; `replay` feeds one conversation through the services, `runner` gives each
policy a process and a scratch database of its own. Nothing here touches the database of the server.
"""
