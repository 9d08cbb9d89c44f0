"""Servers for tests of the CLI, and the reports of computes that move them from state to state."""

import re
from collections.abc import Sequence
from typing import Any

import msgspec
from sqlalchemy.orm import Session

from minova.db import models
from minova.db.catalogue import images
from minova.db.servers import actions as action_rows
from minova.objects.actions.table import BY_KIND
from minova.objects.catalogue.image import Image
from minova.objects.servers.failures import Failure
from tests.fakes.faulty_api import FaultyApi
from tests.fakes.row_conductor import now
from tests.functional.api.conftest import Cloud, Json

CREATE = ("server", "create", "web", "--flavor", "tiny", "--image", "guest")

# Columns of a row, as a report changes them.
Report = Json

ACTIVE: Report = {"vm_state": "active", "task_state": None, "host": "host1", "node": "node1", "power_state": 1}
STOPPED: Report = {**ACTIVE, "vm_state": "stopped", "power_state": 4}
BUILDS: tuple[Report, ...] = (
    {"task_state": "scheduling"},
    {"task_state": "networking", "host": "host1"},
    {"task_state": "spawning"},
    ACTIVE,
)
NO_HOST = "No valid host was found. 2 hosts: RamFilter removed 2."
# With `fault`, the row of one is added.
FAILS: tuple[Report, ...] = ({"task_state": "scheduling"}, {"vm_state": "error", "task_state": None, "fault": NO_HOST})
NEVER_ENDS: tuple[Report, ...] = ({"task_state": "scheduling"},)
GONE: Report = {"vm_state": "deleted", "task_state": None, "deleted_at": now()}
SERVER = re.compile(r"/v2\.1/servers/([^/?]+)")


def add_server(cloud: Cloud, name: str, columns: Report = ACTIVE, **request: Any) -> str:
    """Returns its ID. It is active on host1, unless the columns of its row say something else."""
    server_id = str(cloud.make_server(name, **request)["id"])
    report(cloud, server_id, {**ACTIVE, **columns})
    return server_id


def add_network(cloud: Cloud, name: str, *cidrs: str) -> str:
    """Returns its ID. It has a subnet for each CIDR."""
    status, answer = cloud.ask("POST", "/network/v2.0/networks", {"network": {"name": name}})
    assert status == 201, answer
    network_id = str(answer["network"]["id"])
    for cidr in cidrs:
        subnet = {"network_id": network_id, "ip_version": 6 if ":" in cidr else 4, "cidr": cidr}
        status, answer = cloud.ask("POST", "/network/v2.0/subnets", {"subnet": subnet})
        assert status == 201, answer
    return network_id


def report(cloud: Cloud, server_id: str, columns: Report) -> None:
    values = dict(columns)
    if fault := values.pop("fault", None):
        cloud.conductor.add(models.InstanceFault(instance_uuid=server_id, code=500, message=fault, created_at=now()))
    if values:
        cloud.conductor.edit(server_id, **values)


def fail_action(cloud: Cloud, server_id: str, name: str, kind: str, request_id: str) -> None:
    """The newest record of the server is an action that has failed."""

    def work(session: Session) -> None:
        row = {"instance_uuid": server_id, "action": name, "request_id": request_id, "start_time": now()}
        action_id = action_rows.begin(session, [{**row, "user_id": "admin", "project_id": "admin"}])[server_id]
        action_rows.end(session, [action_id], now(), error=Failure(kind=kind, details="of the host"))

    cloud.db.run(work)


def server_ids(cloud: Cloud) -> list[str]:
    """Newest first."""
    return [server["id"] for server in cloud.get("/v2.1/servers?all_tenants=1")["servers"]]


def server_names(cloud: Cloud) -> list[str]:
    """Newest first."""
    return [server["name"] for server in cloud.get("/v2.1/servers?all_tenants=1")["servers"]]


def statuses(cloud: Cloud) -> set[str]:
    return {server["status"] for server in cloud.get("/v2.1/servers/detail?all_tenants=1")["servers"]}


class Reports:
    """The reports of computes: one each time that the API is asked for a server. The last one stays.

    `of_builds`: those of servers that are made from now on. An action ends as its entry says, or with those in `of_actions` by its kind;
    it fails with the kind of failure in `failures`.
    """

    def __init__(self, cloud: Cloud, api: FaultyApi) -> None:
        self.of_builds: Sequence[Report] = (ACTIVE,)
        self.of_actions: dict[str, Report] = {
            "shelve": {"vm_state": "shelved_offloaded", "host": None, "node": None},
            "confirm_resize": {"vm_state": "active"},
        }
        self.failures: dict[str, str] = {}
        self._cloud = cloud
        self._left: dict[str, list[Report]] = {}
        # Tests make servers, too, but not over HTTP.
        self._is_of_client = False
        api.before = self._report
        cloud.conductor.after = self._expect

    def go_on(self, server_id: str, reports: Sequence[Report]) -> None:
        """From now on this server has other reports."""
        self._left[server_id] = list(reports)

    def _expect(self, method: str) -> None:
        if method == "create_servers" and self._is_of_client:
            self._is_of_client = False
            with self._cloud.db.read() as session:
                new = session.query(models.Instance.uuid).filter(models.Instance.vm_state == "building")
                server_ids = [server_id for (server_id,) in new]
            for server_id in server_ids:
                self.go_on(server_id, self.of_builds)
        elif method == "start_action":
            server_id, kind, arguments = self._cloud.conductor.actions[-1]
            request_id = self._cloud.conductor.action_request
            state = BY_KIND[kind].ends_in
            end: Report = {"task_state": None, **({} if state is None else {"vm_state": str(state)})}
            if BY_KIND[kind].makes_image:
                image = msgspec.convert(arguments["image"], Image)
                self._cloud.db.run(lambda session: images.add(session, image, now()))
                end["image"] = image
            self.go_on(server_id, [{}, {**end, **self.of_actions.get(kind, {}), "action": (kind, request_id)}])

    def _report(self, method: str, path: str) -> None:
        if method != "GET":
            self._is_of_client = True
            return
        match = SERVER.match(path)
        for server_id in list(self._left) if match and match[1] == "detail" else [match[1]] if match else []:
            left = self._left.get(server_id, [])
            if left:
                values = dict(left.pop(0))
                (kind, request_id), image = values.pop("action", (None, "")), values.pop("image", None)
                if kind in self.failures:
                    fail_action(self._cloud, server_id, BY_KIND[kind].name, self.failures[kind], request_id)
                if image is not None:
                    self._end_image(image, has_failed=kind in self.failures)
                report(self._cloud, server_id, values)

    def _end_image(self, image: Image, *, has_failed: bool) -> None:
        """The image of an action that has failed is gone."""
        active = msgspec.structs.replace(image, status="active", size=1)

        def work(session: Session) -> None:
            if has_failed:
                session.query(models.Image).filter_by(id=image.id).delete()
            else:
                images.replace(session, active, image.status, now())

        self._cloud.db.run(work)
