"""Options about attempts and shares."""

import pytest

from fireledger.domain.definition import Retry
from fireledger.domain.instants import HOUR, MINUTE, SECOND
from fireledger.runners.control.requests import AmendTrigger, read_request
from fireledger.runners.control.retry_options import parse_factor, parse_share, retry_with
from fireledger.runners.errors import ControlRefused, ExitStatus
from fireledger.runners.json_edge import Json


def amend(**options: Json) -> AmendTrigger:
    """A request with these options."""
    return read_request({"tenant": "acme", "trigger": "t", **options}, AmendTrigger)


@pytest.mark.parametrize("text,hundredths", [("2", 200), ("1.5", 150), ("1.25", 125), ("10", 1_000), ("1.0", 100)])
def test_a_factor_is_a_decimal(text: str, hundredths: int) -> None:
    """It is kept in hundredths."""
    assert parse_factor(text) == hundredths


@pytest.mark.parametrize("text", ["", "x", "-2", "2,5", "1.333", "0.99", "10.01", "2.", ".5", "1e1"])
def test_another_factor_is_refused_with_the_bounds(text: str) -> None:
    """The message names the option, the hint says what to write."""
    with pytest.raises(ControlRefused, match="--retry-factor") as caught:
        parse_factor(text)
    assert caught.value.hint == "write a number from 1 to 10 with at most two decimals, such as 1.5"
    assert caught.value.exit_status is ExitStatus.REFUSED


@pytest.mark.parametrize("text,percent", [("10%", 10), ("1", 1), ("100%", 100)])
def test_a_share_is_in_per_cent(text: str, percent: int) -> None:
    """With or without the sign."""
    assert parse_share(text) == percent


@pytest.mark.parametrize("text", ["0%", "101%", "ten", "-5%", "5.5%", ""])
def test_another_share_is_refused(text: str) -> None:
    """The hint has the bounds."""
    with pytest.raises(ControlRefused, match="--catch-up-share") as caught:
        parse_share(text)
    assert caught.value.hint == "write it as 10%, from 1% to 100% of the quota"


def test_what_is_not_given_stays() -> None:
    """Options change what they name."""
    current = Retry(attempts=3, base=5 * SECOND, factor=150, cap=MINUTE)
    assert retry_with(amend(), current) == current
    assert retry_with(amend(max_attempts=1), current) == Retry(attempts=1, base=5 * SECOND, factor=150, cap=MINUTE)
    assert retry_with(amend(retry_factor="3"), current).factor == 300


def test_a_wait_and_its_cap_take_each_other_along() -> None:
    """No wait is longer than the cap, and what was given counts."""
    assert retry_with(amend(retry_base="2h"), Retry()) == Retry(base=2 * HOUR, cap=2 * HOUR)
    assert retry_with(amend(retry_cap="30s"), Retry()) == Retry(base=30 * SECOND, cap=30 * SECOND)
    assert retry_with(amend(retry_base="30s", retry_cap="2h"), Retry()) == Retry(base=30 * SECOND, cap=2 * HOUR)
    with pytest.raises(ControlRefused, match="--retry-cap 30s is shorter than --retry-base 1m"):
        retry_with(amend(retry_base="1m", retry_cap="30s"), Retry())


@pytest.mark.parametrize(
    "options,message,hint",
    [
        ({"max_attempts": 0}, "--max-attempts 0 is out of bounds", "use 1 to 50; 1 means"),
        ({"max_attempts": 51}, "--max-attempts 51 is out of bounds", "use 1 to 50; 1 means"),
        ({"retry_base": "999ms"}, '--retry-base "999ms" is out of bounds', "use 1s to 1d"),
        ({"retry_cap": "25h"}, '--retry-cap "1d1h" is out of bounds', "use 1s to 1d"),
        ({"retry_base": "soon"}, '--retry-base "soon" is not a duration', "write it as 90s"),
    ],
)
def test_bounds_are_told(options: dict[str, Json], message: str, hint: str) -> None:
    """Each refusal names its option and what may be given."""
    with pytest.raises(ControlRefused) as caught:
        retry_with(amend(**options), Retry())
    assert caught.value.message == message
    assert caught.value.hint.startswith(hint)
