"""The programs that README and the pages of docs show."""

import re

from tests.support.processes import ROOT


def snippet(page: str, language: str, url: str) -> str:
    """Return the only block of that language, adapted to the server at `url`."""
    (found,) = re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    assert found.count("http://127.0.0.1:8000") == 1
    return str(found).replace("http://127.0.0.1:8000", url)
