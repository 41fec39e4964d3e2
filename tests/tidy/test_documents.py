"""Documents: titles, links, decision records, the changelog, and nothing of anybody's machine in any file."""

import re
from collections.abc import Iterable, Iterator
from datetime import date
from pathlib import PurePosixPath

import pytest

from tests.tidy.sources import ROOT, text_files

_FENCE = re.compile(r"^ *(```|~~~).*?^ *\1 *$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`[^`\n]*`")
_LINK = re.compile(r"\[[^\]\n]*\]\(\s*<?([^)\s>]+)>?[^)\n]*\)")
_HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.MULTILINE)

# Put together from pieces, so that this file is not a finding of its own.
_HOSTS = ("files." + "pythonhosted.org", "pypi" + ".org", "registry." + "npmjs.org", "proxy." + "golang.org")
_FOLDERS = ("work", "root", r"home/[a-z][\w-]*", r"Users/\w+")
_MACHINE = re.compile(
    "|".join([*(re.escape(host) for host in _HOSTS), r"https?://\S+/" + r"simple/?(?:\s|$)"])
    + "|" + r"(?<![\w.<>~$}/-])/" + f"(?:{'|'.join(_FOLDERS)})/"
)  # fmt: skip

_RECORD_NAME = re.compile(r"(\d{4})-[a-z0-9-]+\.md")
_RECORD_HEAD = re.compile(
    r"# (\d{4}): \S.*\n\n- Date: (\d{4}-\d{2}-\d{2})\n- Status: (?:accepted|superseded by (\d{4}))\n\n"
)
_RECORD_SECTIONS = ["Context", "Decision", "Consequences"]


def documents() -> dict[str, str]:
    """Return the project's Markdown files by path."""
    return {path: text for path, text in text_files() if path.endswith(".md")}


def machine_traces(path: str, text: str) -> Iterator[str]:
    """Find addresses of package registries and absolute paths of somebody's machine."""
    for number, line in enumerate(text.splitlines(), 1):
        for match in _MACHINE.finditer(line):
            yield f"{path}:{number}: {match[0]}"


def without_code(text: str) -> str:
    """Return the document without its code blocks."""
    return _FENCE.sub("", text)


def title_faults(path: str, text: str) -> Iterator[str]:
    """Find a document that does not begin with its one title."""
    body = without_code(text)
    if not body.lstrip().startswith("# ") or len(re.findall(r"^# ", body, re.MULTILINE)) != 1:
        yield f"{path}: a document begins with its title and has no second one"


def anchors(text: str) -> set[str]:
    """Return the names by which its headings can be linked to."""
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in _HEADING.findall(without_code(text)))
    return {heading.strip().replace(" ", "-") for heading in plain}


def broken_links(path: str, text: str, others: dict[str, str]) -> Iterator[str]:
    """Find links to files and headings that are not there. Web addresses are not asked."""
    for link in _LINK.findall(_CODE.sub("", without_code(text))):
        if re.match(r"[a-z]+:", link):
            continue
        file, _, anchor = link.partition("#")
        target = _resolve(PurePosixPath(path).parent, file) if file else path
        if not (ROOT / target).exists() and target not in others:
            yield f'{path}: "{link}" leads nowhere'
        elif anchor and target in others and anchor not in anchors(others[target]):
            yield f'{path}: "{link}" names a heading that is not there'


def _resolve(folder: PurePosixPath, link: str) -> str:
    parts: list[str] = []
    for part in (folder / link).parts:
        if part == ".." and parts:
            parts.pop()
        else:
            parts.append(part)
    return "/".join(parts)


def record_faults(name: str, text: str, numbers: set[str]) -> Iterator[str]:
    """Find what a decision record's name, header and sections lack."""
    named, head = _RECORD_NAME.fullmatch(name), _RECORD_HEAD.match(text)
    if named is None or head is None:
        yield f"{name}: the name or the header has not the form of docs/decisions/README.md"
        return
    if named[1] != head[1]:
        yield f"{name}: the title's number is another"
    if not _is_date(head[2]):
        yield f'{name}: "{head[2]}" is no date'
    if head[3] is not None and head[3] not in numbers:
        yield f'{name}: the superseding record "{head[3]}" does not exist'
    if re.findall(r"^## (.+)$", text, re.MULTILINE) != _RECORD_SECTIONS:
        yield f"{name}: the sections are not {', '.join(_RECORD_SECTIONS)}"


def _is_date(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def records() -> dict[str, str]:
    """Return the decision records by file name."""
    folder = "docs/decisions/"
    found = {path.removeprefix(folder): text for path, text in documents().items() if path.startswith(folder)}
    return {name: text for name, text in found.items() if name not in {"README.md", "template.md"}}


def changelog_faults(text: str) -> Iterator[str]:
    """Find a changelog whose newest section is not the unreleased one, or that has sections out of the list."""
    sections = re.findall(r"^## (.+)$", text, re.MULTILINE)
    if sections[:1] != ["Unreleased"]:
        yield 'the first section is not "Unreleased"'
    for kind in re.findall(r"^### (.+)$", text, re.MULTILINE):
        if kind not in {"Added", "Changed", "Fixed", "Removed", "Upgrade"}:
            yield f'"{kind}" is not a kind of change'


def _all(lists: Iterable[Iterator[str]]) -> list[str]:
    return [finding for found in lists for finding in found]


def test_no_file_names_a_registry_or_a_machine() -> None:
    """The project builds anywhere: where packages come from and where it lies is each machine's own matter."""
    assert _all(machine_traces(path, text) for path, text in text_files()) == []


def test_every_document_has_one_title() -> None:
    """Each begins with its title and has no second one."""
    assert _all(title_faults(path, text) for path, text in documents().items()) == []


def test_every_link_leads_somewhere() -> None:
    """Files and headings that a document links to exist."""
    others = documents()
    assert _all(broken_links(path, text, others) for path, text in others.items()) == []


def test_every_decision_record_has_its_header() -> None:
    """Names, numbers, dates, states and sections are as docs/decisions/README.md says."""
    found = records()
    numbers = [name[:4] for name in found]
    assert _all(record_faults(name, text, set(numbers)) for name, text in found.items()) == []
    assert sorted(set(numbers)) == sorted(numbers), "two records have one number"


def test_every_decision_record_is_listed() -> None:
    """The list in docs/decisions/README.md links to each record."""
    listing = documents()["docs/decisions/README.md"]
    assert [name for name in records() if f"({name})" not in listing] == []


def test_the_changelog_has_a_place_for_this_change() -> None:
    """Its first section is the unreleased one, and its kinds are the listed ones."""
    assert list(changelog_faults(documents()["CHANGELOG.md"])) == []


@pytest.mark.parametrize(
    "text",
    [
        "see https://" + "pypi" + ".org/project/x",
        "index = https://packages.example/" + "simple/",
        "cd /" + "work/main",
        'open("/' + 'home/somebody/x")',
        "PATH=/" + "root/bin",
    ],
)
def test_a_trace_of_a_machine_is_found(text: str) -> None:
    """Registries and absolute paths are findings."""
    assert len(list(machine_traces("a.md", text))) == 1


@pytest.mark.parametrize(
    "text", ["work.<tenant>.NAME", "~/.local/share/fireledger", "a/" + "work/b", "/api/" + "home/x/"]
)
def test_an_innocent_text_is_left_alone(text: str) -> None:
    """Subjects, paths below the home folder and relative paths are no findings."""
    assert not list(machine_traces("a.md", text))


def test_a_bad_title_is_found() -> None:
    """No title, a late one and a second one are findings; a comment in a code block is not."""
    assert all(list(title_faults("a.md", text)) for text in ("", "text\n\n# A\n", "# A\n\n# B\n"))
    assert not list(title_faults("a.md", "# A\n\n```sh\n# comment\n```\n"))


def test_a_broken_link_is_found() -> None:
    """A missing file and a missing heading are findings; code and web addresses are not looked at."""
    others = {"docs/a.md": "# A\n\n## Two words, here\n"}
    good = "[a](a.md) [b](a.md#two-words-here) [c](../Makefile) [d](https://example.org) `[e](none.md)`"
    assert not list(broken_links("docs/b.md", good, others))
    assert len(list(broken_links("docs/b.md", "[a](none.md) [b](a.md#three)", others))) == 2


def test_a_bad_decision_record_is_found() -> None:
    """A wrong number, date, state, superseding record or section is a finding."""
    good = "# 0007: X\n\n- Date: 2026-11-30\n- Status: accepted\n\n## Context\n\n## Decision\n\n## Consequences\n"
    assert not list(record_faults("0007-x.md", good, {"0007"}))
    changes = [("0007:", "0008:"), ("11-30", "11-31"), ("accepted", "agreed"), ("accepted", "superseded by 0009")]
    for old, new in [*changes, ("## Decision", "## Choice"), ("- Date", "Date")]:
        assert len(list(record_faults("0007-x.md", good.replace(old, new), {"0007"}))) == 1
    assert list(record_faults("7-x.md", good, {"0007"}))


def test_a_bad_changelog_is_found() -> None:
    """A released section on top and an unknown kind of change are findings."""
    assert len(list(changelog_faults("# Changelog\n\n## 0.1.0\n\n### News\n"))) == 2
