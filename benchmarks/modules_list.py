"""The list of modules in docs/architecture.md, from what they begin with: `python -m benchmarks.modules_list`."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "architecture.md"
BEGIN, END = "<!-- modules -->\n", "<!-- end of modules -->\n"


def render() -> str:
    """Return the page with the list as the code is now."""
    before, rest = PAGE.read_text().split(BEGIN)
    return before + BEGIN + "".join(map(_package, _packages())) + _scripts() + "\n" + END + rest.split(END)[1]


def _packages() -> Iterator[Path]:
    for app in ("chatmemory", "conversations", "memory"):
        found = {file.parent for file in (ROOT / app).rglob("*.py") if "migrations" not in file.parts}
        yield from sorted(found, key=lambda one: one.relative_to(ROOT).parts)


def _package(folder: Path) -> str:
    files = (file for file in sorted(folder.glob("*.py")) if file.stem != "__init__")
    lines = [f"- `{file.stem}`: {text}\n" for file in files if (text := _sentence(file))]
    about = _sentence(folder / "__init__.py")
    return f"\n**`{folder.relative_to(ROOT)}`** {about}\n{''.join(lines)}" if lines else ""


def _scripts() -> str:
    """The modules of the playground, each with the first sentence of the comment that begins it."""
    folder = ROOT / "chatmemory" / "static" / "chatmemory" / "playground"
    lines = (f"- `{file.name}`: {_first_sentence(file.read_text())}\n" for file in sorted(folder.glob("*.js")))
    return f"\n**`{folder.relative_to(ROOT)}`** The page on which people chat.\n{''.join(lines)}"


def _first_sentence(script: str) -> str:
    comment = script.partition("\n")[0].removeprefix("// ")
    return re.split(r"(?<=[.?]) (?=[A-Z`])", comment)[0]


def _sentence(file: Path) -> str:
    """The first paragraph of a module's docstring; "" without one. That of a package is its title."""
    text = ast.get_docstring(ast.parse(file.read_text())) or ""
    return re.sub(r"\s+", " ", text.split("\n\n")[0])


if __name__ == "__main__":
    PAGE.write_text(render())
