"""The programs that README and the pages of docs show."""

import re

from tests.support.processes import ROOT


def snippet(page: str, language: str, url: str, heading: str = "") -> str:
    """Return the only block of that language on a page, or below a heading of it, adapted to the server at `url`."""
    text = (ROOT / page).read_text()
    if heading:
        text = text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    (found,) = re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)
    assert "http://127.0.0.1:8000" in found
    return str(found).replace("http://127.0.0.1:8000", url)
