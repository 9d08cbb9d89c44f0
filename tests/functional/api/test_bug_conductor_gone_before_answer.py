"""A conductor that was stopped with calls in its hands answered none of them: users got a 503, and did not know what was done."""

import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import falcon.testing
import pytest

from minova import errors
from minova.api import repeated_calls
from minova.api.app import make_app
from minova.api.repeated_calls import _LOOKS, _LOOKS_OF_ONE, OTHERS, RepeatingConductor
from minova.context import RequestContext
from minova.contracts.base import Role, methods_of
from minova.contracts.conductor import ConductorApi
from minova.objects.network.network import Network
from tests.functional.api.conftest import Cloud
from tests.functional.conductor.conductor_harness import ConductorHarness
from tests.tables import make_tables
from tests.unit.api.compute.test_public_keys import ED25519

TINY = {"name": "tiny", "id": "1", "ram": 128, "vcpus": 1, "disk": 1}


class Gone:
    """A client whose calls are taken by a conductor that goes: before it has done them or, with `does`, after that."""

    def __init__(self, conductor: Any, does: bool) -> None:
        self._conductor = conductor
        self._does = does
        self.lost: list[str] = []

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(ctx: RequestContext, **arguments: Any) -> Any:
            self.lost.append(name)
            if self._does:
                with suppress(errors.MinovaError):  # an error is an answer, and does not come either
                    getattr(self._conductor, name)(ctx, **arguments)
            raise errors.NoAnswer(f"No answer to {name} in time.")

        return call


class Alarmed(Gone):
    """Of a broker that begins an alarm: it takes neither the answer of a first call nor a second call."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def refused(ctx: RequestContext, **arguments: Any) -> None:
            raise errors.BrokerBlocked(f"{name} was not sent")

        return refused if name in _LOOKS else super().__getattr__(name)


class Conductors:
    """The API over a conductor that goes, and another one; with `is_alarmed`, none other."""

    def __init__(self, folder: Path, does: bool, *, is_alarmed: bool = False) -> None:
        url = f"sqlite:///{folder}/minova.sqlite"
        make_tables(url)
        self.harness = ConductorHarness(url)
        self.cloud = Cloud(folder, url=url)
        self.first = Gone(self.harness.conductor, does)
        conductor = self.harness.conductor
        again = cast(ConductorApi, Alarmed(conductor, does) if is_alarmed else conductor)
        repeating = cast(ConductorApi, RepeatingConductor(cast(ConductorApi, self.first), again, self.cloud.readonly))
        self.cloud.app = make_app(self.cloud.conf, self.cloud.readonly, repeating, self.cloud.consoles)
        self.cloud.client = falcon.testing.TestClient(self.cloud.app, headers={"Host": "localhost"})

    def ask(self, method: str, path: str, body: Any = None, **more: Any) -> Any:
        """Refuses to go on unless the call to the conductor was lost and the request succeeded."""
        before = len(self.first.lost)
        status, answer = self.cloud.ask(method, path, body, **more)
        assert status < 300, (method, path, status, answer)
        assert len(self.first.lost) > before, (method, path)
        return answer

    def close(self) -> None:
        self.cloud.close()
        self.harness.close()


@pytest.fixture(params=[False, True], ids=["before the work", "after the work"])
def api(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Conductors]:
    conductors = Conductors(tmp_path, request.param)
    yield conductors
    conductors.close()


def image_of(api: Conductors) -> str:
    record = {"name": "guest", "disk_format": "raw", "container_format": "bare"}
    image = str(api.ask("POST", "/v2/images", record)["id"])
    octets = {"Content-Type": "application/octet-stream"}
    api.ask("PUT", f"/v2/images/{image}/file", b"\0" * 1024, headers=octets)
    assert api.cloud.get(f"/v2/images/{image}")["status"] == "active"
    return image


@pytest.mark.parametrize("headers", [{}, {"X-Minova-Request-UUID": "0e7a4e5c-7a3e-4c43-9ac1-5f0c2a5a7e11"}])
def test_servers_are_created_once_and_deleted(api: Conductors, headers: dict[str, str]) -> None:
    api.ask("POST", "/v2.1/flavors", {"flavor": TINY})
    body = {"name": "vm", "flavorRef": "1", "imageRef": image_of(api)}
    server_id = api.ask("POST", "/v2.1/servers", {"server": body}, headers=headers)["server"]["id"]
    assert [each["id"] for each in api.cloud.get("/v2.1/servers")["servers"]] == [server_id]
    api.ask("DELETE", f"/v2.1/servers/{server_id}")
    api.harness.settle()
    assert api.cloud.get("/v2.1/servers")["servers"] == []


def test_a_server_action_is_begun_once_and_a_second_one_is_refused(api: Conductors) -> None:
    uuid = api.harness.active()
    path = f"/v2.1/servers/{uuid}/action"
    api.ask("POST", path, {"os-stop": None})
    assert [action for action, _ in api.harness.actions(uuid)] == ["create", "stop"]
    status, answer = api.cloud.ask("POST", path, {"os-stop": None})
    assert status == 409, answer


def test_flavors(api: Conductors) -> None:
    flavor = api.ask("POST", "/v2.1/flavors", {"flavor": TINY})["flavor"]
    assert (flavor["id"], flavor["ram"]) == ("1", 128)
    api.ask("POST", "/v2.1/flavors/1/os-extra_specs", {"extra_specs": {"hw:cpu_policy": "dedicated"}})
    assert api.cloud.get("/v2.1/flavors/1/os-extra_specs") == {"extra_specs": {"hw:cpu_policy": "dedicated"}}
    api.ask("DELETE", "/v2.1/flavors/1/os-extra_specs/hw:cpu_policy")
    assert api.cloud.get("/v2.1/flavors/1/os-extra_specs") == {"extra_specs": {}}
    api.ask("DELETE", "/v2.1/flavors/1")
    assert api.cloud.get("/v2.1/flavors")["flavors"] == []


def test_access_to_a_flavor(api: Conductors) -> None:
    api.ask("POST", "/v2.1/flavors", {"flavor": TINY | {"os-flavor-access:is_public": False}})
    expected = {"flavor_access": [{"flavor_id": "1", "tenant_id": "acme"}]}
    assert api.ask("POST", "/v2.1/flavors/1/action", {"addTenantAccess": {"tenant": "acme"}}) == expected
    removed = api.ask("POST", "/v2.1/flavors/1/action", {"removeTenantAccess": {"tenant": "acme"}})
    assert removed == {"flavor_access": []}


def test_another_flavor_with_the_same_name_is_still_refused(api: Conductors) -> None:
    api.ask("POST", "/v2.1/flavors", {"flavor": TINY})
    status, answer = api.cloud.ask("POST", "/v2.1/flavors", {"flavor": TINY | {"ram": 256}})
    assert status == 409, answer
    assert api.cloud.get("/v2.1/flavors/1")["flavor"]["ram"] == 128


def test_aggregates(api: Conductors) -> None:
    body = {"name": "racks", "availability_zone": "north"}
    aggregate = api.ask("POST", "/v2.1/os-aggregates", {"aggregate": body})["aggregate"]
    assert aggregate["availability_zone"] == "north"
    path = f"/v2.1/os-aggregates/{aggregate['id']}"
    assert api.ask("POST", f"{path}/action", {"add_host": {"host": "a"}})["aggregate"]["hosts"] == ["a"]
    changed = api.ask("POST", f"{path}/action", {"set_metadata": {"metadata": {"ssd": "true"}}})
    assert changed["aggregate"]["metadata"]["ssd"] == "true"
    assert api.ask("POST", f"{path}/action", {"remove_host": {"host": "a"}})["aggregate"]["hosts"] == []
    assert api.ask("PUT", path, {"aggregate": {"name": "shelves"}})["aggregate"]["name"] == "shelves"
    api.ask("DELETE", path)
    assert api.cloud.get("/v2.1/os-aggregates")["aggregates"] == []


def test_a_host_of_another_zone_is_still_refused(api: Conductors) -> None:
    for name in ("north", "south"):
        body = {"name": name, "availability_zone": name}
        aggregate = api.ask("POST", "/v2.1/os-aggregates", {"aggregate": body})["aggregate"]
        path = f"/v2.1/os-aggregates/{aggregate['id']}/action"
        status, answer = api.cloud.ask("POST", path, {"add_host": {"host": "a"}})
        assert status == (200 if name == "north" else 409), answer


def test_images(api: Conductors) -> None:
    image = image_of(api)
    status, answer = api.cloud.ask("POST", "/v2/images", {"id": image, "name": "another", "disk_format": "raw"})
    assert status == 409, answer
    api.ask("DELETE", f"/v2/images/{image}")
    assert api.cloud.get("/v2/images")["images"] == []


def test_services(api: Conductors) -> None:
    def computes() -> dict[str, dict[str, Any]]:
        services = api.cloud.get("/v2.1/os-services?binary=minova-compute")["services"]
        return {each["host"]: each for each in services}

    api.ask("PUT", "/v2.1/os-services/disable", {"host": "c", "binary": "minova-compute"})
    assert computes()["c"]["status"] == "disabled"
    api.ask("DELETE", f"/v2.1/os-services/{computes()['c']['id']}")
    assert sorted(computes()) == ["a", "b"]


def test_a_server_group_is_deleted_and_not_made_twice(api: Conductors) -> None:
    """Nothing tells a second call from the wish for a second group of the same name. So it is not repeated."""
    body = {"server_group": {"name": "web", "policies": ["anti-affinity"]}}
    status, answer = api.cloud.ask("POST", "/v2.1/os-server-groups", body)
    assert status == 200, answer
    assert "create_server_group" not in api.first.lost
    api.ask("DELETE", f"/v2.1/os-server-groups/{answer['server_group']['id']}")
    assert api.cloud.get("/v2.1/os-server-groups")["server_groups"] == []


@pytest.mark.parametrize("more", [{"public_key": ED25519}, {}], ids=["imported", "generated"])
def test_a_key_pair_is_made_once_and_deleted(api: Conductors, more: dict[str, str]) -> None:
    """Of a generated one the private key is answered, which the second call does not make anew."""
    keypair = api.ask("POST", "/v2.1/os-keypairs", {"keypair": {"name": "mine", **more}})["keypair"]
    assert ("private_key" in keypair) is (not more)
    assert api.cloud.get("/v2.1/os-keypairs/mine")["keypair"]["fingerprint"] == keypair["fingerprint"]
    status, answer = api.cloud.ask("POST", "/v2.1/os-keypairs", {"keypair": {"name": "mine"}})
    assert status == 409, answer
    api.ask("DELETE", "/v2.1/os-keypairs/mine")
    assert api.cloud.get("/v2.1/os-keypairs")["keypairs"] == []


@pytest.mark.parametrize("does", [True, False], ids=["done", "not done"])
def test_bug_changes_were_refused_that_were_done(tmp_path: Path, does: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeated_calls, "SETTLE", 0.0)
    alarmed = Conductors(tmp_path, does, is_alarmed=True)
    network = {"network": {"name": "kept"}}
    kept = Network(id=str(uuid.uuid4()), project_id="admin", name="kept")
    ctx = RequestContext(request_id="req-1", project_id="admin", user_id="u")
    alarmed.harness.conductor.create_networks(ctx, networks=(kept,))
    # A list waits for nothing.
    assert len(alarmed.cloud.get("/network/v2.0/security-groups")["security_groups"]) == does
    alarmed.harness.conductor.ensure_default_security_group(ctx, project_id="admin")
    server = alarmed.harness.active()
    for path, body, created in (
        ("/v2.1/os-server-groups", {"server_group": {"name": "mine", "policies": ["affinity"]}}, 200),
        ("/network/v2.0/networks", network, 201),
        ("/network/v2.0/subnets", {"subnet": {"network_id": kept.id, "ip_version": 4, "cidr": "10.9.0.0/24"}}, 201),
        ("/network/v2.0/ports", {"port": {"network_id": kept.id}}, 201),
        ("/network/v2.0/security-groups", {"security_group": {"name": "mine"}}, 201),
        ("/network/v2.0/address-groups", {"address_group": {"name": "mine", "addresses": ["10.0.0.0/8"]}}, 201),
    ):
        status, answer = alarmed.cloud.ask("POST", path, body)
        assert status == (created if does else 503), (path, answer)
        listed = alarmed.cloud.get(path)
        ids = {resource["id"] for resource in next(iter(listed.values()))}
        assert not does or next(iter(answer.values()))["id"] in ids
    port = alarmed.cloud.get("/network/v2.0/ports")["ports"]
    for path, removed in (
        *((f"/network/v2.0/ports/{listed_port['id']}", 204) for listed_port in port),
        (f"/network/v2.0/networks/{kept.id}", 204),
        (f"/v2.1/servers/{server}", 204),
    ):
        status, answer = alarmed.cloud.ask("DELETE", path)
        assert status == (removed if does else 503), (path, answer)
    assert (
        kept.id in {network["id"] for network in alarmed.cloud.get("/network/v2.0/networks")["networks"]}
    ) is not does
    alarmed.close()


def test_each_call_of_the_api_is_either_repeated_or_known_not_to_be() -> None:
    of_api = {name for name, method in methods_of(ConductorApi).items() if method.audience.roles == {Role.API}}
    sent_once = {
        "create_server_group",
        "create_networks",
        "create_subnets",
        "create_port",
        "create_ports",
        "create_security_groups",
        "create_security_group_rules",
        "create_address_groups",
        "create_subnet_pools",
        # A hint: the host and a conductor look from time to time.
        "network_changed",
        # Reports, which come again by themselves.
        "api_has_seen",
        "report_images",
    }
    assert of_api - set(_LOOKS) == sent_once
    assert set(_LOOKS) <= of_api
    assert set(_LOOKS_OF_ONE) == {name for name in sent_once if name.startswith("create_")}


def test_a_conductor_with_the_network_service_is_found(tmp_path: Path) -> None:
    cloud = Cloud(tmp_path)
    request = RequestContext(request_id="req-1")

    def asked(*answers: errors.MinovaError | str) -> Any:
        left = list(answers)

        class Conductors:
            def update_server(self, ctx: RequestContext) -> str:
                answer = left.pop(0)
                if isinstance(answer, errors.MinovaError):
                    raise answer
                return answer

        both = cast(ConductorApi, Conductors())
        return RepeatingConductor(both, both, cloud.readonly), left

    no = errors.NetworkNotConfigured("Not here.")
    conductor, left = asked(no, no, "done")
    assert conductor.update_server(request) == "done"
    # One has done it and is gone, and the next one cannot know.
    gone = errors.NoAnswer("No answer.")
    for answers in ((gone, no, no, "done"), (no, gone, no, "done")):
        conductor, left = asked(*answers)
        assert conductor.update_server(request) == "done"
    conductor, left = asked(*[no] * (OTHERS + 2))
    with pytest.raises(errors.NetworkNotConfigured):
        conductor.update_server(request)
    assert len(left) == 1


class Silent:
    def __init__(self, error: errors.MinovaError) -> None:
        self.error = error
        self.asked = 0

    def delete_server(self, ctx: RequestContext, instance_uuid: str, override_lock: bool = False) -> None:
        self.asked += 1
        raise self.error


@pytest.mark.parametrize(
    ("error", "asked"),
    [
        (errors.NoAnswer("No answer in time."), 1),
        (errors.ServiceUnavailable("The database does not answer."), 0),
        (errors.NotFound("None such."), 0),
        (errors.PeerTooOld("It is older."), 0),
    ],
)
def test_a_call_is_repeated_once_and_only_if_no_answer_came(
    tmp_path: Path, error: errors.MinovaError, asked: int
) -> None:
    cloud = Cloud(tmp_path)
    first, again = Silent(error), Silent(error)
    repeating: Any = RepeatingConductor(cast(ConductorApi, first), cast(ConductorApi, again), cloud.readonly)
    with pytest.raises(type(error)):
        repeating.delete_server(RequestContext(request_id="req-1"), instance_uuid="none")
    assert (first.asked, again.asked) == (1, asked)
    cloud.close()
