"""Which addresses and URLs a webhook may have."""

import pytest

from conversations.webhooks.addresses import is_public, url_problem

PRIVATE = """
127.0.0.1 127.255.255.254 0.0.0.0 10.0.0.1 172.16.0.1 192.168.1.1 169.254.169.254 100.64.0.1 224.0.0.1 240.0.0.1
255.255.255.255 192.0.2.1 198.18.0.1 ::1 :: fe80::1 fe80::1%1 fc00::1 fec0::1 ff02::1 ::ffff:127.0.0.1 ::ffff:8.8.8.8
::127.0.0.1 64:ff9b::7f00:1 64:ff9b::808:808 64:ff9b:1::1 2002:7f00:1::1 2001:db8::1 2001::1
192.0.0.8 192.0.0.192 168.63.129.16 3fff::1 3fff:fff::1
""".split()


PUBLIC = ["8.8.8.8", "1.1.1.1", "2606:4700:4700::1111"]


@pytest.mark.parametrize("address", [*PRIVATE, *PUBLIC])
def test_addresses_of_private_networks_are_not_public(address: str) -> None:
    assert is_public(address) is (address in PUBLIC)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("https://127.0.0.1/hook", "private network"),
        ("https://169.254.169.254/latest", "private network"),
        ("https://[::ffff:10.0.0.1]/hook", "private network"),
        ("https://localhost:8443/hook", "private network"),
        ("https://a.localhost/hook", "private network"),
        ("http://example.com/hook", "begin with https://"),
        ("https://user:password@example.com/hook", "user name"),
        ("https://example.com/hook#part", "fragment"),
        ("https://exämple.com/hook", "ASCII"),
        ("https://example.com/a b", "without spaces"),
        (f"https://example.com/{'a' * 2000}", "at most 2,000"),
        ("ftp://example.com/hook", "such as https://"),
        ("https:///hook", "such as https://"),
        ("https://example.com:99999/", "not a URL"),
        ("https://[::1/hook", "not a URL"),
        ("hook", "such as https://"),
    ],
)
def test_refused_urls_say_why(url: str, says: str) -> None:
    assert says in (url_problem(url, allow_private=False) or "")


def test_accepted_urls() -> None:
    assert url_problem("https://example.com:8443/hook?key=1", allow_private=False) is None
    assert url_problem("http://127.0.0.1:9000/hook", allow_private=True) is None
    assert url_problem("http://user@127.0.0.1/hook", allow_private=True) is not None
