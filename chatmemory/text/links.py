"""Finds links in a text, and which of them are new: URLs, bare domains, e-mail addresses, targets of Markdown links.

A link is a text that a browser or an app would open, not only one by the standard. Two links are the same regardless of
the case of their host, `www.`, a missing web scheme, the default port, percent encoding, and punctuation after them.
A link also covers itself without its fragment, without its query, and its host alone: these name nothing new. Every
other path, query and host is another link, including a parent or child domain.

In scripts without spaces (Chinese, Japanese), a link ends before the first such character; a host in such letters
counts only after a scheme.
"""

import re
from collections.abc import Iterable, Iterator
from urllib.parse import unquote

from chatmemory.text.cleaning import normalized
from chatmemory.text.markers import INVISIBLE

_DOMAINS = frozenset(
    """
    ac ad ae af ag ai al am ao aq ar as at au aw ax az ba bb bd be bf bg bh bi bj bm bn bo br bs bt bw by bz ca cc cd
    cf cg ch ci ck cl cm cn co cr cu cv cw cx cy cz de dj dk dm do dz ec ee eg er es et eu fi fj fk fm fo fr ga gd ge
    gf gg gh gi gl gm gn gp gq gr gs gt gu gw gy hk hm hn hr ht hu id ie il im in io iq ir is it je jm jo jp ke kg kh
    ki km kn kp kr kw ky kz la lb lc li lk lr ls lt lu lv ly ma mc md me mg mh mk ml mm mn mo mp mq mr ms mt mu mv mw
    mx my mz na nc ne nf ng ni nl no np nr nu nz om pa pe pf pg ph pk pl pm pn pr ps pt pw py qa re ro rs ru rw sa sb
    sc sd se sg sh si sk sl sm sn so sr ss st su sv sx sy sz tc td tf tg th tj tk tl tm tn to tr tt tv tw tz ua ug uk
    us uy uz va vc ve vg vi vn vu wf ws ye yt za zm zw

    com net org edu gov mil int info biz name pro mobi aero coop museum arpa onion app dev page cloud tech online
    site website store shop blog club live news link click xyz top icu vip fun work world space zone agency digital
    media network systems solutions studio design email chat support download example invalid test
    """.split()
)
"""Top-level domains: of countries (the root zone, as IANA lists it), other well-known ones, and those that documents
use as examples.
"""

_WORDS_AND_FILES = frozenset(
    """
    am as at be by do id in is it me my no so to us md ml pl ps py rs sh cc int name page work link live news chat
    email media design support download store test
    """.split()
)
"""Top-level domains that are also file extensions or words that may follow a stop without a space ("came back.It
rained"). Two words of which the second is one of these are no domain, unless they have `www.` or a path.
"""

_SCHEME = re.compile(r"""(?<![a-z0-9+.-])([a-z][a-z0-9+.-]{0,30}):[/\\]{2}([^\s<>"'`^|{}«»“”„‘’‹›]+)""", re.IGNORECASE)
_SCRIPT = re.compile(
    r"""(?<!\w)(?:(?:javascript|vbscript):|data:[\w.+-]{1,60}/[\w.+-]{1,60}[;,])[^\s<>]+""", re.IGNORECASE
)
_EMAIL = re.compile(r"(?<![\w.+%-])[\w.+%-]++@([\w-]++(?:\.[\w-]++)++)")
_HOST = re.compile(
    r"""(?<![\w-])(?<![\w-]\.)(?<![\w.+%-]@)([\w-]++(?:\.[\w-]++)++)((?::\d{1,5})?(?:[/?\\][^\s<>"'`^|{}«»“”„‘’‹›]*+)?)(\(?)"""
)
_TARGET = re.compile(r"\]\(\s*<?([^\s()<>]+)")
_NUMBERS = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}")

_WIDE = re.compile(
    "[\u1100-\u11ff\u2e80-\ua4cf\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\ufe30-\ufe4f\U00020000-\U0003ffff]"
)
"""Characters of scripts that are written without spaces."""
_IDEOGRAPHIC_STOP = re.compile("(?<=[a-z0-9-])\u3002(?=[a-z0-9-])", re.IGNORECASE)
_AFTER_STOP = re.compile(r"\.\s+")
_BORDER = re.compile(r"[/?#]")
_SLASH_AT_END = re.compile(r"(?<!/)/++(?=[?#]|\Z)")
_CUT_ESCAPE = re.compile(r"%[0-9a-f]?\Z", re.IGNORECASE)
_STOPS = ".,;:!?*_~'\"]>}…"
_WEB = ("http", "https", "ftp", "hxxp", "hxxps")


def links_in(text: str) -> set[str]:
    """Every link in `text`, in normalized form."""
    return {link for link, _ in _found(_plain(text))}


class KnownLinks:
    """The links in some texts."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._forms: set[str] = set()
        self._texts = [_plain(text) for text in texts]
        for text in self._texts:
            for link, _ in _found(text):
                self._forms.update(_forms(link))
            # Also any two words with a stop between, even with a space after it, which may have been left out since.
            self._forms.update(_host(found[1]) for found in _HOST.finditer(_WIDE.sub(" ", _AFTER_STOP.sub(".", text))))

    def new_in(self, text: str) -> set[str]:
        """The links in `text` that none of the known texts contains, in normalized form."""
        plain = _plain(text)
        end = len(plain.rstrip(_STOPS + ") "))
        return {link for link, at in _found(plain) if not self._has(link, is_last=at >= end)}

    def _has(self, link: str, *, is_last: bool) -> bool:
        if link in self._forms:
            return True
        if link.startswith("](") and any(link[2:] in text for text in self._texts):
            return True
        # The last link of a text that was cut to its length may be cut, too; its host is whole.
        return is_last and "/" in link and any(known.startswith(link) for known in self._forms)


def _plain(text: str) -> str:
    """`text` as a browser would read its links."""
    seen = INVISIBLE.sub("", text)
    return seen if seen.isascii() else _IDEOGRAPHIC_STOP.sub(".", normalized("NFKC", seen))


def _found(text: str) -> Iterator[tuple[str, int]]:
    """Yield the links in a plain text, and where they end."""
    for found in _SCHEME.finditer(text):
        yield _canonical(found[1].lower(), found[2]), found.end()
    text = _SCHEME.sub(lambda found: "<" * len(found[0]), text)
    for found in _SCRIPT.finditer(text):
        yield _without_stops(found[0]).lower(), found.end()
    narrow = _WIDE.sub(" ", text)
    for found in _EMAIL.finditer(narrow):
        yield found[0].rstrip(".-").casefold(), found.end()
    for found in _HOST.finditer(narrow):
        host, tail, call = found.groups()
        if _is_host(host, tail) and not (call and not tail):
            yield _canonical("", host + tail), found.end(2)
    for found in _TARGET.finditer(text):
        host_at = _HOST.match(target := found[1].lstrip("/\\"))
        if not (target.startswith(("#", "mailto:")) or (host_at and _is_host(host_at[1], host_at[2]))):
            yield f"]({found[1]}", found.end()


def _is_host(host: str, tail: str) -> bool:
    """Whether words joined by stops are a domain, judging by the last one and what follows."""
    *labels, last = host.casefold().rstrip("-").split(".")
    if _NUMBERS.fullmatch(host):
        return bool(tail)
    if labels[0] == "www" or last.startswith("xn--"):
        return last.isalpha() or last.startswith("xn--")
    if last not in _DOMAINS:
        return False
    if tail.strip(":?") or len(labels) > 1:
        return True
    return last not in _WORDS_AND_FILES and len(labels[0]) > (len(last) == 2)


def _canonical(scheme: str, rest: str) -> str:
    """A link in normalized form: host, port and the decoded rest."""
    rest = rest.replace("\\", "/").lstrip("/")
    at, wide = _authority(rest), _WIDE.search(rest)
    if wide and wide.start() < at:
        name, _, last = rest[: wide.start()].rpartition(".")
        if not (name and last.casefold() in _DOMAINS):  # it is part of the host
            wide = _WIDE.search(rest, at)
    rest = _without_stops(rest[: wide.start()] if wide else rest)
    at = _authority(rest)
    user, has_user, host = rest[:at].rpartition("@")
    kind = "" if scheme in _WEB else f"{scheme}://" if scheme else ""
    tail = unquote(_CUT_ESCAPE.sub("", _SLASH_AT_END.sub("", rest[at:])))
    return f"{kind}{unquote(user)}{has_user}{_host(unquote(host))}{tail}"


def _authority(rest: str) -> int:
    """The index at which the host and port of a link end."""
    border = _BORDER.search(rest)
    return border.start() if border else len(rest)


def _host(host: str) -> str:
    name, _, port = host.casefold().partition(":")
    return name.strip(".").removeprefix("www.") + (f":{port}" if port not in ("", "80", "443") else "")


def _without_stops(link: str) -> str:
    """`link` without the punctuation of the sentence around it."""
    end, spare = len(link), link.count(")") - link.count("(")
    while end and (link[end - 1] in _STOPS or (link[end - 1] == ")" and spare > 0)):
        spare -= link[end - 1] == ")"
        end -= 1
    return link[:end]


def _forms(link: str) -> Iterator[str]:
    """Yield the link, and the shorter links that it covers."""
    yield link
    for border in "#?":
        link = link.partition(border)[0].rstrip("/")
        yield link
    _, _, rest = link.rpartition("://")
    yield rest.partition("/")[0].rpartition("@")[2]
