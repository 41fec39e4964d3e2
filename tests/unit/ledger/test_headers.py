"""What the broker writes is read the same way on every path."""

import pytest

from fireledger.runners.jetstream.headers import (
    Delivery,
    MalformedBrokerText,
    header_block_size,
    parse_delivery,
    parse_header_block,
    parse_time,
)


@pytest.mark.parametrize(
    "text,microseconds",
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T00:00:01.5Z", 1_500_000),
        ("2026-12-01T00:37:03.648925789Z", 1_796_085_423_648_925),
        ("2026-12-01T01:37:03.648925789+01:00", 1_796_085_423_648_925),
        ("2026-12-01T00:37:03.000000999Z", 1_796_085_423_000_000),
    ],
)
def test_times_become_microseconds_rounded_down(text: str, microseconds: int) -> None:
    """Trailing zeros the broker leaves out, nanoseconds and offsets all lead to the same integer."""
    assert parse_time(text) == microseconds


@pytest.mark.parametrize("text", ["", "yesterday", "2026-12-01 00:37:03Z", "2026-12-01T00:37:03"])
def test_another_time_is_refused(text: str) -> None:
    """What is not a broker's time is named in the error."""
    with pytest.raises(MalformedBrokerText, match=f'"{text}"'):
        parse_time(text)


def test_a_delivery_is_read_in_both_forms() -> None:
    """The old reply subject and the new one with domain and account give the same position."""
    old = parse_delivery("$JS.ACK.LEDGER.c.1.42.7.1796085423648925789.3")
    new = parse_delivery("$JS.ACK._.hash.LEDGER.c.1.42.7.1796085423648925789.3.token")
    assert old == new == Delivery("c", 42, 7, 1_796_085_423_648_925)


@pytest.mark.parametrize("reply", ["", "_INBOX.x", "$JS.ACK.LEDGER.c.1.42", "a.b.c.d.e.f.g.h.i"])
def test_another_reply_subject_is_refused(reply: str) -> None:
    """A message that did not come from a consumer is not taken for one."""
    with pytest.raises(MalformedBrokerText):
        parse_delivery(reply)


def test_a_header_block_is_read_line_by_line() -> None:
    """Values keep their colons, and of a repeated name the last, which the broker adds, counts."""
    block = b"NATS/1.0\r\nA: 1\r\nNats-Sequence: 9\r\nB: x:y\r\nNats-Sequence: 10\r\n\r\n"
    assert parse_header_block(block) == {"A": "1", "B": "x:y", "Nats-Sequence": "10"}
    assert parse_header_block(b"") == {}


def test_the_size_of_headers_is_the_size_on_the_wire() -> None:
    """The size counts the version line, separators and the empty line."""
    assert header_block_size({"A": "1", "Bc": "é"}) == len("NATS/1.0\r\nA: 1\r\nBc: é\r\n\r\n".encode())
    assert header_block_size({}) == 0
