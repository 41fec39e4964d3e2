"""Bounds of stored values: every refusal names its option and says what to write instead."""

import pytest

from fireledger.domain.checks import check_definition, check_settings, check_target
from fireledger.domain.definition import Definition, TenantSettings, seal_plain
from fireledger.domain.instants import DAY, HOUR, SECOND
from fireledger.domain.limits import EXCLUDED_DATES_MAX, PAYLOAD_BYTES_MAX, TARGET_LENGTH_MAX
from tests.unit.domain.given import changed, cron, zones

PLAIN = cron("0 9 * * *")

REFUSED: dict[str, tuple[str, Definition, str, str]] = {
    "jitter": ("--jitter", changed(PLAIN, jitter=25 * HOUR), '"1d1h" is out of bounds', "use 0s to 1d"),
    "horizon": ("--horizon", changed(PLAIN, horizon=2 * DAY), '"2d" is out of bounds', "use 0s to 1d"),
    "tolerance": ("--tolerance", changed(PLAIN, tolerance=2 * DAY), '"2d" is out of bounds', "use 0s to 1d"),
    "window": ("--outcome-window", changed(PLAIN, outcome_window=1), '"1us" is out of bounds', "use 1s to 1d"),
    "timeout": ("--timeout", changed(PLAIN, timeout=HOUR), '"1h" is out of bounds', "use 1ms to 15m"),
    "cap": ("--cap", changed(PLAIN, cap=1_001), "1001 is out of bounds", "use 1 to 1000"),
    "max-fires": ("--max-fires", changed(PLAIN, max_fires=0), "0 is out of bounds", "use 1 to 1000000000"),
    "payload": (
        "--payload",
        changed(PLAIN, payload=seal_plain(b"x" * (PAYLOAD_BYTES_MAX + 1))),
        "is 65537 bytes; at most 65536",
        "send a reference to the data instead of the data",
    ),
    "bounds": (
        "--not-after",
        changed(PLAIN, not_before=2 * SECOND, not_after=SECOND),
        "1970-01-01T00:00:01Z lies before --not-before 1970-01-01T00:00:02Z",
        "give the earlier of the two to --not-before",
    ),
    "dates": (
        "--exclude",
        changed(PLAIN, excluded=tuple(range(EXCLUDED_DATES_MAX + 1))),
        "names 4001 dates",
        "name at most 4000, of the coming years only",
    ),
    "order": (
        "--exclude",
        changed(PLAIN, excluded=(2, 1)),
        "names dates out of order or twice",
        "give them ascending, each once",
    ),
    "years": (
        "--exclude",
        changed(PLAIN, excluded=(10**6,)),
        "names a date that no schedule reaches",
        "use the years 1970 to 2199",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_definition_out_of_bounds_is_refused_with_a_hint(name: str) -> None:
    """The option, the offending value, and the bounds as something to write."""
    option, definition, reason, hint = REFUSED[name]
    rejection = check_definition(definition)
    assert rejection is not None
    assert (rejection.message, rejection.hint) == (f"{option} {reason}", hint)


TARGETS: dict[str, tuple[str, str]] = {
    "https://example.com/run#part": (
        '"https://example.com/run#part" has a fragment (at position 23)',
        "leave out # and what follows it: no server gets to see it; %23 is a plain #",
    ),
    "http://example.com/#": (
        '"http://example.com/#" has a fragment (at position 19)',
        "leave out # and what follows it: no server gets to see it; %23 is a plain #",
    ),
    "https://example.com/a b": (
        "has a space, control or non-ASCII character (at position 21)",
        "percent-encode it: %20 for a space",
    ),
    "https://example.com/é": (
        "has a space, control or non-ASCII character (at position 20)",
        "percent-encode it: %20 for a space",
    ),
    "https://user:secret@example.com/": (
        "carries a user name or password",
        "leave out what stands before the @",
    ),
    "ftp://example.com/": (
        '"ftp://example.com/" is neither an http(s) URL nor nats:NAME',
        "write it as https://example.com/run, or nats:NAME for a NATS executor",
    ),
    "https://example.com:port/": (
        "\"https://example.com:port/\" is not a URL: Port could not be cast to integer value as 'port'",
        "write it as https://example.com/run, or nats:NAME for a NATS executor",
    ),
    "nats:a.b": ('"a.b" is not a NATS target name', 'use 1 to 64 of letters, digits, "_" and "-" (ASCII)'),
    "https://example.com/" + "x" * TARGET_LENGTH_MAX: (
        "is 2068 characters long",
        "use at most 2048; put data into the payload",
    ),
}


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target[:32])
def test_a_target_that_cannot_be_called_is_refused_with_a_hint(target: str) -> None:
    """The offending part with its place, and never a password."""
    rejection = check_target(target)
    assert rejection is not None
    reason, hint = TARGETS[target]
    assert (rejection.message, rejection.hint) == (f"--target {reason}", hint)
    assert "secret" not in rejection.message


@pytest.mark.parametrize("target", ["https://example.com/run?a=1&b=%23", "http://[2001:db8::1]:8080/", "nats:report"])
def test_a_target_that_can_be_called_is_taken(target: str) -> None:
    """An encoded # is no fragment."""
    assert check_target(target) is None


def test_settings_out_of_bounds_are_refused_with_a_hint() -> None:
    """Quota, jitter and zone."""
    database = zones().current
    for settings, option in (
        (TenantSettings(quota_per_second=0), "--quota 0/s is out of bounds"),
        (TenantSettings(default_jitter=2 * DAY), '--default-jitter "2d" is out of bounds'),
        (TenantSettings(zone="Rome"), '"Rome" is not a time zone'),
    ):
        rejection = check_settings(settings, database)
        assert rejection is not None
        assert rejection.message.startswith(option)
        assert rejection.hint
