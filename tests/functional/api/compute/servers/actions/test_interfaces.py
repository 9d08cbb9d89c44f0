"""`os-interface`, `addFixedIp` and `removeFixedIp`, as Nova answers."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest

from minova import errors
from minova.api.compute.servers.actions import interfaces
from minova.api.http.waiting import WaitingRequests
from minova.objects.network.port_marks import is_marked
from tests.fakes.neutron import FakeNeutron
from tests.functional.api.conftest import Cloud, at
from tests.functional.api.network.test_networks import UNKNOWN, addresses, listed, network, port, subnet

Json = dict[str, Any]


def path_of(server: Json, port_id: str = "") -> str:
    return f"/v2.1/servers/{server['id']}/os-interface" + (f"/{port_id}" if port_id else "")


def attach(cloud: Cloud, server: Json, version: str = "2.1", **wanted: Any) -> tuple[int, Json]:
    return cloud.ask("POST", path_of(server), {"interfaceAttachment": wanted}, **at(version))


def text(answer: Json) -> str:
    return str(next(iter(answer.values()))["message"])


def blue(cloud: Cloud, cidr: str = "10.1.0.0/24", **values: Any) -> Json:
    new_network = network(cloud, **values)
    subnet(cloud, new_network, cidr)
    return new_network


def test_an_interface_is_attached_listed_shown_and_detached(stocked: Cloud) -> None:
    server, of = stocked.make_server(), blue(stocked)
    status, answer = attach(stocked, server, net_id=of["id"])
    (new_port,) = listed(stocked, "port")
    expected = {
        "net_id": of["id"],
        "port_id": new_port["id"],
        "mac_addr": new_port["mac_address"],
        "port_state": "DOWN",
        "fixed_ips": new_port["fixed_ips"],
    }
    assert (status, answer) == (200, {"interfaceAttachment": expected})
    assert stocked.get(path_of(server))["interfaceAttachments"] == [expected]
    assert stocked.get(path_of(server, new_port["id"]))["interfaceAttachment"] == expected
    assert stocked.ask("DELETE", path_of(server, new_port["id"])) == (202, None)
    assert stocked.get(path_of(server)) == {"interfaceAttachments": []}
    assert listed(stocked, "port") == [], "it was made for the server"


def test_without_a_network_it_is_on_the_only_one(stocked: Cloud) -> None:
    server = stocked.make_server()
    status, answer = stocked.ask("POST", path_of(server), {})
    assert (status, text(answer)) == (
        400,
        "No specific network was requested and none are available for project 'admin'.",
    )
    of = blue(stocked)
    status, answer = stocked.ask("POST", path_of(server), {})
    assert (status, answer["interfaceAttachment"]["net_id"]) == (200, of["id"])
    blue(stocked, "10.2.0.0/24")
    status, answer = attach(stocked, server)
    assert (status, "More than one possible network found" in text(answer)) == (400, True)


def test_a_port_or_an_address_is_named(stocked: Cloud) -> None:
    server, of = stocked.make_server(), blue(stocked)
    own = port(stocked, of)
    assert attach(stocked, server, port_id=own["id"])[0] == 200
    status, answer = attach(stocked, server, net_id=of["id"], fixed_ips=[{"ip_address": "10.1.0.77"}])
    assert (status, answer["interfaceAttachment"]["fixed_ips"][0]["ip_address"]) == (200, "10.1.0.77")
    # The one that was there stays.
    assert stocked.ask("DELETE", path_of(server, own["id"]))[0] == 202
    kept = stocked.get(f"/network/v2.0/ports/{own['id']}")["port"]
    assert (kept["device_id"], addresses(kept)) == ("", addresses(own))


def test_tags_are_taken_since_2_49_and_shown_since_2_70(stocked: Cloud) -> None:
    server, of = stocked.make_server(), blue(stocked)
    status, answer = attach(stocked, server, "2.48", net_id=of["id"], tag="front")
    assert (status, "tag" in text(answer)) == (400, True)
    status, answer = attach(stocked, server, "2.49", net_id=of["id"], tag="front")
    assert (status, "tag" in answer["interfaceAttachment"]) == (200, False)
    own = answer["interfaceAttachment"]["port_id"]
    assert stocked.get(path_of(server, own), **at("2.70"))["interfaceAttachment"]["tag"] == "front"
    assert stocked.get(path_of(server), **at("2.70"))["interfaceAttachments"][0]["tag"] == "front"
    assert "tag" not in stocked.get(path_of(server), **at("2.69"))["interfaceAttachments"][0]
    for wrong in ("a,b", "a/b", "", "x" * 61):
        assert attach(stocked, server, "2.49", net_id=of["id"], tag=wrong)[0] == 400


@pytest.mark.parametrize(
    ("wanted", "status", "said"),
    [
        ({"net_id": "BLUE", "port_id": "PORT"}, 400, "Must not input both network_id and port_id"),
        ({"fixed_ips": [{"ip_address": "10.1.0.9"}]}, 400, "Must input network_id when request IP address"),
        ({"net_id": "blue"}, 400, "net_id"),
        ({"net_id": None}, 400, "net_id"),
        ({"net_id": "BLUE", "fixed_ips": []}, 400, "fixed_ips"),
        ({"net_id": "BLUE", "fixed_ips": [{"ip_address": "10.1.0.9"}] * 2}, 400, "fixed_ips"),
        ({"net_id": "BLUE", "fixed_ips": [{"ip_address": "ten"}]}, 400, "fixed_ip"),
        ({"net_id": "BLUE", "fixed_ips": [{"ip_address": "10.9.0.1"}]}, 400, "not a valid IP"),
        ({"net_id": "BLUE", "fixed_ips": [{"ip_address": "USED_IP"}]}, 409, "already allocated"),
        ({"net_id": "BLUE", "colour": "x"}, 400, "colour"),
        ({"net_id": UNKNOWN}, 404, f"Network {UNKNOWN} could not be found"),
        ({"port_id": UNKNOWN}, 404, f"Port id {UNKNOWN} could not be found"),
        ({"net_id": "EMPTY"}, 400, "requires a subnet"),
        ({"port_id": "USED"}, 409, "still in use"),
        ({"port_id": "ROUTERS"}, 409, "still in use"),
        ({"net_id": "FULL"}, 400, "No fixed IP addresses available for network"),
    ],
)
def test_what_cannot_be_attached_is_refused(stocked: Cloud, wanted: Json, status: int, said: str) -> None:
    server = stocked.make_server()
    of, empty, full = blue(stocked), network(stocked), blue(stocked, "10.3.0.0/30")
    used = port(stocked, of)
    assert attach(stocked, server, port_id=used["id"])[0] == 200
    assert attach(stocked, server, net_id=full["id"])[0] == 200
    routers = port(stocked, of, device_id="a router", device_owner="network:router_interface")
    ids = {
        "ROUTERS": routers["id"],
        "BLUE": of["id"],
        "EMPTY": empty["id"],
        "FULL": full["id"],
        "USED": used["id"],
        "PORT": UNKNOWN,
    }
    ids["USED_IP"] = addresses(used)[0]
    named: Json = {
        key: [{"ip_address": ids.get(fixed_ip["ip_address"], fixed_ip["ip_address"])} for fixed_ip in value]
        if isinstance(value, list)
        else ids.get(value, value)
        for key, value in wanted.items()
    }
    answered, document = attach(stocked, server, **named)
    assert (answered, said in text(document)) == (status, True), document
    assert len(stocked.get(path_of(server))["interfaceAttachments"]) == 2, "nothing is made"


def test_a_host_that_cannot_attach_it_is_an_error_and_nothing_is_left(stocked: Cloud) -> None:
    server, of = stocked.make_server(), blue(stocked)
    stocked.conductor.host_failure = "InterfaceAttachFailed"
    status, document = attach(stocked, server, net_id=of["id"])
    assert (status, text(document)) == (500, f"Failed to attach network adapter device to {server['id']}")
    assert listed(stocked, "port") == []
    stocked.conductor.host_failure = "Interrupted"
    assert attach(stocked, server, net_id=of["id"])[0] == 409


def test_a_host_that_is_slow_is_waited_for_a_while(stocked: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    server, of = stocked.make_server(), blue(stocked)
    monkeypatch.setattr(stocked.conductor, "_end_action", lambda *words: None)
    monkeypatch.setattr(interfaces, "PATIENCE", 0.1)
    assert attach(stocked, server, net_id=of["id"])[0] == 500


def test_a_request_holds_one_place_while_it_waits_and_a_detachment_none(
    stocked: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An attachment waits for another one of its server first, and then for its host."""
    server, of = stocked.make_server(), blue(stocked)
    held: list[int] = []
    place, holds = WaitingRequests.place, 0

    @contextmanager
    def counted(*words: Any) -> Iterator[None]:
        nonlocal holds
        holds += 1
        held.append(holds)
        with place(*words):
            yield
        holds -= 1

    busy = [True, True, False]

    def refuse(method: str) -> None:
        if method == "start_action" and busy and busy.pop(0):
            raise errors.Conflict("another task is in progress")

    monkeypatch.setattr(WaitingRequests, "place", counted)
    monkeypatch.setattr(interfaces, "_is_busy", lambda api, uuid: True)
    stocked.conductor.before = refuse
    status, answer = attach(stocked, server, net_id=of["id"])
    assert (status, held, busy) == (200, [1], [])
    held.clear()
    assert stocked.ask("DELETE", path_of(server, answer["interfaceAttachment"]["port_id"]))[0] == 202
    assert held == []


def test_a_state_that_does_not_allow_it_is_a_conflict(stocked: Cloud) -> None:
    server, of = stocked.make_server(), blue(stocked)

    def refuse(method: str) -> None:
        if method == "start_action":
            raise errors.Conflict("Cannot 'attach_interface' instance x while it is in vm_state rescued")

    stocked.conductor.before = refuse
    status, document = attach(stocked, server, net_id=of["id"])
    assert (status, "vm_state rescued" in text(document)) == (409, True)


def test_the_port_of_another_server_is_not_found(stocked: Cloud) -> None:
    server, other, of = stocked.make_server(), stocked.make_server(), blue(stocked)
    own = attach(stocked, server, net_id=of["id"])[1]["interfaceAttachment"]["port_id"]
    for method in ("GET", "DELETE"):
        status, answer = stocked.ask(method, path_of(other, own))
        assert (status, text(answer)) == (404, f"Instance {other['id']} does not have a port with id {own}")
        status, answer = stocked.ask(method, path_of(server, UNKNOWN))
        assert (status, text(answer)) == (404, f"Port id {UNKNOWN} could not be found.")


def test_addresses_come_and_go_until_2_43(stocked: Cloud) -> None:
    server, of = stocked.make_server(), blue(stocked)
    own = attach(stocked, server, net_id=of["id"])[1]["interfaceAttachment"]["port_id"]
    path = f"/v2.1/servers/{server['id']}/action"

    def act(key: str, body: Json, version: str = "2.43") -> tuple[int, Any]:
        return stocked.ask("POST", path, {key: body}, **at(version))

    assert act("addFixedIp", {"networkId": of["id"]}) == (202, None)
    shown = stocked.get(f"/network/v2.0/ports/{own}")["port"]
    assert addresses(shown) == ["10.1.0.2", "10.1.0.3"]
    assert act("removeFixedIp", {"address": "10.1.0.2"}) == (202, None)
    assert addresses(stocked.get(f"/network/v2.0/ports/{own}")["port"]) == ["10.1.0.3"]
    for key, body, status in (
        ("addFixedIp", {"networkId": UNKNOWN}, 404),
        ("addFixedIp", {}, 400),
        ("removeFixedIp", {"address": "10.1.0.2"}, 400),
        ("removeFixedIp", {"address": "ten"}, 400),
        ("removeFixedIp", {}, 400),
    ):
        assert act(key, body)[0] == status, (key, body)
    assert act("addFixedIp", {"networkId": of["id"]}, "2.44")[0] == 404
    assert act("removeFixedIp", {"address": "10.1.0.3"}, "2.44")[0] == 404
    for _ in range(4):
        assert act("addFixedIp", {"networkId": of["id"]})[0] == 202
    status, answer = act("addFixedIp", {"networkId": of["id"]})
    assert (status, "a port may have 5 addresses" in text(answer)) == (400, True)
    stocked.conductor.edit(server["id"], locked_by="admin")


def test_a_port_of_a_server_changes_but_for_what_its_guest_has(stocked: Cloud) -> None:
    server, of = stocked.make_server(), blue(stocked)
    own = attach(stocked, server, net_id=of["id"])[1]["interfaceAttachment"]["port_id"]
    path = f"/network/v2.0/ports/{own}"
    for changes in ({"fixed_ips": [{"ip_address": "10.1.0.50"}]}, {"admin_state_up": False}, {"name": "front"}):
        status, answer = stocked.ask("PUT", path, {"port": changes})
        assert status == 200, answer
    assert addresses(answer["port"]) == ["10.1.0.50"]
    for refused, kind in (
        ({"mac_address": "02:00:00:00:00:01"}, "PortBound"),
        ({"device_id": ""}, "PortInUse"),
        ({"device_owner": "x"}, "PortInUse"),
    ):
        status, answer = stocked.ask("PUT", path, {"port": refused})
        assert (status, answer["NeutronError"]["type"]) == (409, kind)


# -- of a Neutron beside minova ------------------------------------------------------------------------------------------

NET = "22222222-0000-4000-8000-000000000000"


def running(cloud: Cloud) -> Json:
    server = cloud.make_server(networks="none", **at("2.37"))
    launched = {"host": "h", "launched_at": datetime.now(UTC).replace(tzinfo=None)}
    cloud.conductor.edit(server["id"], vm_state="active", task_state=None, **launched)
    return server


def test_an_interface_of_neutron_is_attached(stocked: Cloud, neutron: FakeNeutron) -> None:
    server = running(stocked)
    status, answer = attach(stocked, server, net_id=NET)
    (new_port,) = neutron.books.values()
    assert (status, answer["interfaceAttachment"]["port_id"]) == (200, new_port["id"])
    assert new_port["device_id"] == server["id"]
    assert is_marked(new_port, server["id"])


@pytest.mark.parametrize("unknown", ["net_id", "port_id"])
def test_an_unknown_network_or_port_of_neutron_is_not_found(stocked: Cloud, neutron: FakeNeutron, unknown: str) -> None:
    """As in Nova, which answers 400 only for new servers."""
    server = running(stocked)
    neutron.deleted_networks.add(NET)
    assert attach(stocked, server, **{unknown: NET})[0] == 404


@pytest.mark.parametrize("error", [errors.BadRequest, errors.Forbidden, errors.NotFound, errors.Conflict])
def test_a_port_whose_interface_the_conductor_refuses_is_withdrawn(
    stocked: Cloud, neutron: FakeNeutron, error: type[errors.MinovaError]
) -> None:
    server = running(stocked)
    stocked.conductor.before = fails(error)
    assert attach(stocked, server, net_id=NET)[0] == error.code
    assert neutron.requests == 2, "made and deleted"
    assert neutron.books == {}


@pytest.mark.parametrize("error", [errors.NoAnswer, errors.ServiceUnavailable])
def test_a_port_whose_interface_may_be_there_stays(
    stocked: Cloud, neutron: FakeNeutron, error: type[errors.MinovaError]
) -> None:
    """The action was written, and its answer was lost."""
    server = running(stocked)
    stocked.conductor.after = fails(error)
    assert attach(stocked, server, net_id=NET)[0] == 503
    (new_port_id,) = neutron.books
    (has,) = stocked.get(path_of(server))["interfaceAttachments"]
    assert has["port_id"] == new_port_id


def test_conductors_know_of_a_port_before_it_is_made(stocked: Cloud, neutron: FakeNeutron) -> None:
    """Neutron makes it, and its answer is lost: nothing else says that it is there."""
    server = running(stocked)

    def lost() -> None:
        assert stocked.conductor.expected_ports == [(server["id"], NET)]
        raise errors.ServiceUnavailable("no answer")

    neutron.during["POST", ""] = lost
    assert attach(stocked, server, net_id=NET)[0] == 503
    assert neutron.requests == 1
    stocked.conductor.before = fails(errors.ServiceUnavailable, "expect_port")
    assert attach(stocked, server, net_id=NET)[0] == 503
    assert neutron.requests == 1, "none is made that nothing looks for"


def test_a_port_that_a_server_has_is_not_withdrawn(stocked: Cloud, neutron: FakeNeutron) -> None:
    """The first answer was lost on its way, and the message came twice."""
    server = running(stocked)
    stocked.conductor.after = fails(errors.Conflict)
    assert attach(stocked, server, net_id=NET)[0] == 409
    assert len(neutron.books) == 1


@pytest.mark.parametrize("change", [{"vm_state": "error"}, {"task_state": "rebooting"}, {"host": None}])
def test_no_port_is_made_for_a_server_that_cannot_have_it(stocked: Cloud, neutron: FakeNeutron, change: Json) -> None:
    server = running(stocked)
    stocked.conductor.edit(server["id"], **change)
    assert attach(stocked, server, net_id=NET)[0] == 409
    assert neutron.requests == 0


def fails(error: type[errors.MinovaError], failing: str = "start_action") -> Any:
    def work(method: str) -> None:
        if method == failing:
            raise error("no")

    return work
