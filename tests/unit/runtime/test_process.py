"""A process has one name; another process has another name."""

import os

import pytest

from chatmemory.runtime import process


def test_a_name_is_kept_and_names_the_process() -> None:
    assert process.name() == process.name()
    assert f":{os.getpid()}:" in process.name()


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # from Python 3.12 on, as other threads are running
def test_a_fork_has_a_name_of_its_own() -> None:
    mine, (reader, writer) = process.name(), os.pipe()
    if (child := os.fork()) == 0:
        os.write(writer, process.name().encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writer)
    with os.fdopen(reader) as told:
        theirs = told.read()
    assert theirs != mine
    assert f":{child}:" in theirs
