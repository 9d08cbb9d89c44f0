"""What each identity is answered by each route. The answers are written here, not derived from the policies.

A route, or an action of one, that has no row fails `test_every_route_has_a_row`.
"""

import itertools
import json
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import falcon.testing
import pytest

from minova.api.app import make_app
from minova.api.compute.routes import ROUTES as COMPUTE
from minova.api.http.definition import Route
from minova.api.http.microversions import HIGHEST
from minova.api.image.routes import ROUTES as IMAGE
from minova.api.placement.routes import ROUTES as PLACEMENT
from tests.functional.api.compute.test_flavors_and_hosts import node, service
from tests.security.identities import login, with_users

Json = dict[str, Any]

# The resources in the paths belong to alice's project. `svc` has the role service, and no other.
IDENTITIES = ("admin", "alice", "rita", "bob", "rob", "svc", "anonymous")
USER_ROLES = ["alice:acme:member", "rita:acme:reader", "bob:globex:member", "rob:globex:reader", "svc:services:service"]

# Columns: administrator, member, reader, member and reader of another project, service, without credentials.
# Statuses; what one identity is refused by its role is 403, what it cannot see is 404.
COMPUTE_TABLE = """
GET /                                                     200 200 200 200 200 200 200
GET /compute                                              200 200 200 200 200 200 200
GET /v2.1                                                 200 200 200 200 200 200 200
GET /versions                                             200 200 200 200 200 200 200
GET /v2.1/servers                                         200 200 200 200 200 403 401
GET /v2.1/servers/detail                                  200 200 200 200 200 403 401
POST /v2.1/servers                                        202 202 403 400 403 403 401
POST /v2.1/servers/dry-run                                200 200 403 400 403 403 401
POST /v2.1/servers/capacity                               200 403 403 403 403 403 401
GET /v2.1/servers/{server_id}                             200 200 200 404 404 403 401
DELETE /v2.1/servers/{server_id}                          204 204 403 404 403 403 401
POST /v2.1/servers/{server_id}/action os-getConsoleOutput 200 200 403 404 403 403 401
POST /v2.1/servers/{server_id}/action os-stop             202 202 403 404 403 403 401
POST /v2.1/servers/{server_id}/action os-start            202 202 403 404 403 403 401
GET /v2.1/servers/{server_id}/diagnosis                   404 404 404 404 404 403 401
GET /v2.1/flavors                                         200 200 200 200 200 200 401
GET /v2.1/flavors/detail                                  200 200 200 200 200 200 401
POST /v2.1/flavors                                        200 403 403 403 403 403 401
GET /v2.1/flavors/{flavor_id}                             200 200 200 200 200 200 401
DELETE /v2.1/flavors/{flavor_id}                          202 403 403 403 403 403 401
GET /v2.1/flavors/{flavor_id}/os-extra_specs              200 200 200 200 200 403 401
POST /v2.1/flavors/{flavor_id}/os-extra_specs             200 403 403 403 403 403 401
GET /v2.1/flavors/{flavor_id}/os-extra_specs/{key}        200 200 200 200 200 403 401
PUT /v2.1/flavors/{flavor_id}/os-extra_specs/{key}        200 403 403 403 403 403 401
DELETE /v2.1/flavors/{flavor_id}/os-extra_specs/{key}     200 403 403 403 403 403 401
GET /v2.1/os-server-groups                                200 200 200 200 200 403 401
POST /v2.1/os-server-groups                               200 200 403 200 403 403 401
GET /v2.1/os-server-groups/{group_id}                     200 200 200 404 404 403 401
DELETE /v2.1/os-server-groups/{group_id}                  204 204 403 404 403 403 401
GET /v2.1/limits                                          200 200 200 200 200 200 401
GET /v2.1/os-quota-sets/{name}                            200 200 200 403 403 403 401
PUT /v2.1/os-quota-sets/{name}                            200 403 403 403 403 403 401
DELETE /v2.1/os-quota-sets/{name}                         202 403 403 403 403 403 401
GET /v2.1/os-quota-sets/{name}/detail                     200 200 200 403 403 403 401
GET /v2.1/os-quota-sets/{name}/defaults                   200 200 200 200 200 200 401
GET /v2.1/os-quota-class-sets/{name}                      200 403 403 403 403 403 401
PUT /v2.1/os-quota-class-sets/{name}                      200 403 403 403 403 403 401
GET /v2.1/os-availability-zone                            200 200 200 200 200 403 401
GET /v2.1/os-availability-zone/detail                     200 403 403 403 403 403 401
GET /v2.1/os-aggregates                                   200 403 403 403 403 403 401
POST /v2.1/os-aggregates                                  200 403 403 403 403 403 401
GET /v2.1/os-aggregates/{aggregate_id}                    200 403 403 403 403 403 401
PUT /v2.1/os-aggregates/{aggregate_id}                    200 403 403 403 403 403 401
DELETE /v2.1/os-aggregates/{aggregate_id}                 200 403 403 403 403 403 401
POST /v2.1/os-aggregates/{aggregate_id}/action add_host     200 403 403 403 403 403 401
POST /v2.1/os-aggregates/{aggregate_id}/action remove_host  404 403 403 403 403 403 401
POST /v2.1/os-aggregates/{aggregate_id}/action set_metadata 200 403 403 403 403 403 401
GET /v2.1/os-hypervisors                                  200 403 403 403 403 403 401
GET /v2.1/os-hypervisors/detail                           200 403 403 403 403 403 401
GET /v2.1/os-hypervisors/statistics                       200 403 403 403 403 403 401
GET /v2.1/os-hypervisors/audits                           200 403 403 403 403 403 401
GET /v2.1/os-hypervisors/{hypervisor_id}                  200 403 403 403 403 403 401
GET /v2.1/os-hypervisors/{hypervisor_id}/overview         200 403 403 403 403 403 401
POST /v2.1/os-hypervisors/{hypervisor_id}/action          409 403 403 403 403 403 401
GET /v2.1/os-hypervisors/{hypervisor_id}/uptime           501 403 403 403 403 403 401
GET /v2.1/os-services                                     200 403 403 403 403 403 401
PUT /v2.1/os-services/{id_or_action}                      200 403 403 403 403 403 401
DELETE /v2.1/os-services/{id_or_action}                   400 403 403 403 403 403 401
"""
IMAGE_TABLE = """
GET /image                                                300 300 300 300 300 300 300
GET /v2                                                   300 300 300 300 300 300 300
GET /v2/images                                            200 200 200 200 200 403 401
POST /v2/images                                           201 201 403 201 403 403 401
GET /v2/images/{image_id}                                 200 200 200 404 404 403 401
DELETE /v2/images/{image_id}                              204 204 403 404 403 403 401
PUT /v2/images/{image_id}/file                            204 204 403 404 403 403 401
GET /v2/images/{image_id}/file                            204 204 403 404 403 403 401
GET /v2/schemas/image                                     200 200 200 200 200 200 401
"""
PLACEMENT_TABLE = """
GET /                                                     200 200 200 200 200 200 200
GET /resource_classes                                     200 403 403 403 403 200 401
POST /resource_classes                                    201 403 403 403 403 201 401
GET /resource_classes/{name}                              200 403 403 403 403 200 401
PUT /resource_classes/{name}                              204 403 403 403 403 204 401
PUT /resource_classes/{name} until 1.6                    200 403 403 403 403 200 401
DELETE /resource_classes/{name}                           204 403 403 403 403 204 401
GET /resource_providers                                   200 403 403 403 403 200 401
POST /resource_providers                                  200 403 403 403 403 200 401
GET /resource_providers/{uuid}                            200 403 403 403 403 200 401
PUT /resource_providers/{uuid}                            200 403 403 403 403 200 401
DELETE /resource_providers/{uuid}                         204 403 403 403 403 204 401
GET /resource_providers/{uuid}/inventories                200 403 403 403 403 200 401
POST /resource_providers/{uuid}/inventories               201 403 403 403 403 201 401
PUT /resource_providers/{uuid}/inventories                409 403 403 403 403 409 401
DELETE /resource_providers/{uuid}/inventories             204 403 403 403 403 204 401
GET /resource_providers/{uuid}/inventories/{resource_class}    404 403 403 403 403 404 401
PUT /resource_providers/{uuid}/inventories/{resource_class}    409 403 403 403 403 409 401
DELETE /resource_providers/{uuid}/inventories/{resource_class} 404 403 403 403 403 404 401
GET /resource_providers/{uuid}/usages                     200 403 403 403 403 200 401
GET /resource_providers/{uuid}/aggregates                 200 403 403 403 403 200 401
PUT /resource_providers/{uuid}/aggregates                 409 403 403 403 403 409 401
GET /resource_providers/{uuid}/allocations                200 403 403 403 403 200 401
GET /resource_providers/{uuid}/traits                     200 403 403 403 403 200 401
PUT /resource_providers/{uuid}/traits                     409 403 403 403 403 409 401
DELETE /resource_providers/{uuid}/traits                  204 403 403 403 403 204 401
GET /traits                                               200 403 403 403 403 200 401
GET /traits/{name}                                        204 403 403 403 403 204 401
PUT /traits/{name}                                        204 403 403 403 403 204 401
DELETE /traits/{name}                                     204 403 403 403 403 204 401
POST /allocations                                         400 403 403 403 403 400 401
GET /allocations/{consumer_uuid}                          200 403 403 403 403 200 401
PUT /allocations/{consumer_uuid}                          400 403 403 403 403 400 401
DELETE /allocations/{consumer_uuid}                       404 403 403 403 403 404 401
GET /allocation_candidates                                200 403 403 403 403 200 401
GET /usages                                               200 200 200 403 403 200 401
POST /reshaper                                            400 403 403 403 403 400 401
"""


def rows(table: str) -> list[tuple[str, tuple[int, ...]]]:
    """(route, a status for each identity)."""
    split = [line.rsplit(maxsplit=len(IDENTITIES)) for line in table.strip().splitlines()]
    return [(name, tuple(map(int, statuses))) for name, *statuses in split]


def names_of(route: Route) -> list[str]:
    """A route's rows: one, or one of each action."""
    name = f"{route.method} {route.path}"
    if route.until != HIGHEST:
        name += f" until {route.until[0]}.{route.until[1]}"
    return [f"{name} {action}" for action in route.actions] or [name]


@pytest.mark.parametrize(
    ("routes", "table"), [(COMPUTE, COMPUTE_TABLE), (IMAGE, IMAGE_TABLE), (PLACEMENT, PLACEMENT_TABLE)]
)
def test_every_route_has_a_row(routes: tuple[Route, ...], table: str) -> None:
    written = [name for name, _ in rows(table)]
    assert sorted(written) == sorted(name for route in routes for name in names_of(route))


class Site:
    """A cloud with all three APIs and the identities. `ask` answers a status."""

    def __init__(self, folder: Path) -> None:
        self.cloud = with_users(folder, users=IDENTITIES[:-1], user_roles=USER_ROLES)
        self.numbers = itertools.count()
        app = make_app(
            self.cloud.conf,
            self.cloud.readonly,
            self.cloud.conductor,  # type: ignore[arg-type]
            self.cloud.consoles,
            lambda: self.cloud.db,
        )
        self.cloud.app, self.cloud.client = app, falcon.testing.TestClient(app, headers={"Host": "localhost"})
        self.cloud.conductor.add(service(1, "h1"), node("h1", id=1))
        self.flavor = self.make("admin", "/v2.1/flavors", {"flavor": self.body_of_flavor()})["flavor"]["id"]
        image = self.make("alice", "/v2/images", self.body_of_image())["id"]
        assert self.upload("alice", image) == 204
        self.image = image

    def close(self) -> None:
        self.cloud.close()

    def ask(self, user: str, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        own = {} if user == "anonymous" else login(user)
        return self.cloud.ask(method, path, body, headers=own | headers)

    def status(self, user: str, method: str, path: str, body: Any, **headers: str) -> int:
        """Not by falcon's client: it insists on a Content-Type where there is nothing, and Placement has none there."""
        path, _, query = path.partition("?")
        own = {} if user == "anonymous" else login(user)
        if body is not None:
            headers["Content-Type"] = "application/json"
        text = "" if body is None else json.dumps(body)
        environ = falcon.testing.create_environ(path, query, method=method, headers=own | headers, body=text)
        seen = falcon.testing.StartResponseMock()
        list(self.cloud.app(environ, seen))
        return int(str(seen.status).split()[0])

    def upload(self, user: str, image_id: str) -> int:
        headers = {"Content-Type": "application/octet-stream"}
        return self.ask(user, "PUT", f"/v2/images/{image_id}/file", b"\0" * 512, **headers)[0]

    def make(self, user: str, path: str, body: Any, **headers: str) -> Any:
        status, made = self.ask(user, "POST", path, body, **headers)
        assert status < 300, made
        return made

    def body_of_flavor(self) -> Json:
        return {"name": f"f{next(self.numbers)}", "ram": 64, "vcpus": 1, "disk": 1, "extra_specs": {"k": "v"}}

    def body_of_image(self) -> Json:
        return {"name": "i", "disk_format": "raw", "container_format": "bare", "visibility": "private"}

    # -- resources in paths, new for each use

    def server_id(self) -> str:
        server = {"name": "vm", "flavorRef": self.flavor, "imageRef": self.image}
        made: str = self.make("alice", "/v2.1/servers", {"server": server})["server"]["id"]
        self.cloud.conductor.edit(made, host="h1", vm_state="active", task_state=None)
        self.cloud.consoles.texts[made] = "login:"
        return made

    def flavor_id(self) -> str:
        made: str = self.make("admin", "/v2.1/flavors", {"flavor": self.body_of_flavor()})["flavor"]["id"]
        return made

    def group_id(self) -> str:
        body = {"server_group": {"name": "g", "policy": "affinity"}}
        made: str = self.make("alice", "/v2.1/os-server-groups", body)["server_group"]["id"]
        return made

    def aggregate_id(self) -> str:
        body = {"aggregate": {"name": f"a{next(self.numbers)}"}}
        return str(self.make("admin", "/v2.1/os-aggregates", body)["aggregate"]["id"])

    def image_id(self) -> str:
        made: str = self.make("alice", "/v2/images", self.body_of_image())["id"]
        return made

    def uuid(self) -> str:
        made = str(uuid.uuid4())
        body = {"name": made, "uuid": made}
        self.make("admin", "/placement/resource_providers", body, **{"OpenStack-API-Version": "placement 1.39"})
        return made

    def named(self, template: str) -> str:
        """A project, a resource class or a trait."""
        if template.startswith("/v2.1/"):
            return "acme"
        name = f"CUSTOM_N{next(self.numbers)}"
        headers = {"OpenStack-API-Version": "placement 1.39"}
        assert self.status("admin", "PUT", "/placement" + template.format(name=name), None, **headers) in (201, 204)
        return name

    def path(self, template: str) -> str:
        """With a resource of alice's project for each variable."""
        fixed = {
            "key": "k",
            "hypervisor_id": "1",
            "id_or_action": "disable",
            "resource_class": "VCPU",
            "consumer_uuid": str(uuid.uuid4()),
        }
        parts = []
        for part in template.split("/"):
            name = part.strip("{}")
            if name == "name":
                parts.append(self.named(template))
            else:
                parts.append(part if name == part else fixed[name] if name in fixed else getattr(self, name)())
        return "/".join(parts)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    made = Site(tmp_path_factory.mktemp("table"))
    yield made
    made.close()


def body_of_server(site: Site) -> Json:
    return {"server": {"name": "vm", "flavorRef": site.flavor, "imageRef": site.image}}


def body_of(site: Site, name: str, action: str) -> Any:
    made = BODIES.get(name)
    if made is not None:
        return made(site)
    return {action: {}} if action else None


GENERATION = {"resource_provider_generation": 7}
BODIES: dict[str, Callable[[Site], Any]] = {
    "POST /v2.1/servers": body_of_server,
    "POST /v2.1/servers/dry-run": body_of_server,
    "POST /v2.1/servers/capacity": lambda site: {"server": {"flavorRef": site.flavor}},
    "POST /v2.1/flavors": lambda site: {"flavor": site.body_of_flavor()},
    "POST /v2.1/flavors/{flavor_id}/os-extra_specs": lambda _: {"extra_specs": {"k": "w"}},
    "PUT /v2.1/flavors/{flavor_id}/os-extra_specs/{key}": lambda _: {"k": "w"},
    "POST /v2.1/os-server-groups": lambda _: {"server_group": {"name": "g", "policy": "affinity"}},
    "PUT /v2.1/os-quota-sets/{name}": lambda _: {"quota_set": {"key_pairs": 5}},
    "PUT /v2.1/os-quota-class-sets/{name}": lambda _: {"quota_class_set": {"key_pairs": 5}},
    "POST /v2.1/os-aggregates": lambda site: {"aggregate": {"name": f"b{next(site.numbers)}"}},
    "PUT /v2.1/os-aggregates/{aggregate_id}": lambda site: {"aggregate": {"name": f"c{next(site.numbers)}"}},
    "POST /v2.1/os-aggregates/{aggregate_id}/action add_host": lambda _: {"add_host": {"host": "h1"}},
    "POST /v2.1/os-aggregates/{aggregate_id}/action remove_host": lambda _: {"remove_host": {"host": "h1"}},
    "POST /v2.1/os-aggregates/{aggregate_id}/action set_metadata": lambda _: {"set_metadata": {"metadata": {"x": "y"}}},
    "POST /v2.1/os-hypervisors/{hypervisor_id}/action": lambda _: {"audit": None},
    "PUT /v2.1/os-services/{id_or_action}": lambda _: {"host": "h1", "binary": "nova-compute"},
    "POST /v2/images": lambda site: site.body_of_image(),
    "POST /resource_classes": lambda site: {"name": f"CUSTOM_{next(site.numbers)}"},
    "PUT /resource_classes/{name} until 1.6": lambda site: {"name": f"CUSTOM_N{next(site.numbers)}"},
    "POST /resource_providers": lambda site: {"name": f"p{next(site.numbers)}"},
    "PUT /resource_providers/{uuid}": lambda site: {"name": f"q{next(site.numbers)}"},
    "POST /resource_providers/{uuid}/inventories": lambda _: {"resource_class": "VCPU", "total": 1},
    "PUT /resource_providers/{uuid}/inventories": lambda _: {**GENERATION, "inventories": {}},
    "PUT /resource_providers/{uuid}/inventories/{resource_class}": lambda _: {**GENERATION, "total": 1},
    "PUT /resource_providers/{uuid}/aggregates": lambda _: {**GENERATION, "aggregates": []},
    "PUT /resource_providers/{uuid}/traits": lambda _: {**GENERATION, "traits": []},
    "POST /allocations": lambda _: {},
    "PUT /allocations/{consumer_uuid}": lambda _: {},
    "POST /reshaper": lambda _: {"inventories": {}, "allocations": {}},
}
QUERIES = {"GET /allocation_candidates": "?resources=VCPU:1", "GET /usages": "?project_id=acme"}


@pytest.mark.parametrize(
    ("name", "statuses", "root"),
    [
        *((name, statuses, "") for name, statuses in rows(COMPUTE_TABLE + IMAGE_TABLE[1:])),
        *((name, statuses, "/placement") for name, statuses in rows(PLACEMENT_TABLE)),
    ],
)
def test_each_identity_is_answered_as_the_table_says(
    site: Site, name: str, statuses: tuple[int, ...], root: str
) -> None:
    method, template, *rest = name.split()
    version = "1.6" if "until" in rest else "1.39"
    path = ""
    answered = {}
    for user, expected in zip(IDENTITIES, statuses, strict=True):
        # A refusal must change nothing, so that the next identity can ask for the same.
        path = path if path and expected in (401, 403) else site.path(template)
        body = body_of(site, name, rest[0] if rest else "")
        headers = {"OpenStack-API-Version": f"placement {version}"} if root else {}
        if name == "PUT /v2/images/{image_id}/file":
            answered[user] = site.upload(user, path.split("/")[3]) if user != "anonymous" else 401
            continue
        answered[user] = site.status(user, method, root + path + QUERIES.get(name, ""), body, **headers)
    assert answered == dict(zip(IDENTITIES, statuses, strict=True))
