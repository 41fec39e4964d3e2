"""Which addresses may be called."""

import pytest

from fireledger.runners.dispatcher.policy import TargetPolicy

OPEN = TargetPolicy(allow_loopback=True)
CLOSED = TargetPolicy(allow_loopback=False)

LOOPBACK = ["127.0.0.1", "127.8.9.1", "::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1"]
REFUSED = [
    "10.0.0.1",
    "172.16.3.4",
    "192.168.1.1",
    "100.64.0.1",
    "169.254.169.254",
    "0.0.0.0",
    "224.0.0.1",
    "255.255.255.255",
    "240.0.0.1",
    "192.0.2.1",
    "198.18.0.1",
    "::",
    "fe80::1",
    "fe80::1%eth0",
    "fc00::1",
    "fd12:3456::1",
    "ff02::1",
    "2001:db8::1",
    "::ffff:10.0.0.1",
    "::ffff:169.254.169.254",
    "64:ff9b::a00:1",
    "2002:a00:1::1",
    "2001:0:a00:1::",
    "not an address",
]
PUBLIC = ["1.1.1.1", "93.184.216.34", "2606:4700:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101"]


@pytest.mark.parametrize("address", LOOPBACK)
def test_loopback_is_for_a_local_up_only(address: str) -> None:
    """This machine's own addresses, however written, are refused unless they are allowed."""
    assert "loopback" in CLOSED.refusal(address)
    assert OPEN.refusal(address) == ""


@pytest.mark.parametrize("address", REFUSED)
def test_what_is_not_public_is_refused_always(address: str) -> None:
    """Private, link-local, multicast, reserved and disguised addresses are refused, loopback allowed or not."""
    assert CLOSED.refusal(address)
    assert OPEN.refusal(address)


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_are_allowed(address: str) -> None:
    """A public unicast address has no refusal."""
    assert CLOSED.refusal(address) == ""
