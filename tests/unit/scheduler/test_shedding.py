"""How much is held back when rounds of deciding take long."""

import asyncio
from io import StringIO

import pytest

from fireledger.runners.json_edge import loads
from fireledger.runners.logs import configure_logs
from fireledger.runners.scheduler.admission import Admission
from fireledger.runners.scheduler.pacing import LaneRates
from fireledger.runners.scheduler.shedding import CALM_S, Shedding


@pytest.mark.parametrize("took_s,level", [(0.2, 0), (1.0, 1), (2.5, 2), (5.0, 3), (29.0, 3), (31.0, 4)])
def test_the_level_follows_the_length_of_a_round(took_s: float, level: int) -> None:
    """One long round is enough to hold back what can wait."""
    shedding = Shedding()
    shedding.note_round(took_s, took_s)
    assert shedding.level == level


def test_the_level_falls_step_by_step() -> None:
    """Quick rounds lower it by one each CALM_S, never at once."""
    shedding = Shedding()
    shedding.note_round(5.0, 100.0)
    levels: list[int] = []
    for step in range(1, 9):
        shedding.note_round(0.01, 100.0 + step * CALM_S / 2)
        levels.append(shedding.level)
    assert levels == [3, 2, 2, 1, 1, 0, 0, 0]


async def _changed() -> int:
    """Note a round that took two seconds; the level then."""
    admission = Admission(LaneRates())
    admission.note_round(asyncio.get_running_loop().time() - 2.0)
    return admission.level


def test_a_change_of_level_is_logged() -> None:
    """The line tells the level before and after."""
    stream = StringIO()
    configure_logs("scheduler", stream=stream)
    level = asyncio.run(_changed())
    line = loads(stream.getvalue())
    assert isinstance(line, dict)
    assert (line["action"], line["before"], line["shedding_level"]) == ("shedding-changed", 0, level)
    assert level > 0
