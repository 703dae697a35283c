"""The events of a reply are encoded once for all readers."""

from conversations.models import Message
from conversations.replies.events import ReplyEvents


def test_a_reader_that_was_sent_on_changes_the_ending_of_no_other() -> None:
    """While a process drains, one reader may leave just before the reply ends, and another read on to its end."""
    events = ReplyEvents()
    assert b"event: reconnect" in events.ending(None)
    assert b"event: message.completed" in events.ending(Message(status="complete", role="assistant"))
