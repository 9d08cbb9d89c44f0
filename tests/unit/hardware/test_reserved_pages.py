import pytest

from minova.errors import InvalidConfiguration
from minova.hardware.reserved_pages import parse, with_reserved
from minova.objects.hosts.numa import NUMACell, NUMAPages, NUMATopology

HOST = NUMATopology(
    tuple(
        NUMACell(id=number, memory=4096, mempages=(NUMAPages(size_kb=4, total=1000), NUMAPages(size_kb=2048, total=64)))
        for number in (0, 1)
    )
)


def test_pages_are_kept_from_guests_cell_by_cell() -> None:
    reserved = with_reserved(HOST, parse([{"node": "1", "size": "2MB", "count": "10"}]))
    assert [[pages.reserved for pages in cell.mempages] for cell in reserved.cells] == [[0, 0], [0, 10]]
    assert reserved.cells[1].mempages[1].free == 54


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ({"node": "0", "size": "2048"}, "it must have node, size and count"),
        ({"node": "0", "size": "lots", "count": "1"}, "size a number of KiB"),
        ({"node": "x", "size": "2048", "count": "1"}, "node and count are numbers"),
        ({"node": "0", "size": "1GB", "count": "1"}, "no pages of 1048576 KiB on cell 0"),
        ({"node": "7", "size": "2048", "count": "1"}, "no pages of 2048 KiB on cell 7"),
        ({"node": "0", "size": "2048", "count": "65"}, "cell 0 has 64 pages of 2048 KiB, fewer than 65"),
    ],
)
def test_what_cannot_be_reserved_is_told_by_its_option(entry: dict[str, str], why: str) -> None:
    with pytest.raises(InvalidConfiguration, match=rf"^\[DEFAULT\] reserved_huge_pages.*{why}"):
        with_reserved(HOST, parse([entry]))
