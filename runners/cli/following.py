"""Following: asking for changes again and again, so that a control that was killed is missed for a moment only."""

from ..control_client import ControlAbsent
from ..errors import OperationalError

WAIT_S = 1.0
"""How long control may wait for a change before it answers that there is none."""
ANSWER_S_MIN = 2.0
"""Without an answer for so long the request is lost, or its control is gone: it is asked again."""
ANSWER_S_MAX = 15.0
"""A control that answers slowly is given more time, up to this."""
RETRY_S = 0.5
"""Between two attempts."""


class Patience:
    """How long the next answer is waited for: ``timeout_s``."""

    def __init__(self) -> None:
        self.timeout_s = ANSWER_S_MIN

    def answered(self) -> None:
        """There was an answer."""
        self.timeout_s = ANSWER_S_MIN

    def failed(self, error: OperationalError) -> None:
        """There was none in time; where nobody was there to answer, waiting longer would not help."""
        if not isinstance(error, ControlAbsent):
            self.timeout_s = min(2 * self.timeout_s, ANSWER_S_MAX)
