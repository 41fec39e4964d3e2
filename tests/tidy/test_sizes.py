"""Sizes, held by a ratchet: what is over a limit is listed here by its size, and the list may only shrink."""

from collections.abc import Iterator

from tests.tidy.sources import CODE, LAYERS, Source, functions, python_sources, sample

FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 500
POSITIONAL_MAX = 5

OVERSIZE: dict[str, int] = {}
"""What is over its limit today, as "path" or "path:function", with its present size. Never add; lower and remove."""


def file_sizes(source: Source) -> Iterator[tuple[str, int]]:
    """Yield the file if it has too many lines."""
    size = source.text.count("\n")
    if size > FILE_LINES_MAX:
        yield source.path, size


def function_sizes(source: Source) -> Iterator[tuple[str, int]]:
    """Yield functions with too many lines, their docstring included, their decorators not."""
    for function in functions(source):
        size = (function.end_lineno or function.lineno) - function.lineno + 1
        if size > FUNCTION_LINES_MAX:
            yield f"{source.path}:{function.name}", size


def positional_counts(source: Source) -> Iterator[tuple[str, int]]:
    """Yield functions with too many parameters that can be given by position, the instance or class aside."""
    for function in functions(source):
        names = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
        count = len(names) - (names[:1] in (["self"], ["cls"]))
        if count > POSITIONAL_MAX:
            yield f"{source.path}:{function.name}", count


def oversize() -> dict[str, int]:
    """Return everything over its limit. A test's parameters are fixtures, so they are not counted."""
    everywhere = python_sources(*CODE)
    found = [item for source in everywhere for item in (*file_sizes(source), *function_sizes(source))]
    found += [item for source in python_sources(*LAYERS, "ops") for item in positional_counts(source)]
    return dict(found)


def test_nothing_outgrows_its_limit() -> None:
    """Files, functions and parameter lists are within their limits, but for the list above, which is exact."""
    assert oversize() == OVERSIZE


def test_what_is_too_large_is_found() -> None:
    """A file, a function and a parameter list one over the limit are each found; at the limit they are not."""
    body = "\n".join("    a = 1" for _ in range(FUNCTION_LINES_MAX))
    assert list(function_sizes(sample("ops/a.py", f"def f() -> None:\n{body}"))) == [("ops/a.py:f", 71)]
    assert not list(function_sizes(sample("ops/a.py", f"@g\ndef f() -> None:\n{body[:-10]}")))
    assert list(file_sizes(sample("ops/a.py", "a = 1\n" * 501))) == [("ops/a.py", 501)]
    assert not list(file_sizes(sample("ops/a.py", "a = 1\n" * 500)))
    assert list(positional_counts(sample("ops/a.py", "def f(a, b, c, d, e, f): ..."))) == [("ops/a.py:f", 6)]
    method = "class A:\n    def f(self, a, b, c, d, e, *, f): ..."
    assert not list(positional_counts(sample("ops/a.py", method)))
