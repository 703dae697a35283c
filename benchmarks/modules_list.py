"""The list of modules in docs/architecture.md, from their docstrings. `python -m benchmarks.modules_list` writes it."""

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
    return before + BEGIN + "".join(map(_package, _packages())) + "\n" + END + rest.split(END)[1]


def _packages() -> Iterator[Path]:
    for app in ("chatmemory", "conversations", "memory"):
        found = {file.parent for file in (ROOT / app).rglob("*.py") if "migrations" not in file.parts}
        yield from sorted(found, key=lambda one: one.relative_to(ROOT).parts)


def _package(folder: Path) -> str:
    files = (file for file in sorted(folder.glob("*.py")) if file.stem != "__init__")
    lines = [f"- `{file.stem}`: {text}\n" for file in files if (text := _sentence(file))]
    about = _sentence(folder / "__init__.py")
    return f"\n**`{folder.relative_to(ROOT)}`** {about}\n\n{''.join(lines)}" if lines else ""


def _sentence(file: Path) -> str:
    """The first paragraph of a module's docstring; "" without one. That of a package is its title."""
    text = ast.get_docstring(ast.parse(file.read_text())) or ""
    return re.sub(r"\s+", " ", text.split("\n\n")[0])


if __name__ == "__main__":
    PAGE.write_text(render())
