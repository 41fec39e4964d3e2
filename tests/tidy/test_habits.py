"""Habits of the code that no linter checks for us."""

import ast
import re
from collections.abc import Iterator

import pytest

from tests.tidy.sources import CODE, LAYERS, Rule, Source, at, called_name, findings, functions, python_sources, sample

_QUEUES = frozenset({"Queue", "LifoQueue", "PriorityQueue", "SimpleQueue", "JoinableQueue"})
_BROAD = frozenset({"Exception", "BaseException"})
_QUARANTINE = "domain.tick"
"""Whatever one trigger raises must not stop the others, so this module may name the trigger and raise again."""


def awaits(source: Source) -> Iterator[str]:
    """Find asynchronous code."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.AsyncFunctionDef | ast.AsyncFor | ast.AsyncWith | ast.Await):
            yield at(source, node, "the domain waits for nothing")


def undocumented_tests(source: Source) -> Iterator[str]:
    """Find tests whose first line does not state their claim."""
    for function in functions(source):
        if function.name.startswith("test_") and not (ast.get_docstring(function) or "").strip():
            yield at(source, function, f'the test "{function.name}" has no docstring that states its claim')


def sleeps(source: Source) -> Iterator[str]:
    """Find calls to anything named sleep."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Call) and called_name(node) == "sleep":
            yield at(source, node, "a test never sleeps; wait with tests/waiting.py")


def endless_loops(source: Source) -> Iterator[str]:
    """Find loops that state no end."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.While) and isinstance(node.test, ast.Constant) and node.test.value:
            yield at(source, node, "a loop outside runners/ states its end")


def unbounded_queues(source: Source) -> Iterator[str]:
    """Find queues made without a bound, or with the literal that means none."""
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.Call) or called_name(node) not in _QUEUES:
            continue
        bounds = [*node.args[:1], *(keyword.value for keyword in node.keywords if keyword.arg == "maxsize")]
        if not any(not isinstance(bound, ast.Constant) or bound.value for bound in bounds):
            yield at(source, node, "a queue has a bound with a name (domain/limits.py)")


def broad_handlers(source: Source) -> Iterator[str]:
    """Find handlers that catch everything, but for the supervisor's and the quarantine's."""
    if f"{source.module}.".startswith("runners.supervisor."):
        return
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.ExceptHandler) or not (node.type is None or _names(node.type) & _BROAD):
            continue
        if source.module != _QUARANTINE or not _passes_on(node):
            yield at(source, node, "only the supervisor catches everything")


def _passes_on(handler: ast.ExceptHandler) -> bool:
    last = handler.body[-1]
    return isinstance(last, ast.Raise) and last.cause is not None


def _names(node: ast.expr) -> set[str]:
    parts = node.elts if isinstance(node, ast.Tuple) else [node]
    return {part.attr if isinstance(part, ast.Attribute) else getattr(part, "id", "") for part in parts}


RULES: list[tuple[Rule, tuple[str, ...], str, str]] = [
    (awaits, ("domain",), "domain/a.py", "async def f() -> None: ..."),
    (undocumented_tests, ("tests",), "tests/unit/test_a.py", "def test_a() -> None: ..."),
    (sleeps, ("tests",), "tests/unit/test_a.py", "import time\ntime.sleep(1)"),
    (sleeps, ("tests",), "tests/unit/test_a.py", "from asyncio import sleep\nasync def f(): await sleep(1)"),
    (endless_loops, ("domain", "projections", "replay", "tests", "ops"), "replay/a.py", "while True: break"),
    (endless_loops, ("domain", "projections", "replay", "tests", "ops"), "replay/a.py", "while 1: break"),
    (unbounded_queues, CODE, "runners/a.py", "import asyncio\nasyncio.Queue()"),
    (unbounded_queues, CODE, "runners/a.py", "import asyncio\nasyncio.Queue[int](maxsize=0)"),
    (broad_handlers, CODE, "runners/a.py", "try: f()\nexcept: pass"),
    (broad_handlers, CODE, "runners/a.py", "try: f()\nexcept (OSError, Exception): pass"),
]
"""Rule, the folders it holds in, and a file it must object to."""


@pytest.mark.parametrize(
    "rule,folders,path,text", RULES, ids=[f"{row[0].__name__}-{number}" for number, row in enumerate(RULES)]
)
def test_the_project_keeps_the_habit(rule: Rule, folders: tuple[str, ...], path: str, text: str) -> None:
    """No file of the folders breaks the rule, and the rule objects to a file that does."""
    assert len(list(rule(sample(path, text)))) == 1
    assert findings(rule, *folders) == []


@pytest.mark.parametrize(
    "rule,text",
    [
        (undocumented_tests, 'def test_a() -> None:\n    """It holds."""'),
        (endless_loops, "while not stopping: break"),
        (unbounded_queues, "import asyncio\nasyncio.Queue(QUEUE_MAX)"),
        (unbounded_queues, "import asyncio\nasyncio.Queue[int](maxsize=QUEUE_MAX)"),
        (broad_handlers, "try: f()\nexcept (OSError, ValueError): pass"),
    ],
)
def test_what_keeps_the_habit_is_left_alone(rule: Rule, text: str) -> None:
    """The rule does not object to the way it asks for."""
    assert list(rule(sample("replay/a.py", text))) == []


def test_two_modules_may_catch_everything() -> None:
    """The supervisor keeps the others running; the quarantine may only raise again, naming the cause."""
    swallows, passes_on = "try: f()\nexcept Exception: pass", "try: f()\nexcept Exception as e: raise Bad() from e"
    assert not list(broad_handlers(sample("runners/supervisor.py", swallows)))
    assert not list(broad_handlers(sample("domain/tick.py", passes_on)))
    assert list(broad_handlers(sample("domain/tick.py", swallows)))
    assert list(broad_handlers(sample("runners/supervisors.py", passes_on)))


DECIDER = {
    "initial": ["State"],
    "evolve": ["State", "Page", "int", "State"],
    "decide": ["State", "Command", "Inputs", "tuple[BookEntry, ...] | Rejection"],
}
"""The three functions of every decision: the types of their parameters, then of their result."""


def signatures(sources: tuple[Source, ...]) -> dict[str, list[str]]:
    """Return the types of every top-level initial, evolve and decide; an instant counts as the integer it is."""
    found: dict[str, list[str]] = {}
    for source in sources:
        for node in source.tree.body:
            if isinstance(node, ast.FunctionDef) and node.name in DECIDER:
                found[node.name] = [
                    _type_text(part) for part in (*(a.annotation for a in node.args.args), node.returns)
                ]
    return found


def _type_text(annotation: ast.expr | None) -> str:
    text = ast.unparse(annotation) if annotation else "nothing"
    return re.sub(r"\bInstant\b", "int", re.sub(r"\b\w+\.(?=\w)", "", text))


def test_every_decision_has_one_shape() -> None:
    """The domain's three functions exist, take what the design says and return what it says."""
    assert signatures(python_sources("domain")) == DECIDER


def test_another_shape_is_found() -> None:
    """A function that takes less differs from the table; a module's name before a type does not matter."""
    shorter = sample("domain/a.py", "def evolve(state: State, page: Page) -> State: ...")
    qualified = sample("domain/a.py", "def evolve(state: s.State, page: Page, stamped_at: Instant) -> State: ...")
    assert signatures((shorter,))["evolve"] != DECIDER["evolve"]
    assert signatures((qualified,))["evolve"] == DECIDER["evolve"]


def test_the_layers_are_the_folders_that_are_checked() -> None:
    """The rules above look at every folder that holds code."""
    assert set(LAYERS) < set(CODE)
