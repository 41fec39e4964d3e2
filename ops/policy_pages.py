"""Writes the parts of ``docs/policies`` that are made from the code: pictures, pages of books and tables of limits.

``python -m ops.policy_pages`` rewrites what stands between the markers, ``--check`` only says whether it is fresh
(exit 1 if not).
"""

import re
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from textwrap import wrap
from typing import cast

from fireledger.domain.definition import Retry
from fireledger.domain.entries import Lane
from fireledger.domain.instants import MINUTE, format_duration
from fireledger.domain.limits import RETRY_SPREAD_PERCENT
from fireledger.domain.page import Page, decode_page
from fireledger.domain.retry import nominal_wait
from fireledger.projections.book_text import entry_readable, page_readable
from fireledger.runners.cli.book import page_lines
from fireledger.runners.control.lane_health import AGE_MAX
from fireledger.runners.dispatcher.lanes import LANE_NAMES, LANE_SHARES
from fireledger.runners.json_edge import Json
from fireledger.runners.scheduler.shedding import CALM_S, LEVEL_AFTER_S
from ops.policy_limits import UnknownBlock, limits_table
from ops.policy_pictures import picture
from tests.tidy.policy_scenarios import SCENARIOS, Scenario
from tests.unit.domain.given import TENANT, Written

DOCS = Path(__file__).parent.parent / "docs" / "policies"
WIDTH = 110
"""Longer lines of a book are folded."""
_BLOCK = re.compile(r"(<!-- made: (?P<kind>[a-z]+)(?: (?P<name>[a-z-]+))? -->\n).*?<!-- /made -->", re.DOTALL)
_END = "<!-- /made -->"


@cache
def scenario(name: str) -> Scenario:
    """The scenario of that name, told once. Raises UnknownBlock."""
    if name not in SCENARIOS:
        raise UnknownBlock(f'there is no scenario "{name}"')
    return SCENARIOS[name]()


def book_block(name: str) -> str:
    """What ``fireledger book show`` prints of the scenario's pages, without stamps and hashes, folded."""
    told = scenario(name)
    lines = [f"$ fireledger book show {TENANT} --from {told.first}"]
    left_out = False
    for written in told.book.written:
        page = decode_page(written.body)
        if page.number < told.first:
            continue
        if page.number in told.hidden:
            if not left_out:
                lines.append("…")
            left_out = True
            continue
        left_out = False
        lines.extend(_page(page, written))
    return "\n".join(lines)


def _page(page: Page, written: Written) -> Iterator[str]:
    shown = page_readable(page, written.body, stamped_at=written.stamped_at, sequence=written.sequence)
    owner = "scheduler" if shown["command"] == "tick.v1" else "control"
    entries = [entry_readable(entry) for entry in page.entries]
    # The command line has the same values back from JSON.
    head, _, *rest = page_lines(cast("dict[str, Json]", {**shown, "owner": owner, "entries": entries}))
    for line in (head, *rest):
        indent = " " * (len(line) - len(line.lstrip()))
        yield from wrap(
            line,
            WIDTH,
            drop_whitespace=True,
            subsequent_indent=f"{indent}    ",
            break_long_words=False,
            break_on_hyphens=False,
        )


def waits_block() -> str:
    """The waits before each further attempt of a trigger that sets nothing, as a table."""
    retry, total = Retry(), 0
    lines = ["| after attempt | wait at least | wait at most | since the first failure, about |", "|---|---|---|---|"]
    for attempt in range(1, retry.attempts):
        wait = nominal_wait(retry, attempt)
        longest = wait * (100 + RETRY_SPREAD_PERCENT) // 100
        total += (wait + longest) // 2
        about = format_duration(round(total / MINUTE) * MINUTE)
        lines.append(f"| {attempt} | {format_duration(wait)} | {format_duration(longest)} | {about} |")
    return "\n".join(lines)


def shedding_block() -> str:
    """From which length of a round on a scheduler holds what back, as a table."""
    held_back = (
        "backfill",
        "also catch-up",
        "also on-time fires above the quota",
        "also on-time fires within the quota: new ones are skipped",
    )
    lines = ["| level | a round took | what is held back |", "|---|---|---|"]
    for level, (least, what) in enumerate(zip(LEVEL_AFTER_S, held_back, strict=True), 1):
        lines.append(f"| {level} | {least:g} s or more | {what} |")
    return "\n".join(
        [*lines, "", f"The level falls by one after {CALM_S:g} s without a round that would have kept it."]
    )


def places_block() -> str:
    """What part of a dispatcher's places each lane may take, and from which age on it is a problem, as a table."""
    lines = [
        "| lane | part of the calls at once | problem in `status` when the oldest is older than |",
        "|---|---|---|",
    ]
    for name, share in zip(LANE_NAMES, LANE_SHARES, strict=True):
        lane: Lane = "catch-up" if name == "catch-up" else "backfill" if name == "backfill" else "on-time"
        part = "all" if share == 1 else f"1/{share}"
        lines.append(f"| {name} | {part} | {format_duration(AGE_MAX[lane])} |")
    return "\n".join(lines)


def _fenced(text: str) -> str:
    return f"```text\n{text}\n```"


_MAKERS: dict[str, Callable[[str], str]] = {
    "picture": lambda name: _fenced(picture(scenario(name))),
    "book": lambda name: _fenced(book_block(name)),
    "limits": limits_table,
    "waits": lambda _: waits_block(),
    "shedding": lambda _: shedding_block(),
    "places": lambda _: places_block(),
}


def renewed(text: str) -> str:
    """A page with every block made anew. Raises UnknownBlock."""

    def block(found: re.Match[str]) -> str:
        """One block between its markers."""
        kind, name = found["kind"], found["name"] or ""
        if kind not in _MAKERS:
            raise UnknownBlock(f'there is no kind of block "{kind}"')
        return f"{found[1]}{_MAKERS[kind](name)}\n{_END}"

    return _BLOCK.sub(block, text)


def blocks(text: str) -> list[tuple[str, str]]:
    """The kind and name of each block of a page."""
    return [(found["kind"], found["name"] or "") for found in _BLOCK.finditer(text)]


def pages() -> dict[Path, str]:
    """Every page and what it must say."""
    return {path: renewed(path.read_text("utf-8")) for path in sorted(DOCS.glob("*.md"))}


def main() -> int:
    """Write or check the pages."""
    stale = {path: text for path, text in pages().items() if path.read_text("utf-8") != text}
    if "--check" not in sys.argv[1:]:
        for path, text in stale.items():
            path.write_text(text, "utf-8")
        return 0
    for path in stale:
        print(f'"{path.name}" is not fresh; run python -m ops.policy_pages', file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
