"""Fresh identifiers have their documented shape and do not repeat."""

import re

from fireledger.runners.identity import new_commit_id, new_request_id, new_runner_id


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
