"""The file of an export of ChatGPT or Claude, read a conversation at a time: its zip, or the JSON inside. No Django.

Memory is bounded by one conversation, whatever the size of the file. A conversation that is larger is skipped. Nothing
is unpacked to the disk. Text that is not JSON ends a file, and so does a number of more than 64 bits; what came before
counts.
"""

import re
import zipfile
import zlib
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import PurePosixPath
from typing import IO, Any, BinaryIO, Final

import ijson
from ijson.common import JSONError, ObjectBuilder

from conversations.interchange.values import FormatError

MAX_BYTES: Final = 16 * 1024 * 1024
"""The largest conversation, as JSON. A long one of years has about one of these MB."""
MAX_SKIPPED_BYTES: Final = 2 * MAX_BYTES
"""A conversation that is larger than this ends its file: a small zip may hold one of gigabytes."""
MAX_EVENTS: Final = 500_000
"""Names, values, beginnings and ends in a conversation: each takes up to a hundred bytes. A message has about fifty."""
MAX_RATIO: Final = 200
"""How many times its size a zip may unpack to. JSON of conversations is about ten times as large."""
MAX_DIRECTORY_BYTES: Final = 4 * 1024 * 1024
"""The list of files in a zip: about 40,000 of them."""
_TOO_LARGE: Final = f"it has more than {MAX_BYTES // 1024 // 1024} MB, or {MAX_EVENTS:,} values"
_STEPS: Final = {"start_map": 1, "start_array": 1, "end_map": -1, "end_array": -1}
_CONVERSATIONS = re.compile(r"(?!__MACOSX)(?:.*[/\\])?conversations(?:-\d{1,9})?\.json", re.DOTALL)
_DAMAGED = (JSONError, zipfile.BadZipFile, zlib.error, EOFError, OSError)


def is_export(file: BinaryIO) -> bool:
    """Whether a file is an export of ChatGPT or Claude: any zip, or JSON whose first object is a conversation."""
    if _is_zip(file):
        return True
    try:
        _begin(file)
        for prefix, event, value in ijson.parse(file):
            if prefix in ("", "item") and (value in ("mapping", "chat_messages") or event == "end_map"):
                return bool(event == "map_key")
    except (JSONError, FormatError):
        pass
    return False


class Export:
    """An export as its conversations. `position` says how many of its `size` bytes, unpacked, are read."""

    def __init__(self, file: BinaryIO) -> None:
        """Open a file. Raises `FormatError` for a zip that has no conversations, or cannot be read."""
        self.size = file.seek(0, 2)
        file.seek(0)
        self.position = 0
        self._file: IO[bytes] = file
        self._parts: list[tuple[str, Callable[[], IO[bytes]]]] = [("the file", lambda: file)]
        if _is_zip(file):
            archive, members = _opened(file, self.size)
            self.size = sum(one.file_size for one in members)
            self._parts = [(PurePosixPath(one.filename).name, partial(archive.open, one)) for one in members]
        self._events = 0
        """Names, values, beginnings and ends that the parser has found so far."""
        self._begun = (0, 0)
        """Position and number of events at which the conversation began that is read."""
        self._is_too_large = False

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        """Yield each conversation, or a `FormatError` that says why it is not read, with its place."""
        for name, opened in self._parts:
            number = 0
            try:
                self._file = _begin(opened())
                for number, value in enumerate(self._values(), start=1):
                    yield f"conversation {number} of {name}", value
            except (FormatError, *_DAMAGED) as exc:
                why = exc if isinstance(exc, FormatError) else "it is damaged, or not JSON"
                yield f"{name} after conversation {number}", FormatError(f"{why}; the rest is not read")

    def read(self, size: int) -> bytes:
        """Called by the parser for more of the file."""
        data = self._file.read(size)
        self.position += len(data)
        position, events = self._begun
        length = self.position - position
        if length > MAX_SKIPPED_BYTES:
            raise FormatError(_TOO_LARGE)
        self._is_too_large = length > MAX_BYTES or self._events - events > MAX_EVENTS
        return data

    def _values(self) -> Iterator[Any]:
        """Yield the values of a JSON list, or of JSON lines; a `FormatError` for one that is too large."""
        outer = depth = 0
        """The depth of a conversation, and of the present value, in lists and objects."""
        builder: ObjectBuilder | None = None
        for event, value in ijson.basic_parse(self, use_float=True, multiple_values=True):
            self._events += 1
            step = _STEPS.get(event, 0)
            if depth == 0 and event == "start_array":
                outer = depth = 1
                continue
            if depth == outer and step >= 0:
                builder = ObjectBuilder()
                self._begun, self._is_too_large = (self.position, self._events), False
            elif self._is_too_large:
                builder = None
            depth += step
            if depth < outer:
                return
            if builder is not None:
                builder.event(event, value)
            if depth == outer:
                yield FormatError(_TOO_LARGE) if builder is None else builder.value


def _begin(file: IO[bytes]) -> IO[bytes]:
    """Return the file at the beginning of its text. Raises `FormatError` for UTF-16 and UTF-32."""
    start = file.read(4)
    if start.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) or b"\0" in start:
        raise FormatError("its text is not UTF-8, but probably UTF-16: save it as UTF-8")
    file.seek(len(BOM_UTF8) if start.startswith(BOM_UTF8) else 0)
    return file


def _is_zip(file: BinaryIO) -> bool:
    begins = file.read(2) == b"PK"
    file.seek(0)
    return begins


def _opened(file: BinaryIO, size: int) -> tuple[zipfile.ZipFile, list[zipfile.ZipInfo]]:
    """Open a zip. Return it with its files that have conversations, in their order."""
    try:
        end = zipfile._EndRecData(file)  # type: ignore[attr-defined]  # what ZipFile then reads into memory
        if end and end[zipfile._ECD_SIZE] > MAX_DIRECTORY_BYTES:  # type: ignore[attr-defined]
            raise FormatError("the zip has too many files")
        archive = zipfile.ZipFile(file)
    except (zipfile.BadZipFile, OSError, NotImplementedError):
        raise FormatError("the zip is damaged") from None
    found = [one for one in archive.infolist() if _CONVERSATIONS.fullmatch(one.filename)]
    if not found:
        raise FormatError("the zip has no conversations.json")
    if any(one.flag_bits & 1 or one.compress_type not in (0, 8) for one in found):
        raise FormatError("the zip is encrypted, or packed in an unusual way")
    if sum(one.file_size for one in found) > max(MAX_BYTES, MAX_RATIO * size):
        raise FormatError(f"the zip unpacks to more than {MAX_RATIO} times its size")
    return archive, sorted(found, key=lambda one: one.filename)
