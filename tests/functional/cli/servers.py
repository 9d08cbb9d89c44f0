"""Servers for tests of the CLI, in the states that computes would report."""

from typing import Any

from tests.functional.api.conftest import Cloud

CREATE = ("server", "create", "web", "--flavor", "tiny", "--image", "guest")


def add_server(cloud: Cloud, name: str, **columns: Any) -> str:
    """Returns its ID. It is active on host1, unless the columns of its row say something else."""
    server_id = str(cloud.make_server(name)["id"])
    row = {"host": "host1", "node": "node1", "vm_state": "active", "task_state": None, "power_state": 1}
    cloud.conductor.edit(server_id, **{**row, **columns})
    return server_id


def server_names(cloud: Cloud) -> list[str]:
    """Newest first."""
    return [server["name"] for server in cloud.get("/v2.1/servers?all_tenants=1")["servers"]]
