"""A process has one name; another process has another name."""

import os

import pytest

from chatmemory.runtime import process


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # from Python 3.12 on, as other threads are running
def test_a_process_keeps_its_name_and_a_fork_has_one_of_its_own() -> None:
    mine, (reader, writer) = process.name(), os.pipe()
    assert f":{os.getpid()}:" in mine
    assert mine == process.name()
    if (child := os.fork()) == 0:
        os.write(writer, process.name().encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writer)
    with os.fdopen(reader) as told:
        theirs = told.read()
    assert theirs != mine
    assert f":{child}:" in theirs
