"""The sample chat of `quickstart` comes with summaries written for it, and its next fold changes them visibly."""

import json
import time
from pathlib import Path

import pytest

from conversations.models import Chat
from memory.folding.fold import fold
from memory.folding.request import request_resummarize
from memory.management.commands import quickstart
from memory.management.commands.quickstart import BY_HAND, SAMPLE
from memory.revisions.diff import difference
from tests.support.factories import add_turn
from tests.support.folds import revisions

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Chat:
    monkeypatch.setattr(quickstart, "folder", lambda: tmp_path)
    return Chat.objects.get(pk=quickstart.prepare().chat_id)


def test_each_of_its_versions_was_written_by_hand_and_says_so(sample: Chat) -> None:
    written = json.loads(SAMPLE.read_text(encoding="utf-8"))["summaries"]
    found = revisions(sample)
    assert [(one.model, one.through_seq) for one in found] == [(BY_HAND, one["through"]) for one in written]
    assert [one.global_summary.count("\n- ") + 1 for one in found] == [len(one["points"]) for one in written]
    assert not any(one.degraded or one.is_wanting for one in found)
    assert "13:30" in difference(found[1], found[0]).lost


def test_the_next_fold_visibly_adds_to_it(sample: Chat) -> None:
    add_turn(sample, "When and where is our concert?", "On Friday, in the Knights' Hall.")
    request_resummarize(sample, "update")
    assert fold(sample.key, until=time.monotonic() + 60).outcome == "done"
    *_, before, after = revisions(sample)
    assert (after.from_seq, after.through_seq, after.model) == (91, 92, "offline")
    added = [piece.text for piece in difference(after, before).pieces if piece.op == "insert"]
    assert "peg of the cello" in "".join(added)
