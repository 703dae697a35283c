"""Every pattern of the source takes linear time, over text made of what it looks for."""

import importlib
import pkgutil
import re
import time
from collections import deque
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

import pytest

import chatmemory
import conversations
import memory

SAMPLES = {
    codes.CATEGORY_SPACE: " ",
    codes.CATEGORY_NOT_SPACE: "x",
    codes.CATEGORY_DIGIT: "1",
    codes.CATEGORY_NOT_DIGIT: "x",
    codes.CATEGORY_WORD: "a",
    codes.CATEGORY_NOT_WORD: "-",
}
PACKAGES = (chatmemory, conversations, memory)
SCREEN, SHORT = (*range(15, 250, 3), 250, 1_000, 4_000), 5_000
SUSPICIOUS_SECONDS = 0.00025
"""Time over the last of `SCREEN` characters from which a pattern is measured over longer ones."""
IGNORED_SECONDS = 0.004
LONGER = ((40_000, 20, 1), (320_000, 500, 3))
"""Characters, the time over them in times of that over `SHORT`, and how often both are measured. By length alone it is
8 and 64 times, of quadratic patterns 64 and 4,096. What a repeat keeps in memory costs a linear one up to four times
more, once it is out of the cache."""
TOO_LONG = 0.15


Used = tuple[re.Pattern[str], frozenset[str]]
"""A pattern, and the methods by which the source uses it."""


def patterns() -> dict[str, Used]:
    """Return the compiled patterns of text in all modules, also in classes and containers, by their places."""
    found: dict[int, tuple[str, Used]] = {}
    for package in PACKAGES:
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if ".migrations" in module.name or module.name.endswith("__main__") or ".asgi" in module.name:
                continue
            loaded = importlib.import_module(module.name)
            source = Path(loaded.__file__ or "").read_text()
            for name, value in vars(loaded).items():
                for one in in_value(value, module.name):
                    methods = frozenset(re.findall(rf"\b{name}\.(\w+)\(", source)) & {"match", "fullmatch"}
                    indirect = not re.search(rf"\b{name}\.(?:match|fullmatch)\b", source)
                    others = re.search(rf"\b{name}\.(?:search|sub|split|find\w+)\b", source)
                    methods |= {"finditer"} if others or indirect else set()
                    found.setdefault(id(one), (f"{module.name}.{name}", (one, methods)))
    return {f"{name} {number}": one for number, (name, one) in enumerate(found.values())}


def in_value(value: object, module: str, depth: int = 0) -> Iterator[re.Pattern[str]]:
    if isinstance(value, re.Pattern):
        if isinstance(value.pattern, str):
            yield value
    elif isinstance(value, dict) and depth < 3:
        for one in [*value, *value.values()]:
            yield from in_value(one, module, depth + 1)
    elif isinstance(value, list | tuple | set | frozenset) and depth < 3 and len(value) < 1000:
        for one in value:
            yield from in_value(one, module, depth + 1)
    elif isinstance(value, type) and value.__module__ == module and depth < 1:
        yield from in_value(dict(vars(value)), module, depth + 1)


def example(tree: Any, pick: int) -> str:
    """Return text that a pattern looks for; `pick` chooses among alternatives and repeats."""
    text = ""
    for code, value in tree:
        match code:
            case codes.LITERAL:
                text += chr(value)
            case codes.NOT_LITERAL | codes.ANY:
                text += "x"
            case codes.IN:
                text += member(value, pick)
            case codes.BRANCH:
                text += example(value[1][pick % len(value[1])], pick)
            case codes.SUBPATTERN:
                text += example(value[3], pick)
            case codes.MAX_REPEAT | codes.MIN_REPEAT | codes.POSSESSIVE_REPEAT:
                text += example(value[2], pick) * min(max(value[0], 1 + pick % 2), 3)
            case codes.ATOMIC_GROUP:
                text += example(value, pick)
            case _:  # positions and references are no text
                pass
    return text


def member(choices: Any, pick: int) -> str:
    """Return a character of a set, or one that is in no set for a negated one."""
    found: list[str] = []
    for code, value in choices:
        if code is codes.NEGATE:
            return "x"
        if code is codes.LITERAL:
            found.append(chr(value))
        elif code is codes.RANGE:
            found.append(chr(value[0]))
        else:
            found.append(SAMPLES[value])
    return found[pick % len(found)]


def openings(tree: Any, before: str = "") -> Iterator[tuple[str, str]]:
    """Yield what comes before each long repeat of a pattern, and what it repeats."""
    for code, value in tree:
        match code:
            case codes.MAX_REPEAT | codes.MIN_REPEAT | codes.POSSESSIVE_REPEAT:
                if value[1] > 50:
                    yield from ((before, example(value[2], pick)) for pick in range(3))
                yield from openings(value[2], before)
            case codes.BRANCH:
                for one in value[1]:
                    yield from openings(one, before)
            case codes.SUBPATTERN:
                yield from openings(value[3], before)
        before += example([(code, value)], 0)


def pieces(pattern: re.Pattern[str]) -> list[tuple[str, str]]:
    """Return what hostile text begins with and repeats: examples, their parts and characters, or one long repeat."""
    tree = parser.parse(pattern.pattern, pattern.flags & ~re.DEBUG)
    whole = {example(tree, pick) for pick in range(4)} - {""}
    parts = {part for one in whole for at in {1, 2, len(one) // 2, len(one) - 1} for part in (one[:at], one[at:])}
    lines = {f"{one}\n" for one in whole}
    single = sorted({char for one in whole for char in one})[:8]
    repeated = {("", one) for one in (*whole, *parts, *lines, *single, " ", "\n", "a", "=")}
    return sorted(one for one in repeated | {*openings(tree)} if one[1])


def seconds(used: Used, piece: tuple[str, str], end: str, size: int) -> float:
    """Return the CPU time of all uses of a pattern over so many characters."""
    pattern, methods = used
    before, unit = piece
    text = (before + unit * (size // len(unit) + 1))[:size] + end
    began = time.process_time()
    for method in methods:
        found = getattr(pattern, method)(text)
        if method == "finditer":
            deque(found, maxlen=0)
    return time.process_time() - began


def fault(used: Used) -> str:
    """Return what takes more than linear time; "" if nothing does."""
    for piece, end in product(pieces(used[0]), ("", "\0")):
        for size in SCREEN:  # a catastrophe is seen early, and does not hang the test
            if (spent := seconds(used, piece, end, size)) > TOO_LONG:
                return f"{piece}: {spent:.2f} s for {size} characters"
        if spent < SUSPICIOUS_SECONDS:
            continue
        for size, times, runs in LONGER:
            short, spent = (min(seconds(used, piece, end, one) for _ in range(runs)) for one in (SHORT, size))
            if spent <= max(times * short, IGNORED_SECONDS):
                break
            if size == LONGER[-1][0] or spent > TOO_LONG:
                return f"{piece}: {short:.4f} s for {SHORT} characters, {spent:.4f} s for {size}"
    return ""


@pytest.mark.exhaustive
@pytest.mark.nightly  # by time, on machines that others use, too
def test_patterns_over_text_of_their_own_literals_take_linear_time() -> None:
    found = patterns()
    assert len(found) > 80
    faults = {name: fault(used) for name, used in found.items()}
    assert {name: why for name, why in faults.items() if why} == {}
