"""Where executors report outcomes over HTTP: what control, the supervisor and the dispatcher agree on."""

HOST = "127.0.0.1"
"""The only address that control listens on."""
PATH = "/v1/outcomes"


def outcome_url(port: int) -> str:
    """Where executors on this machine report to the control that listens on this port."""
    return f"http://{HOST}:{port}{PATH}"
