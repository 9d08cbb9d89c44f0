"""An API of this release beside a conductor of an older one, as during an upgrade: a request with a field that the conductor does not
know was answered with success, and the field was lost.
"""

from typing import Any

import falcon.testing
import msgspec
import pytest

from minova.api.app import make_app
from minova.context import RequestContext
from minova.contracts.conductor import ConductorApi
from minova.messaging import rpc
from minova.messaging.rpc_levels import RELEASED
from tests.functional.api.conftest import Cloud
from tests.functional.api.network.test_networks import network, port

LAST_RELEASE = RELEASED[-1]["conductor"]
V = {"headers": {"OpenStack-API-Version": "compute 2.94"}}


class Wire:
    """Takes the place of oslo.messaging's client."""

    def __init__(self, conductor: Any) -> None:
        self._conductor = conductor

    def prepare(self, **_: str) -> "Wire":
        return self

    def call(self, ctx: RequestContext, method: str, **arguments: Any) -> Any:
        return msgspec.to_builtins(getattr(self._conductor, method)(ctx, **arguments))


def beside(cloud: Cloud, level: str) -> Cloud:
    """The cloud whose oldest conductor serves this version."""
    conductor: Any = rpc.Proxy(Wire(cloud.conductor), ConductorApi, level=lambda: level)
    app = make_app(cloud.conf, cloud.readonly, conductor, cloud.consoles)
    cloud.client = falcon.testing.TestClient(app, headers={"Host": "localhost"})
    return cloud


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"tags": ["web"]}, "request.tags"),
        ({"accessIPv4": "10.0.0.1"}, "request.access_ip_v4"),
        ({"OS-DCF:diskConfig": "AUTO"}, "request.disk_config"),
        ({"config_drive": True}, "request.config_drive"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bug_a_server_without_what_an_older_conductor_does_not_know(
    stocked: Cloud, given: dict[str, Any], field: str
) -> None:
    cloud = beside(stocked, LAST_RELEASE)
    status, answer = cloud.ask("POST", "/v2.1/servers", {"server": cloud.server | {"networks": "none"}}, **V)
    assert status == 202, answer
    status, answer = cloud.ask("POST", "/v2.1/servers", {"server": cloud.server | {"networks": "none"} | given}, **V)
    assert status == 503
    assert f"create_servers({field}) needs conductor 1.7" in next(iter(answer.values()))["message"]


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"binding:profile": {"rack": "7"}}, "port.binding_profile"),
        ({"extra_dhcp_opts": [{"opt_name": "mtu", "opt_value": "1400"}]}, "port.extra_dhcp_opts"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bug_a_port_without_what_an_older_conductor_does_not_know(
    cloud: Cloud, given: dict[str, Any], field: str
) -> None:
    blue = network(cloud)
    beside(cloud, "1.8")
    new_port = port(cloud, blue)
    for method, path, body in (
        ("POST", "/network/v2.0/ports", {"network_id": blue["id"]}),
        ("PUT", f"/network/v2.0/ports/{new_port['id']}", {}),
    ):
        status, answer = cloud.ask(method, path, {"port": body | given})
        assert status == 503, answer
        assert f"({field}) needs conductor 1.9" in answer["NeutronError"]["message"]
