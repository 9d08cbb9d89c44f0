"""Every object that crosses a process boundary comes out of the wire as it went in."""

import importlib
import json
import pkgutil
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from minova import context, objects
from minova.objects.actions.action import Arguments, ServerAction
from minova.objects.actions.rebuild import InjectedFile
from minova.objects.hosts import cloud
from tests.fakes.typed_values import of

CROSS_NOTHING = (ServerAction, Arguments, InjectedFile, cloud.DatabaseState)


def structs() -> list[Any]:
    """All of minova.objects, and the context. The table of server actions and the bodies of requests for them cross nothing, and
    neither does what a process compares with the key of the cloud.
    """
    struct_types: set[Any] = {context.RequestContext}
    for module in pkgutil.walk_packages(objects.__path__, f"{objects.__name__}."):
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, type) and issubclass(value, msgspec.Struct) and not issubclass(value, CROSS_NOTHING):
                struct_types.add(value)
    struct_types.discard(msgspec.Struct)
    return sorted(struct_types, key=lambda struct: struct.__name__)


@pytest.mark.parametrize("struct", structs(), ids=lambda struct: struct.__name__)
@settings(max_examples=4, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(data=st.data())
def test_out_of_the_wire_as_it_went_in(struct: Any, data: st.DataObject) -> None:
    sent = data.draw(of(struct))
    wire = json.dumps(msgspec.to_builtins(sent))
    assert msgspec.convert(json.loads(wire), struct) == sent


@pytest.mark.parametrize("struct", structs(), ids=lambda struct: struct.__name__)
def test_objects_are_frozen_and_take_fields_of_newer_senders(struct: Any) -> None:
    config = struct.__struct_config__
    assert config.frozen
    assert not config.forbid_unknown_fields
