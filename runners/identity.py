"""Fresh identifiers: the only module that asks for randomness. Nothing here ever reaches a decision's inputs."""

import os
import secrets
from collections.abc import Mapping

RUNNER_ID_VARIABLE = "FIRELEDGER_RUNNER_ID"
PREDECESSOR_VARIABLE = "FIRELEDGER_PREDECESSOR"
"""What a supervisor tells a runner: its name, and that of the process before it, which it saw end."""


def new_commit_id() -> str:
    """Return a page's commit id: 16 random bytes in lower-case hexadecimal."""
    return secrets.token_hex(16)


def new_runner_id(kind: str) -> str:
    """Return a runner's name for leases and logs, such as ``scheduler-5f0c11ab``; new at each start."""
    return f"{kind}-{secrets.token_hex(4)}"


def given_runner_id(kind: str, environment: Mapping[str, str] = os.environ) -> str:
    """Return the runner's name that its supervisor chose; without a supervisor a new one."""
    given = environment.get(RUNNER_ID_VARIABLE, "")
    return given if given.startswith(f"{kind}-") else new_runner_id(kind)


def given_predecessor(kind: str, environment: Mapping[str, str] = os.environ) -> str:
    """Return the name of the ended process whose place this one takes; empty when there is none."""
    given = environment.get(PREDECESSOR_VARIABLE, "")
    return given if given.startswith(f"{kind}-") else ""


def new_request_id() -> str:
    """Return a request id for a command whose caller gave none: 16 random bytes in hexadecimal."""
    return secrets.token_hex(16)
