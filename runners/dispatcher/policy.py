"""Which network addresses a target may have. Pure: what a name resolves to is the caller's to find out."""

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

_TRANSLATED = ip_network("64:ff9b::/96")
"""IPv6 addresses that a translator turns into the IPv4 address in their last four bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetPolicy:
    """Only public unicast addresses; ``allow_loopback`` adds this machine's own (for a local ``up``)."""

    allow_loopback: bool

    def refusal(self, address: str) -> str:
        """Why this address must not be called, or an empty text if it may be.

        An address that carries another inside (mapped, 6to4, Teredo, NAT64) is refused if that one is.
        """
        try:
            outer = ip_address(address.partition("%")[0])
        except ValueError:
            return "is not an address"
        reasons = [_reason(each, allow_loopback=self.allow_loopback) for each in _unwrapped(outer)]
        return next((reason for reason in reasons if reason), "")


def _unwrapped(address: IPv4Address | IPv6Address) -> list[IPv4Address | IPv6Address]:
    """The addresses that a packet to this one may reach."""
    if isinstance(address, IPv4Address):
        return [address]
    if address.ipv4_mapped is not None:
        return [address.ipv4_mapped]
    inside: list[IPv4Address] = [address.sixtofour] if address.sixtofour else []
    inside += list(address.teredo or ())
    if address in _TRANSLATED:
        return [IPv4Address(int(address) & 0xFFFF_FFFF)]
    return [address, *inside]


def _reason(address: IPv4Address | IPv6Address, *, allow_loopback: bool) -> str:
    if address.is_loopback:
        return "" if allow_loopback else "is this machine's own (loopback)"
    if address.is_unspecified:
        return "is unspecified"
    if address.is_multicast:
        return "is a multicast address"
    if address.is_link_local:
        return "is link-local"
    if address.is_reserved:
        return "is reserved"
    if address.is_private or not address.is_global:
        return "is private"
    return ""
