"""How a list fits a narrow terminal."""

from typing import Any

import pytest

from minova.cli.output.table import fit

ID = "6b53879a-c509-47f4-b83b-215754a8c297"


@pytest.mark.parametrize(
    ("width", "names", "row", "left_out"),
    [
        (80, ["ID", "Name", "Reason"], [ID, "web", "the disk is full"], []),
        (60, ["ID", "Name", "Reason"], [ID, "web", "the disk\nis full"], []),
        (52, ["ID", "Name"], [ID, "web"], ["Reason"]),
        (20, ["ID"], [ID], ["Name", "Reason"]),
    ],
)
def test_words_and_ids_stay_whole(width: int, names: list[str], row: list[Any], left_out: list[str]) -> None:
    found = fit(["ID", "Name", "Reason"], [[ID, "web", "the disk is full"]], width)
    assert found == (names, [row], left_out)


def test_numbers_stay_numbers_and_an_empty_list_is_one() -> None:
    assert fit(["ID", "RAM"], [[1, 512]], 80) == (["ID", "RAM"], [[1, 512]], [])
    assert fit(["ID", "RAM"], [], 80) == (["ID", "RAM"], [], [])
