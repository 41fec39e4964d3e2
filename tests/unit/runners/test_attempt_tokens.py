"""Tokens of attempts: one for each, and nobody else's."""

import string

import pytest

from fireledger.domain.identifiers import parse_fire_key
from fireledger.runners.attempt_tokens import TOKEN_LENGTH, AttemptTokens

KEY = parse_fire_key("acme/report/2026-11-30T09:00:00Z/0")
TOKENS = AttemptTokens(bytes(range(32)))


def test_a_token_is_text_that_any_header_takes() -> None:
    """43 characters of base64url; the same for the same attempt, after any restart."""
    token = TOKENS.mint(KEY, 1)
    assert len(token) == TOKEN_LENGTH
    assert set(token) <= set(string.ascii_letters + string.digits + "-_")
    assert AttemptTokens(bytes(range(32))).mint(KEY, 1) == token
    assert token == "bLapcYD1PUimIjaOQGuH6-95VJ50t9fww_xLL3hupoo"


def test_a_token_is_good_for_its_attempt_alone() -> None:
    """Another attempt, fire, tenant or key has another."""
    token = TOKENS.mint(KEY, 1)
    assert TOKENS.matches(token, KEY, 1)
    assert not TOKENS.matches(token, KEY, 2)
    assert not AttemptTokens(bytes(32)).matches(token, KEY, 1)
    for other in ("acme/report/2026-11-30T09:00:00Z/1", "acme/reports/2026-11-30T09:00:00Z/0",
                  "acm/report/2026-11-30T09:00:00Z/0", "acme/report/2026-11-30T09:00:01Z/0"):  # fmt: skip
        assert not TOKENS.matches(token, parse_fire_key(other), 1)


def test_number_and_sequence_do_not_run_together() -> None:
    """Attempt 11 of sequence 1 is not attempt 1 of sequence 11."""
    one, eleven = (parse_fire_key(f"acme/report/2026-11-30T09:00:00Z/{n}") for n in (1, 11))
    assert TOKENS.mint(one, 11) != TOKENS.mint(eleven, 1)


@pytest.mark.parametrize("token", ["", "x", "\u00e9" * 43, "\ud800", "A" * 43, "A" * 100_000])
def test_what_is_no_token_matches_nothing(token: str) -> None:
    """Also text that is no ASCII, of any length."""
    assert not TOKENS.matches(token, KEY, 1)


def test_the_key_is_not_shown() -> None:
    """Its representation says nothing."""
    assert repr(TOKENS) == "AttemptTokens()"
