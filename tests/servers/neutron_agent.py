"""A real neutron-openvswitch-agent, from its package in .venv/openstack, beside a private Open vSwitch."""

from __future__ import annotations

from urllib.parse import urlsplit

from tests.servers.keystone import openstack_python
from tests.servers.namespace import Door, Namespace
from tests.servers.openstack_server import without_tests_variables
from tests.servers.openvswitch import OpenVSwitch
from tests.servers.private_server import PrivateServer

CONF = """
[DEFAULT]
transport_url = {transport_url}
host = {host}
state_path = {folder}
[oslo_concurrency]
lock_path = {folder}/locks
[ovs]
datapath_type = netdev
[agent]
polling_interval = 1
# The tests are root.
root_helper = env
[securitygroup]
firewall_driver = noop
"""
HELPER = """\
#!/bin/sh
exec {python} -P -c 'from oslo_privsep.daemon import helper_main; helper_main()' "$@"
"""


class NeutronAgent(PrivateServer):
    """`transport_url`: of the Neutron, on the loopback of the tests."""

    name = "neutron-agent"

    def __init__(self, namespace: Namespace, switch: OpenVSwitch, host: str, transport_url: str) -> None:
        super().__init__()
        self._namespace = namespace
        self._switch = switch
        self._host = host
        self._transport_url = transport_url
        port = urlsplit(transport_url).port
        assert port is not None
        self._door = Door(namespace, port)

    def prepare(self) -> None:
        conf = CONF.format(
            transport_url=self._transport_url,
            host=self._host,
            folder=self.directory,
        )
        (self.directory / "agent.conf").write_text(conf)
        # The one of the package names the folder in which it was installed.
        helper = self.directory / "privsep-helper"
        helper.write_text(HELPER.format(python=openstack_python()))
        helper.chmod(0o755)

    def command(self) -> list[str]:
        agent = openstack_python().parent / "neutron-openvswitch-agent"
        return self._namespace.enter(
            str(openstack_python()), "-P", str(agent), f"--config-file={self.directory}/agent.conf"
        )

    def environment(self) -> dict[str, str]:
        own = without_tests_variables(super().environment())
        return (
            own
            | self._switch.folders
            | {"PATH": f"{self.directory}:{own['PATH']}:/usr/sbin", "PYTHONWARNINGS": "ignore"}
        )

    def answers(self) -> bool:
        """It has made its bridge, and looks for interfaces."""
        return "rpc_loop - iteration" in self.log

    def open(self, *, detached: bool = False) -> None:
        self._door.__enter__()
        super().open(detached=detached)

    def close(self) -> None:
        super().close()
        self._door.__exit__()
