"""What tests.mutation breaks, and its list of changes without effect."""

from pathlib import Path

from tests.mutation import equivalents
from tests.mutation.mutants import code_of, mutants_of
from tests.mutation.rooms import ROOMS, ROOT

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
    found = list(mutants_of(tmp_path / "module.py", tmp_path))
    assert [(one.kind, one.line) for one in found if one.kind != "NumberReplacer"] == [
        ("ReplaceComparisonOperator_Lt_LtE", 13),
        ("ReplaceComparisonOperator_Lt_GtE", 13),
        ("ReplaceBinaryOperator_Sub_Add", 15),
        ("AddNot", 13),
        ("DropCall", 12),
    ]
    changed = {one.kind: code_of(one, tmp_path) for one in found}
    assert "\n    pass\n    if len(xs)" in changed["DropCall"]
    assert "if not len(xs) < LIMIT:" in changed["AddNot"]
    assert "xs[0] + 2" in changed["ReplaceBinaryOperator_Sub_Add"]
    assert all(compile(code, "module.py", "exec") for code in changed.values())


def test_rooms_have_modules_and_tests() -> None:
    assert [name for name, room in ROOMS.items() if not room.files()] == []
    assert [test for room in ROOMS.values() for test in room.tests if not (ROOT / test).exists()] == []


def test_each_change_without_effect_can_still_be_made_and_has_a_reason() -> None:
    listed = equivalents.read()
    paths = {path for path, *_ in listed}
    found = {mutant.key for path in sorted(paths) for mutant in mutants_of(ROOT / path, ROOT)}
    assert sorted(listed.keys() - found) == []
    assert [key for key, reason in listed.items() if len(reason.split()) < 3] == []
