"""Fresh identifiers: the only module that asks for randomness. Nothing here ever reaches a decision's inputs."""

import secrets


def new_commit_id() -> str:
    """Return a page's commit id: 16 random bytes in lower-case hexadecimal."""
    return secrets.token_hex(16)


def new_runner_id(kind: str) -> str:
    """Return a runner's name for leases and logs, such as ``scheduler-5f0c11ab``; new at each start."""
    return f"{kind}-{secrets.token_hex(4)}"


def new_request_id() -> str:
    """Return a request id for a command whose caller gave none: 16 random bytes in hexadecimal."""
    return secrets.token_hex(16)
