"""Options about lanes, fires by hand, backfills, ceilings and grants: what is refused, and with which hint."""

from collections.abc import Callable

import pytest

from fireledger.domain.instants import DAY, HOUR, SECOND
from fireledger.runners.control import policy_options as o
from fireledger.runners.errors import ControlRefused, ExitStatus

T0 = 1_800_000_000 * SECOND + 250_000
NOT_TAKEN = "line breaks, control characters and spaces other than the plain one are not taken"


@pytest.mark.parametrize(
    "check,message,hint",
    [
        (lambda: o.check_name("--by", " "), "--by is empty", "give a name on one line"),
        (
            lambda: o.check_name("--by", "a\nb"),
            "--by has the character U+000A",
            f"give a name on one line; {NOT_TAKEN}",
        ),
        (
            lambda: o.check_name("--label", "a\u2028b"),
            "--label has the character U+2028",
            f"give a name on one line; {NOT_TAKEN}",
        ),
        (
            lambda: o.check_reason("a\u00a0b\u0085"),
            "--why has the character U+00A0",
            f"say on one line what is expected, such as: moving house; {NOT_TAKEN}",
        ),
        (lambda: o.check_name("--label", "x" * 65), "--label has 65 characters", "use at most 64"),
        (lambda: o.check_reason("x" * 201), "--why has 201 characters", "use at most 200"),
        (lambda: o.check_reason(""), "--why is empty", "say on one line what is expected, such as: moving house"),
        (lambda: o.check_worst(-1), "--worst -1 is out of bounds", "use 0 to 1000 tenants"),
        (lambda: o.check_count(10_001), "-n 10001 is out of bounds", "use 0 to 10000 instants"),
        (lambda: o.check_rate(0), "--rate 0 is out of bounds", "use 1 to 100000 fires a second"),
        (
            lambda: o.check_amount(-1),
            "--amount -1 is out of bounds",
            "use 0 to 1000000000000000 in the executor's units",
        ),
        (
            lambda: o.check_fires(1_000_001),
            "--fires 1000001 is out of bounds",
            "use 0 to 1000000 fires in one backfill; 0 withdraws the grant",
        ),
        (
            lambda: o.read_range("2026-11-02T00:00:00Z", "2026-11-02T00:00:00Z"),
            "--from 2026-11-02T00:00:00Z is not earlier than --to 2026-11-02T00:00:00Z",
            "give the earlier of the two to --from",
        ),
        (
            lambda: o.read_range("1969-11-02T00:00:00Z", "2026-11-02T00:00:00Z"),
            "--from 1969-11-02T00:00:00Z lies before 1970",
            "no schedule reaches that far back",
        ),
        (lambda: o.read_until("soon", T0), '--until "soon" is not an instant', "write it as 2026-11-30T09:00:00Z"),
        (
            lambda: o.read_until("8d", T0),
            '--until "8d" is out of bounds',
            "give an instant in the future, or a duration, of at most 7d",
        ),
        (
            lambda: o.read_until("2026-11-30T09:00:00Z", T0),
            '--until "2026-11-30T09:00:00Z" is out of bounds',
            "give an instant in the future, or a duration, of at most 7d",
        ),
    ],
)
def test_bounds_are_told(check: Callable[[], object], message: str, hint: str) -> None:
    """Each refusal names its option, says what may be given, and ends with status 5."""
    with pytest.raises(ControlRefused) as caught:
        check()
    assert (caught.value.message, caught.value.hint) == (message, hint)
    assert caught.value.exit_status is ExitStatus.REFUSED


def test_what_is_within_bounds_is_taken() -> None:
    """Texts and numbers come back as they are."""
    assert (o.check_name("--by", "ann"), o.check_reason("moving"), o.check_fires(0)) == ("ann", "moving", 0)


def test_a_drain_ends_at_an_instant_or_after_a_duration() -> None:
    """A duration counts from now, in whole seconds."""
    assert o.read_until("1h", T0) == T0 - 250_000 + HOUR
    assert o.read_until("7d", T0) == T0 - 250_000 + 7 * DAY
    assert o.read_until("2027-01-15T09:00:00Z", T0) == 1_800_003_600 * SECOND
