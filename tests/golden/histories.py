"""Recorded histories: real books with their zone data, replayed page by page.

``python -m tests.golden.histories FILE...`` replays files and prints their digests.
"""

import json
import sys
from base64 import b64decode, b64encode
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import cast

from fireledger.domain.book import check_chain, empty_book, fold_page
from fireledger.domain.page import decode_page, encode_page
from fireledger.domain.zones import ZoneLibrary, unpack_zone_database
from tests.unit.domain.given import Given, Written, decided_again, replace_entries

FOLDER = Path(__file__).parent / "histories"


@dataclass(frozen=True, slots=True)
class History:
    """A recorded book: its tenant, its packed time-zone database and its pages in order."""

    tenant: str
    zones: bytes
    pages: tuple[Written, ...]


def history_of(book: Given) -> History:
    """Return the book as a history."""
    return History(book.book.tenant, book.zones.current.pack(), tuple(book.written))


def to_text(history: History) -> str:
    """Write a history as JSON, a page a line."""
    pages = ",\n".join(json.dumps({"stamped_at": page.stamped_at, "body": page.body.hex()}) for page in history.pages)
    zones = b64encode(history.zones).decode()
    return f'{{"tenant": {json.dumps(history.tenant)},\n"zones": "{zones}",\n"pages": [\n{pages}\n]}}\n'


def read(path: Path) -> History:
    """Read a recorded history."""
    raw = cast("dict[str, object]", json.loads(path.read_text("ascii")))
    pages = cast("list[dict[str, object]]", raw["pages"])
    return History(
        str(raw["tenant"]),
        b64decode(str(raw["zones"])),
        tuple(
            Written(bytes.fromhex(str(page["body"])), int(str(page["stamped_at"])), number)
            for number, page in enumerate(pages, start=1)
        ),
    )


def replay(history: History) -> str:
    """Decode, check the chain, decide each page again from the state before it; return a digest of all of it.

    Raises BrokenChain, or AssertionError when a decision made again gives other bytes.
    """
    library = ZoneLibrary(unpack_zone_database(history.zones))
    book, digest = empty_book(history.tenant), sha256()
    for written in history.pages:
        page = decode_page(written.body)
        check_chain(book, page, written.sequence)
        entries = decided_again(book.state, page, library)
        assert isinstance(entries, tuple), f"page {page.number} is refused now: {entries}"
        body = encode_page(replace_entries(page, entries))
        assert body == written.body, f"page {page.number} is decided otherwise now"
        digest.update(body)
        book = fold_page(book, body, stamped_at=written.stamped_at, sequence=written.sequence).book
    digest.update(repr(book.state).encode())
    return digest.hexdigest()


if __name__ == "__main__":
    for name in sys.argv[1:]:
        sys.stdout.write(f"{replay(read(Path(name)))}\n")
