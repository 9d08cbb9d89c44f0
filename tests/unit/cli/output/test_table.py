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
    fitted_table = fit(["ID", "Name", "Reason"], [[ID, "web", "the disk is full"]], width)
    assert fitted_table == (names, [row], left_out)


def test_numbers_stay_numbers_and_an_empty_list_is_one() -> None:
    assert fit(["ID", "RAM"], [[1, 512]], 80) == (["ID", "RAM"], [[1, 512]], [])
    assert fit(["ID", "RAM"], [], 80) == (["ID", "RAM"], [], [])


def test_bug_reason_of_a_disabled_service_gave_way_to_the_time_of_its_report() -> None:
    names = ["ID", "Binary", "Host", "Zone", "Status", "State", "Updated At", "Disabled Reason", "Forced Down"]
    row = [1, "minova-compute", "hv1", "nova", "disabled", "up", "2026-11-27T11:26:04.000000", "is removed", "False"]
    assert fit(names, [row], 80)[2] == ["Updated At", "Forced Down"]


def test_columns_without_a_value_are_left_out_first() -> None:
    names = ["ID", "Name", "Task State", "Networks"]
    rows = [[ID, "web", None, "a=10.0.0.2"], [ID, "db", None, "a=10.0.0.3"]]
    assert fit(names, rows, 70)[2] == ["Task State"]
    rows[1][2] = "deleting"
    assert fit(names, rows, 70)[2] == ["Networks"]
    assert fit(names, rows, 80)[2] == []
