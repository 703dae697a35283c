"""Which addresses an app's webhook may have. Pure.

A URL is looked at when it is set, for a helpful sentence. What protects is the look at each connection, at the address
that is connected to: what a name means can change at any time, and may be a number in disguise (`0x7f.1`).
"""

from ipaddress import IPv6Address, ip_address, ip_network
from urllib.parse import urlsplit

MAX_URL_CHARS = 2000
NOT_PUBLIC = [ip_network(one) for one in ("192.0.0.0/24", "3fff::/20", "168.63.129.16")]
"""Two networks that Python calls public before 3.11.10 and 3.14, and the address of Azure's own services."""


class ForbiddenAddress(Exception):
    """A webhook's host is at an address that only this server's own network can reach."""


def is_public(address: str) -> bool:
    """Whether an IP address is one of the internet.

    False also for forms of IPv6 that stand for an address of IPv4: mapped, translated (NAT64), tunnelled (6to4).
    """
    ip = ip_address(address)
    if isinstance(ip, IPv6Address) and (ip.ipv4_mapped or ip.sixtofour or ip.is_site_local):
        return False
    # Python's "reserved" has NAT64's 64:ff9b::/96, which IANA counts as global.
    return ip.is_global and not (ip.is_multicast or ip.is_reserved or any(ip in one for one in NOT_PUBLIC))


def url_problem(url: str, *, allow_private: bool) -> str | None:
    """A sentence if no webhook can have this URL; else None."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return "This is not a URL."
    if not (url.isascii() and url.isprintable() and " " not in url and len(url) <= MAX_URL_CHARS):
        return f"A URL has at most {MAX_URL_CHARS:,} printable ASCII characters without spaces."
    if parts.scheme not in ("https", "http") or not host or port == 0:
        return "This must be a URL such as https://example.com/hook."
    if parts.scheme == "http" and not allow_private:
        return "The URL must begin with https://, so that events cannot be read or changed on their way."
    if "@" in parts.netloc or parts.fragment:
        return "The URL may have neither a user name nor a fragment."
    if not allow_private and _is_private(host):
        return "The URL leads into a private network: only public addresses are called."
    return None


def _is_private(host: str) -> bool:
    """Whether a host says so by itself. Of other names, only the connection shows it."""
    try:
        return not is_public(host)
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
