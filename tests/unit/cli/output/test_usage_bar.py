"""How much is used: bars on terminals, plain numbers elsewhere."""

import io

import pytest

from minova.cli.output.hypervisors import cpus
from minova.cli.output.usage_bar import WIDTH, Bar, bar


@pytest.mark.parametrize(
    ("part", "drawn"),
    [
        (0.0, ""),
        (0.5, "█" * 10),
        (0.51, "█" * 10 + "▎"),
        (1.0, "█" * 20),
        (1.5, "█" * 20),
        (-0.1, ""),
    ],
)
def test_a_bar_is_full_as_far_as_its_part(part: float, drawn: str) -> None:
    assert bar(part) == f"▕{drawn:<{WIDTH}}▏"


def test_a_terminal_without_blocks_gets_signs_that_it_has() -> None:
    assert bar(0.25, blocks=False) == "[#####...............]"


class Terminal(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("used", "limit", "encoding", "shown"),
    [
        (3, 12, "utf-8", "3 of 12  ▕█████               ▏ 25%"),
        (3, 12, "ascii", "3 of 12  [#####...............] 25%"),
        (24, 12, "utf-8", "24 of 12  ▕████████████████████▏ 200%"),
        (1500000, 2000000.0, "ascii", "1500000 of 2000000  [###############.....] 75%"),
        (0, 0, "utf-8", "0"),
        (None, 8, "utf-8", "None"),
    ],
)
def test_on_a_terminal(used: int | None, limit: float, encoding: str, shown: str) -> None:
    assert Bar(used, limit, Terminal(io.BytesIO(), encoding=encoding)).human_readable() == shown


def test_elsewhere_and_for_programs_it_is_the_number() -> None:
    assert Bar(3, 12, io.StringIO()).human_readable() == "3"
    assert Bar(3, 12, Terminal(io.BytesIO(), encoding="utf-8")).machine_readable() == 3


@pytest.mark.parametrize(
    ("numbers", "text"), [([], "none"), ([3], "3"), ([0, 1, 2, 5, 7, 8], "0-2,5,7-8"), ([8, 7], "7-8")]
)
def test_cpus_are_written_as_ranges(numbers: list[int], text: str) -> None:
    assert cpus(numbers) == text
