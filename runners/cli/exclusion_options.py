"""The options that exclude dates: one by one, or by a calendar file."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import click

from fireledger.domain.recurrence.errors import MalformedSchedule
from fireledger.domain.recurrence.excluded_text import (
    CALENDAR_BYTES_MAX,
    format_excluded_dates,
    parse_excluded_calendar,
)

from ..control.definitions import excluded_dates
from ..control.refusals import ScheduleRefused
from ..json_edge import Json
from .files import read_file

_Command = TypeVar("_Command", bound=Callable[..., None])
NONE = "none"
"""The word that excludes no date any more."""


def exclusion_options(command: _Command) -> _Command:
    """Give a command --exclude and --exclude-calendar."""
    dates = click.option(
        "--exclude",
        metavar="DATE",
        multiple=True,
        help='A local date on which nothing is due: 2026-12-25. Repeatable; "none" for none.',
    )
    calendar = click.option(
        "--exclude-calendar", metavar="@FILE", help="An iCalendar file of whole days on which nothing is due."
    )
    return dates(calendar(command))


def given_exclusions(dates: tuple[str, ...], calendar: str | None) -> dict[str, Json]:
    """The field of a request for the dates that are excluded, if any of the options is given. Raises ControlRefused."""
    if not dates and calendar is None:
        return {}
    if NONE in dates:
        if len(dates) > 1 or calendar is not None:
            raise click.UsageError('"--exclude none" stands alone')
        return {"exclude": []}
    days = {*excluded_dates(dates), *(() if calendar is None else _of_calendar(calendar))}
    return {"exclude": list(format_excluded_dates(sorted(days)))}


def _of_calendar(text: str) -> tuple[int, ...]:
    content = read_file(
        Path(text.removeprefix("@")),
        what="calendar",
        bytes_max=CALENDAR_BYTES_MAX,
        too_large_hint="keep the days of the coming years only",
    )
    try:
        return parse_excluded_calendar(content)
    except MalformedSchedule as error:
        raise ScheduleRefused(error, error.token) from error
