"""Each manager has the methods of its contract. mypy cannot say so, because an RPC server takes any manager."""

import inspect
from typing import Any

import pytest

from minova.compute.manager import ComputeManager
from minova.conductor.manager import ConductorManager
from minova.contracts.base import methods_of
from minova.contracts.compute import ComputeApi
from minova.contracts.conductor import ConductorApi
from minova.contracts.scheduler import SchedulerApi
from minova.scheduler.manager import SchedulerManager

MANAGERS = [(ConductorApi, ConductorManager), (SchedulerApi, SchedulerManager), (ComputeApi, ComputeManager)]


@pytest.mark.parametrize(("contract", "manager"), MANAGERS)
def test_manager_has_the_methods_of_its_contract(contract: Any, manager: Any) -> None:
    wanted = {name: _parameters(getattr(contract, name)) for name in methods_of(contract)}
    assert wanted
    assert {name: _parameters(getattr(manager, name, None)) for name in wanted} == wanted


def _parameters(method: Any) -> list[tuple[str, Any]] | None:
    """Names and defaults."""
    if method is None:
        return None
    return [(each.name, each.default) for each in inspect.signature(method).parameters.values()]
