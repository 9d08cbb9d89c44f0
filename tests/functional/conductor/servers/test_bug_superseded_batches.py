"""Nothing that a superseded process of a host sends counts, several claims or reports in one message neither."""

import inspect
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest

from minova import errors
from minova.contracts.conductor import ConductorApi
from tests.fakes.identified import Machine
from tests.functional.conductor.conductor_harness import CTX, ConductorHarness

SUPERSEDED = msgspec.structs.replace(CTX, process="f0f0f0f0-0000-0000-0000-000000000000")
# Other values of the same names, or messages that say by themselves which process they mean.
NOT_OF_COMPUTES = {
    "add_host_to_aggregate",
    "remove_host_from_aggregate",
    "service_stopped",
    "heartbeat",
    # The API names the host of an instance.
    "network_changed",
    # Of the host's metadata service, which is no process of the compute.
    "metadata_of_address",
    "leave_password_of_address",
}


def methods_of_hosts() -> list[str]:
    """Methods of the contract in which a compute says which host it is."""
    methods = inspect.getmembers(ConductorApi, inspect.isfunction)
    return [
        name
        for name, method in methods
        if {"host", "node"} & inspect.signature(method).parameters.keys() and name not in NOT_OF_COMPUTES
    ]


def least(annotation: Any) -> Any:
    """Returns the least value of this type, as it stands in a message."""
    kind = get_origin(annotation)
    if kind is Annotated:
        return least(get_args(annotation)[0])
    if kind in {Union, UnionType}:
        return None if NoneType in get_args(annotation) else least(get_args(annotation)[0])
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        required = [field for field in msgspec.structs.fields(annotation) if field.required]
        return {field.encode_name: least(field.type) for field in required}
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return next(iter(annotation)).value
    values: dict[Any, Any] = {str: "", int: 0, float: 0.0, bool: False, Any: None}
    return values.get(annotation, {} if kind in {dict, Mapping} else [])


@pytest.mark.parametrize("name", methods_of_hosts())
def test_message_of_a_superseded_process_is_refused(harness: ConductorHarness, tmp_path: Path, name: str) -> None:
    Machine(tmp_path, harness.conductor).boot("hv")
    parameters = inspect.signature(getattr(ConductorApi, name)).parameters
    hints = get_type_hints(getattr(ConductorApi, name))
    values: dict[str, Any] = {key: least(hints[key]) for key in parameters if key not in {"self", "ctx"}}
    values |= {key: value for key, value in {"host": "hv", "node": harness.node("hv")}.items() if key in parameters}
    with pytest.raises(errors.Superseded):
        getattr(harness.conductor, name)(SUPERSEDED, **values)
