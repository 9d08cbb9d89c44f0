"""What tests.mutation breaks, and its list of changes without effect."""

import signal
from pathlib import Path
from typing import Any

import pytest

from tests.mutation import equivalents, forks
from tests.mutation.mutants import Mutant, code_of, mutants_of
from tests.mutation.record import Record, executed, lines_of_statement, recorder
from tests.mutation.results import Results
from tests.mutation.rooms import ROOMS, ROOT, Room
from tests.mutation.swap import changed_codes, functions_of, swap

SOURCE = '''"""A module."""

LIMIT: int | None = 3


class Point(NamedTuple, frozen=True):
    x: int | str


def find(xs: list[int], most: int | None) -> int | None:
    LOG.debug("%s", 1)
    note(xs)
    if len(xs) < LIMIT:
        return None
    return xs[0] - 2
'''


def test_comparisons_numbers_calls_and_operators_are_broken_and_types_are_not(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text(SOURCE)
    mutants = list(mutants_of(tmp_path / "module.py", tmp_path))
    assert [(mutant.kind, mutant.line) for mutant in mutants if mutant.kind != "NumberReplacer"] == [
        ("ReplaceComparisonOperator_Lt_LtE", 13),
        ("ReplaceComparisonOperator_Lt_GtE", 13),
        ("ReplaceBinaryOperator_Sub_Add", 15),
        ("AddNot", 13),
        ("DropCall", 12),
    ]
    changed = {mutant.kind: code_of(mutant, tmp_path) for mutant in mutants}
    assert "\n    pass\n    if len(xs)" in changed["DropCall"]
    assert "if not len(xs) < LIMIT:" in changed["AddNot"]
    assert "xs[0] + 2" in changed["ReplaceBinaryOperator_Sub_Add"]
    assert all(compile(code, "module.py", "exec") for code in changed.values())


def test_bug_negated_assignment_was_no_python(tmp_path: Path) -> None:
    """The run of a room ended at the first `if name := value`."""
    source = "def find(xs):\n    if x := max(xs):\n        return x\n    return 1 if (y := len(xs)) else y\n"
    (tmp_path / "module.py").write_text(source)
    mutants = [mutant for mutant in mutants_of(tmp_path / "module.py", tmp_path) if mutant.kind == "AddNot"]
    first, second = (code_of(mutant, tmp_path) for mutant in mutants)
    assert "    if not (x := max(xs)):\n" in first
    assert "return 1 if not (y := len(xs)) else y" in second
    assert all(compile(code, "module.py", "exec") for code in (first, second))


def test_rooms_have_modules_and_tests() -> None:
    assert [name for name, room in ROOMS.items() if not room.files()] == []
    assert [test for room in ROOMS.values() for test in room.tests if not (ROOT / test).exists()] == []


def test_the_modules_own_tests_come_first() -> None:
    own = "tests/unit/scheduler/weights/test_ratios.py::test_one"
    others = {"tests/unit/scheduler/weights/test_multipliers.py::test_two", "tests/unit/test_ratios.py::test_three"}
    assert ROOMS["weights"].near_and_others("minova/scheduler/weights/ratios.py", {own, *others}) == ({own}, others)


def test_each_change_without_effect_can_still_be_made_and_has_a_reason() -> None:
    listed = equivalents.read()
    paths = {path for path, *_ in listed}
    keys = {mutant.key for path in sorted(paths) for mutant in mutants_of(ROOT / path, ROOT)}
    assert sorted(listed.keys() - keys) == []
    assert [key for key, reason in listed.items() if len(reason.split()) < 3] == []


def test_a_run_goes_on_where_it_ended_until_the_module_or_a_test_changes(tmp_path: Path) -> None:
    module, test = tmp_path / "module.py", tmp_path / "test_module.py"
    module.write_text("x = 1\n")
    test.write_text("")
    room, file = Room([str(module)], [str(test)]), tmp_path / "results"
    noticed, survivor, untried = (Mutant(str(module), kind, 1, "x = 1", 1, 0) for kind in ("A", "B", "C"))
    record = Record({}, {}, {"test": 1.0}, {})
    results = Results(file, room)
    results.note(noticed, forks.FAILED)
    results.note(survivor, forks.PASSED)
    results.keep_record(record)

    def kept() -> list[str | None]:
        return [Results(file, room).outcome_of(mutant) for mutant in (noticed, survivor, untried)]

    assert kept() == [forks.FAILED, forks.PASSED, None]
    assert Results(file, room).record() == record
    test.write_text("# A test that may notice the survivor.\n")
    assert kept() == [forks.FAILED, None, None]
    assert Results(file, room).record() is None
    module.write_text("x = 1  # of two\n")
    assert kept() == [None, None, None]
    assert Results(None, room).outcome_of(noticed) is None


STATEMENTS = """@cache
def one(
    a=1,
):
    if a and (
        a > 2
    ):
        call(
            a
        )
    try:
        call()
    except (
        OSError
    ):
        pass
"""


@pytest.mark.parametrize(
    ("line", "lines"),
    [
        (3, {2, 3, 4}),
        (6, {5, 6, 7}),
        (9, {8, 9, 10}),
        (12, {12}),
        (14, {13, 14, 15}),
        (16, {16}),
    ],
)
def test_a_line_runs_with_its_statement_and_not_with_the_body_of_it(line: int, lines: set[int]) -> None:
    assert lines_of_statement(STATEMENTS, line) == lines


def test_functions_that_exist_get_the_broken_code(tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    sound = "def ages(people, least):\n    return [x for x in map(lambda one: one + 1, people) if x > least]\n\ndef same():\n    return 1\n"
    module: dict[str, Any] = {}
    exec(compile(sound, str(file), "exec"), module)
    codes = changed_codes(sound, sound.replace("one + 1", "one - 1").replace("x > least", "x < least"), str(file))
    functions = functions_of(str(file))
    assert {function.__name__ for function in functions} == {"ages", "same"}
    assert module["ages"]([1, 5], 3) == [6]
    assert swap(functions, codes) == 1
    assert module["ages"]([1, 5], 3) == [0]
    assert module["same"]() == 1


def test_a_loop_that_is_left_out_takes_its_inner_code_with_it(tmp_path: Path) -> None:
    file = str(tmp_path / "module.py")
    sound = "def keys(xs):\n    for key in sorted(xs, key=lambda x: -x):\n        yield key\n"
    module: dict[str, Any] = {}
    exec(compile(sound, file, "exec"), module)
    codes = changed_codes(sound, "def keys(xs):\n    for key in []:\n        yield key\n", file)
    assert swap(functions_of(file), codes) == 1
    assert list(module["keys"]([1])) == []


def test_a_mutant_needs_the_tests_that_execute_its_line() -> None:
    def twice(x: int) -> int:
        return x * 2

    recorded = recorder([Path(__file__)])
    recorded.start()
    recorded.switch_context("test of twice")
    twice(1)
    recorded.switch_context("test of nothing")
    recorded.stop()
    (lines,) = executed(recorded, ROOT).values()
    assert lines[twice.__code__.co_firstlineno + 1] == ["test of twice"]


def test_the_quickest_tests_run_up_to_the_time_for_one_mutant() -> None:
    seconds = {"slow": 30.0, "quick": 0.5, "middle": 3.0}
    record = Record({"m.py": {1}}, {"m.py": {7: ["slow", "quick"], 8: ["slow"]}}, seconds, seconds)
    mutant = Mutant("m.py", "AddNot", 7, "", 1, 0)
    assert record.tests_of(mutant, {6, 7}) == {"slow", "quick"}
    assert record.tests_of(mutant, {9}) == set()
    assert not record.runs_at_import(mutant, {7, 8})
    assert record.runs_at_import(mutant, {1, 2})
    assert record.quickest(seconds, 4) == ["quick", "middle"]
    assert record.quickest(["slow"], 4) == ["slow"]
    assert record.quickest([], 4) == []


def _hang() -> int:
    signal.pause()
    return 0


# The workers of pytest-xdist have threads; the fork uses none of their locks.
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_work_in_a_fork_that_fails_or_hangs_is_noticed() -> None:
    assert forks.end(forks.begin(lambda: 0), 30) == forks.PASSED
    assert forks.end(forks.begin(lambda: 1), 30) == forks.FAILED
    assert forks.end(forks.begin(lambda: 1 // 0), 30) == forks.FAILED
    assert forks.end(forks.begin(_hang), 0.05) == forks.TIMED_OUT
    # Before it has run at all.
    assert forks.end(forks.begin(_hang), 0) == forks.TIMED_OUT
