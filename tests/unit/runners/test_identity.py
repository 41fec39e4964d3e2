"""Fresh identifiers have their documented shape and do not repeat."""

import re

from fireledger.runners.identity import (
    PREDECESSOR_VARIABLE,
    RUNNER_ID_VARIABLE,
    given_predecessor,
    given_runner_id,
    new_commit_id,
    new_request_id,
    new_runner_id,
)


def test_commit_and_request_ids_are_sixteen_random_bytes() -> None:
    """Both are 32 hexadecimal digits, and a thousand of them differ."""
    made = [new_commit_id() for _ in range(500)] + [new_request_id() for _ in range(500)]
    assert all(re.fullmatch(r"[0-9a-f]{32}", one) for one in made)
    assert len(set(made)) == 1_000


def test_a_runner_id_begins_with_its_kind() -> None:
    """A runner id is its kind, a dash and eight hexadecimal digits, new each time."""
    first, second = new_runner_id("scheduler"), new_runner_id("scheduler")
    assert re.fullmatch(r"scheduler-[0-9a-f]{8}", first)
    assert first != second


def test_a_supervisor_names_a_runner_and_the_one_before_it() -> None:
    """Both come from the environment; without them, or with those of another kind, the runner names itself."""
    named = {RUNNER_ID_VARIABLE: "scheduler-2", PREDECESSOR_VARIABLE: "scheduler-1"}
    assert (given_runner_id("scheduler", named), given_predecessor("scheduler", named)) == (
        "scheduler-2",
        "scheduler-1",
    )
    for environment in ({}, {RUNNER_ID_VARIABLE: "", PREDECESSOR_VARIABLE: ""}, named):
        assert re.fullmatch(r"control-[0-9a-f]{8}", given_runner_id("control", environment))
        assert given_predecessor("control", environment) == ""
