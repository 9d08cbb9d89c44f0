"""Figures of OpenStack's own services, which benchmarks print beside minova's.

They were measured on a similar machine (two cores, Debian 12, Python 3.11), in one process and without a broker: compare orders of
magnitude.
"""

# Boots a second of Nova's services with its fake driver.
NOVA_BOOTS = {"one by one": 2.6, "one request": 5.7}
# Hosts: ms that the classic chain of filters takes, in Nova 34.
NOVA_CLASSIC_CHAIN = {100: 45.0, 1_000: 433.0, 10_000: 4_804.0}
# Hosts: ms of a select_destinations, of which Nova examines 1,000 hosts.
NOVA_SELECT_DESTINATIONS = {10_000: 2_300.0}
# Providers: ms in process, on SQLite.
PLACEMENT_CANDIDATES = {100: 26.0, 1_000: 115.0, 10_000: 3_010.0}
PLACEMENT_PUT_ALLOCATIONS = {100: 16.0, 1_000: 16.0, 10_000: 37.0}


def beside(peer: str, figure: float | None, unit: str) -> str:
    """Returns the text for the end of a line; empty without a figure."""
    return "" if figure is None else f"   {peer}: {figure:,g} {unit}"
