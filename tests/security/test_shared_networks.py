"""What the project of a shared network may do to other projects' ports on it."""

from pathlib import Path
from typing import Any

from tests.functional.api.conftest import Cloud
from tests.security.identities import login, with_users

ROOT = "/network/v2.0"


def ask(cloud: Cloud, user: str, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    return cloud.ask(method, f"{ROOT}/{path}", body, headers=login(user))


def test_owner_of_a_network_deletes_the_ports_of_others_and_does_not_change_them(tmp_path: Path) -> None:
    cloud = with_users(tmp_path)
    try:
        network = ask(cloud, "alice", "POST", "networks", {"network": {}})[1]["network"]["id"]
        assert ask(cloud, "admin", "PUT", f"networks/{network}", {"network": {"shared": True}})[0] == 200
        port = ask(cloud, "bob", "POST", "ports", {"port": {"network_id": network}})[1]["port"]
        path = f"ports/{port['id']}"
        every: tuple[dict[str, Any], ...] = (
            {"port_security_enabled": False, "security_groups": []},
            {"allowed_address_pairs": [{"ip_address": "0.0.0.0/0"}]},
            {"security_groups": []},
            {"admin_state_up": False},
            {"device_id": "other"},
            {"name": "other"},
        )
        for changes in every:
            assert ask(cloud, "alice", "PUT", path, {"port": changes})[0] == 403, changes
        assert ask(cloud, "alice", "GET", path)[1]["port"] == port
        assert ask(cloud, "bob", "PUT", path, {"port": {"name": "own"}})[0] == 200
        assert ask(cloud, "admin", "PUT", path, {"port": {"name": "any"}})[0] == 200
        assert ask(cloud, "alice", "DELETE", path)[0] == 204
    finally:
        cloud.close()


def test_parts_of_a_network_are_made_by_its_project_alone(tmp_path: Path) -> None:
    """As in Neutron: a port that names itself a router's or a DHCP server's is trusted for one."""
    cloud = with_users(tmp_path)
    try:
        network = ask(cloud, "alice", "POST", "networks", {"network": {}})[1]["network"]["id"]
        assert ask(cloud, "admin", "PUT", f"networks/{network}", {"network": {"shared": True}})[0] == 200
        for user, owner, status in (
            ("alice", "network:dhcp", 201),
            ("bob", "network:router_interface", 403),
            ("bob", "baremetal:none", 201),
        ):
            port_body = {"network_id": network, "device_owner": owner}
            assert ask(cloud, user, "POST", "ports", {"port": port_body})[0] == status
        path = f"ports/{ask(cloud, 'bob', 'POST', 'ports', {'port': {'network_id': network}})[1]['port']['id']}"
        assert ask(cloud, "bob", "PUT", path, {"port": {"device_owner": "network:dhcp"}})[0] == 403
        assert ask(cloud, "bob", "PUT", path, {"port": {"device_owner": "other"}})[0] == 200
    finally:
        cloud.close()
