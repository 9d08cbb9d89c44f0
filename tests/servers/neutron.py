"""A private Neutron, from its package in .venv/openstack, which tools/setup makes; ML2, SQLite, no Keystone.

`openvswitch` binds ports to hosts on which an agent is alive. No Open vSwitch is needed for that: `agent` lets Neutron's own RPC
report one, and `wired` says as an agent does that an interface is there. So it is a stand-in for agents that keeps books, in front of
a real neutron-server.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import urllib3

from tests.servers.keystone import PASSWORD, Keystone, openstack_python
from tests.servers.openstack_server import OpenStackServer
from tests.waiting import wait_for

AGENTS = "/agents-of-tests"
# Of one call, if Neutron's SQLite file is locked.
MOST_CALLS = 5
PROCESS = Path(__file__).with_name("neutron_process.py")
CONF = """
[DEFAULT]
core_plugin = ml2
service_plugins =
auth_strategy = {strategy}
transport_url = {transport}
api_paste_config = {folder}/paste.ini
state_path = {folder}
log_file = {folder}/neutron.log
notify_nova_on_port_status_changes = {notifies}
notify_nova_on_port_data_changes = {notifies}
send_events_interval = 1
# `agent` says once that one is alive, and the machine may be very busy.
agent_down_time = 3600
[database]
connection = sqlite:///{folder}/neutron.sqlite
[oslo_concurrency]
lock_path = {folder}/locks
[oslo_messaging_notifications]
driver = noop
[oslo_policy]
policy_file = {folder}/policy.yaml
[ml2]
type_drivers = local,flat,vlan
tenant_network_types = local
mechanism_drivers = openvswitch
extension_drivers = port_security
[ml2_type_flat]
flat_networks = *
[nova]
auth_type = http_basic
username = admin
password = admin
endpoint = {nova}
"""
KEYSTONE = """
[keystone_authtoken]
auth_type = password
auth_url = {url}
www_authenticate_uri = {url}
username = admin
password = {password}
user_domain_name = Default
project_name = admin
project_domain_name = Default
http_connect_timeout = 60
"""
# Without Keystone everybody is an administrator, and has no further role; minova's user has that of services, too.
POLICY = '"service_api": "role:service or role:admin"\n'


class Neutron(OpenStackServer):
    """`nova`: URL of the Compute API, which is told of events; empty: none is. `transport_url`: for agents that are real; kombu+memory would keep a processor busy. `keystone`: whose
    users it serves, by its own policy; None: everybody is an administrator.
    """

    name = "neutron"
    ports_needed = 1

    def __init__(self, nova: str = "", transport_url: str = "fake://", keystone: Keystone | None = None) -> None:
        super().__init__()
        self._keystone = keystone
        self._token: str | None = None
        self._nova = nova
        self._transport_url = transport_url

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.ports[0]}"

    def prepare(self) -> None:
        conf = CONF.format(
            folder=self.directory,
            nova=self._nova or "http://127.0.0.1:9",
            notifies=bool(self._nova),
            transport=self._transport_url,
            strategy="noauth" if self._keystone is None else "keystone",
        )
        if self._keystone is not None:
            conf += KEYSTONE.format(url=self._keystone.url, password=PASSWORD)
        (self.directory / "neutron.conf").write_text(conf)
        (self.directory / "policy.yaml").write_text(POLICY if self._keystone is None else "{}")

    def command(self) -> list[str]:
        return [
            str(openstack_python()),
            "-P",
            str(PROCESS),
            str(self.directory / "neutron.conf"),
            str(self.ports[0]),
        ]

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """Of the administrator. It is repeated while Neutron answers 500: SQLite refuses a transaction at once that has read, and wants to
        write after another one has written. Neutron has rolled it back then.
        """
        if self._keystone is not None and self._token is None:
            self._token = self._keystone.token()
        headers = {} if self._token is None else {"X-Auth-Token": self._token}
        for _ in range(MOST_CALLS):
            answer = urllib3.request(method, f"{self.url}{path}", json=body, headers=headers, retries=False, timeout=60)
            if answer.status != 500:
                break
        assert answer.status < 300, answer.data
        return answer.json() if answer.data else None

    def agent(self, host: str) -> None:
        """An agent is alive on this host, for as long as a test takes."""
        self._agent_says({"host": host})

    def wired(self, host: str, port_id: str) -> None:
        """The agent of the host has found the interface of this port, and wired it."""
        self._agent_says({"host": host, "port_id": port_id})

    def _agent_says(self, words: dict[str, str]) -> None:
        """As a real agent it says again what the server had no time for: its SQLite file may be locked."""

        def said() -> bool:
            return urllib3.request("POST", f"{self.url}{AGENTS}", json=words, retries=False, timeout=60).status < 300

        wait_for(f"Neutron has heard {words}", said)

    def network(self, name: str, cidr: str, project: str = "demo", **values: Any) -> dict[str, Any]:
        """With one subnet."""
        network_body = {"name": name, "tenant_id": project, **values}
        network: dict[str, Any] = self.call("POST", "/v2.0/networks", {"network": network_body})["network"]
        subnet = {"network_id": network["id"], "cidr": cidr, "ip_version": 4, "tenant_id": project}
        self.call("POST", "/v2.0/subnets", {"subnet": subnet})
        return network

    def port(self, network_id: str, project: str = "demo", **values: Any) -> dict[str, Any]:
        port_body = {"network_id": network_id, "tenant_id": project, **values}
        port: dict[str, Any] = self.call("POST", "/v2.0/ports", {"port": port_body})["port"]
        return port

    def port_now(self, port_id: str) -> dict[str, Any]:
        port: dict[str, Any] = self.call("GET", f"/v2.0/ports/{port_id}")["port"]
        return port

    def ports_of(self, device_id: str) -> list[dict[str, Any]]:
        ports: list[dict[str, Any]] = self.call("GET", f"/v2.0/ports?device_id={device_id}")["ports"]
        return ports
