"""Where notices go: the URL as users write it, and which addresses a manager may connect to.

A manager connects on behalf of its users, from a place in the network where they may not be. So a target must
have a public address, unless an administrator allows its network. The address is checked that the connection
is made to, after the name was resolved, and redirects are not followed: neither a name that changes its
address nor an answer can lead a manager anywhere else.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from tiresias.live.errors import Invalid
from tiresias.spec.notices import LONGEST_URL

SLACK = "slack+"  # before a URL: the target wants messages in the form of Slack
SLACK_HOSTS = ("hooks.slack.com", "hooks.slack-gov.com")
NAT64 = ipaddress.ip_network("64:ff9b::/96")

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(slots=True, frozen=True)
class Target:
    """A URL in its parts."""

    is_tls: bool
    host: str
    port: int
    path: str  # with the query
    is_slack: bool

    @property
    def name(self) -> str:
        """What messages call it: the path may contain a secret."""
        return f"{'https' if self.is_tls else 'http'}://{self.host}:{self.port}"


def target_of(url: str) -> Target:
    """The parts of a URL; Invalid if it is none that notices can be sent to."""
    what = f"the URL {url[:80]!r}"
    if len(url) > LONGEST_URL or not url.isascii() or not url.isprintable() or " " in url:
        raise Invalid(f"{what} has more than {LONGEST_URL} characters, spaces, or others than ASCII")
    is_slack = url.startswith(SLACK)
    try:
        parts = urlsplit(url.removeprefix(SLACK))
        port = parts.port
    except ValueError as error:
        raise Invalid(f"{what}: {error}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Invalid(f"{what}: give https://HOST/PATH, or {SLACK}https://HOST/PATH for the form of Slack")
    if parts.username is not None or parts.password is not None:
        raise Invalid(f"{what}: names and passwords in a URL are not supported; use a secret path")
    is_tls = parts.scheme == "https"
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    is_slack = is_slack or parts.hostname in SLACK_HOSTS
    return Target(is_tls, parts.hostname, port or (443 if is_tls else 80), path, is_slack)


def networks_of(texts: Sequence[str]) -> tuple[Network, ...]:
    """The networks that an administrator allows; Invalid if one of them is none."""
    try:
        return tuple(ipaddress.ip_network(text, strict=False) for text in texts)
    except ValueError as error:
        raise Invalid(f"--notify-allow: {error}; give a network such as 10.0.0.0/8") from None


def check_url(url: str, allowed: Sequence[Network]) -> Target:
    """Refuse what can be refused before a name is resolved."""
    target = target_of(url)
    try:
        address = ipaddress.ip_address(target.host)
    except ValueError:
        return target
    if problem := refusal(address, allowed):
        raise Invalid(f"the URL {url[:80]!r}: {problem}")
    return target


def refusal(address: Address, allowed: Sequence[Network]) -> str:
    """Why a manager may not connect to this address; empty if it may."""
    meant = _meant(address)
    if any(meant in network for network in allowed if network.version == meant.version):
        return ""
    if meant.is_global and not meant.is_multicast and not meant.is_reserved:
        return ""
    return f"{address} is not a public address; an administrator may allow it: tir up --notify-allow NETWORK"


def _meant(address: Address) -> Address:
    """The address that packets will reach: IPv6 addresses may contain one of IPv4."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address in NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address
