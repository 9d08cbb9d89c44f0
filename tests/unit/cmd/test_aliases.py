"""[pci] alias is looked at when a service starts."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from minova import conf as configuration
from minova.cmd import api, conductor
from minova.hardware.errors import PciInvalidAlias
from minova.messaging.rpc import Rpc


@pytest.mark.parametrize("compose", [api.compose, conductor.compose])
def test_a_malformed_alias_stops_the_service_with_its_key_and_value(compose: Callable[..., Any]) -> None:
    conf = configuration.load([], "test", files=[])
    conf.set_override("alias", ['{"name": "qat", "vendor_id": "086"}'], group="pci")
    with pytest.raises(PciInvalidAlias, match=r"\[pci\] alias .*vendor_id=086"):
        compose(conf, Rpc(conf), threading.Event())
