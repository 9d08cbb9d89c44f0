"""Which tests execute which lines of a room's modules, recorded once by coverage.py: a mutant needs only the tests that execute its line."""

import ast
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

import coverage

from tests.mutation.mutants import Mutant

Lines: TypeAlias = Mapping[int, Sequence[str]]


class Record(NamedTuple):
    """`imports`: lines of each module that its import executes; `tests`: of each line, the tests that execute it; `seconds`: of processor time that each test takes, which other work does not lengthen; `durations`: in seconds."""

    imports: Mapping[str, set[int]]
    tests: Mapping[str, Lines]
    seconds: Mapping[str, float]
    durations: Mapping[str, float]

    def runs_at_import(self, mutant: Mutant, lines: Collection[int]) -> bool:
        return not self.imports.get(mutant.path, set()).isdisjoint(lines)

    def tests_of(self, mutant: Mutant, lines: Collection[int]) -> set[str]:
        executed = self.tests.get(mutant.path, {})
        return {test for line in lines for test in executed.get(line, ())}

    def tests_of_module(self, path: str) -> set[str]:
        return {test for tests in self.tests.get(path, {}).values() for test in tests}

    def quickest(self, tests: Collection[str], seconds: float) -> list[str]:
        """The tests that together take at most this long, the quickest first; at least one."""
        chosen: list[str] = []
        for test in sorted(tests, key=lambda test: (self.seconds[test], test)):
            seconds -= self.seconds[test]
            if chosen and seconds < 0:
                break
            chosen.append(test)
        return chosen


def recorder(paths: Sequence[Path]) -> coverage.Coverage:
    """Keeps in memory what runs in these files."""
    return coverage.Coverage(data_file=None, config_file=False, include=[str(path) for path in paths])


def executed(recorded: coverage.Coverage, root: Path) -> dict[str, dict[int, list[str]]]:
    """Of each file and line, the contexts that executed it."""
    data = recorded.get_data()
    return {str(Path(file).relative_to(root)): data.contexts_by_lineno(file) for file in data.measured_files()}


def lines_of_statement(code: str, line: int) -> set[int]:
    """All lines of the statement, one of which executes if it does; of a statement with a body, those before the body."""
    inner = max(
        ((first, last) for first, last in _statements(ast.parse(code)) if first <= line <= last), default=(line, line)
    )
    return set(range(inner[0], inner[1] + 1))


def _statements(tree: ast.Module) -> Iterator[tuple[int, int]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt | ast.ExceptHandler):
            body = getattr(node, "body", None)
            last = max(node.lineno, body[0].lineno - 1) if body else node.end_lineno or node.lineno
            yield node.lineno, last
