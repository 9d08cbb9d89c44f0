"""The inventories of a resource class as columns."""

from typing import Any, NamedTuple

from numpy.typing import NDArray

INVENTORY_COLUMNS = ("capacity", "used", "min_unit", "max_unit", "step_size")


class InventoryColumns(NamedTuple):
    """The inventories of one resource class over all hosts; all numbers are 0 for a host without one."""

    capacity: Any
    used: Any
    min_unit: Any
    max_unit: Any
    step_size: Any


def column_name(resource_class: str, name: str) -> str:
    return f"{resource_class}.{name}"


def single_value(column: NDArray[Any]) -> Any:
    return int(column[0]) if len(column) and (column == column[0]).all() else column
