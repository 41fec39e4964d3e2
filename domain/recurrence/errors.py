"""Why a schedule's text is refused, with the place in the text."""


class MalformedSchedule(ValueError):
    """The text is not a schedule.

    ``message`` is one lower-case sentence, ``position`` the 0-based index of the offending part in the
    text (None when it concerns the whole), ``token`` that part, ``hint`` what to write instead.
    """

    def __init__(self, message: str, *, position: int | None = None, token: str = "", hint: str = "") -> None:
        self.message = message
        self.position = position
        self.token = token
        self.hint = hint
        place = "" if position is None else f" (at position {position})"
        super().__init__(f"{message}{place}; {hint}" if hint else f"{message}{place}")


class NeverDue(MalformedSchedule):
    """The text is well formed and no date can ever match it."""
