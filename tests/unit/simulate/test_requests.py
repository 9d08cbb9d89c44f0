"""Requests of a scenario as a conductor would have made them."""

from typing import Any

import msgspec
import pytest

from minova import errors
from minova.objects.requests.request_spec import Destination, RequestSpec, Retry
from minova.simulate.requests import request_spec
from minova.simulate.scenario import ScenarioRequest, uuid_of


def no_aliases() -> Any:
    raise AssertionError


def spec(**described: Any) -> RequestSpec:
    return request_spec(msgspec.convert({"flavor": {}, **described}, ScenarioRequest), no_aliases)


def test_a_request_of_which_little_is_said_is_small() -> None:
    plain = spec()
    flavor = plain.flavor
    assert (flavor.vcpus, flavor.memory_mb, flavor.root_gb, flavor.ephemeral_gb, flavor.swap) == (1, 512, 0, 0, 0)
    assert (flavor.name, flavor.flavorid, plain.project_id, plain.instance_uuid) == ("m1", "m1", "project", uuid_of(""))
    assert (plain.resources, plain.retry, plain.requested_destination) == ({}, Retry(), None)
    assert (plain.instance_group, plain.numa_topology, plain.pci_requests, plain.scheduler_hints) == (
        None,
        None,
        (),
        {},
    )
    assert plain.image is not None
    assert (plain.image.id, plain.image.properties) == ("", {})


def test_what_is_said_counts() -> None:
    size = {
        "name": "big",
        "vcpus": 2,
        "memory_mb": 3,
        "root_gb": 4,
        "ephemeral_gb": 5,
        "swap": 6,
        "extra_specs": {"a": 1},
    }
    full = spec(
        id="r",
        flavor=size,
        image={"hw_cpu_cores": 2},
        image_id="image",
        project_id="p",
        availability_zone="z",
        ignore_hosts=["a"],
        force_hosts=["b"],
        force_nodes=["c"],
        retry_hosts=[["a", "n"], ["b", "n"]],
        hints={"same_host": "vm", "different_host": ["vm", 5], "x": "vm", "y": ["z"]},
        group={"policy": "affinity", "members": ["vm"], "hosts": ["a"], "rules": {"max_server_per_host": "3"}},
        pci_requests=[{"spec": [{"vendor_id": "8086"}], "numa_policy": "required"}, {"count": 2}],
    )
    flavor = full.flavor
    assert (flavor.vcpus, flavor.memory_mb, flavor.root_gb, flavor.ephemeral_gb, flavor.swap) == (2, 3, 4, 5, 6)
    assert (flavor.name, flavor.extra_specs, full.instance_uuid) == ("big", {"a": "1"}, uuid_of("r"))
    assert full.image is not None
    assert (full.image.id, full.image.properties) == (uuid_of("image"), {"hw_cpu_cores": "2"})
    assert (full.project_id, full.availability_zone) == ("p", "z")
    assert (full.ignore_hosts, full.force_hosts, full.force_nodes) == (("a",), ("b",), ("c",))
    assert full.retry == Retry(num_attempts=2, hosts=(("a", "n"), ("b", "n")))
    assert full.scheduler_hints == {
        "same_host": [uuid_of("vm")],
        "different_host": [uuid_of("vm"), 5],
        "x": ["vm"],
        "y": ["z"],
    }
    group = full.instance_group
    assert group is not None
    assert (group.uuid, group.policy, group.max_server_per_host) == (uuid_of("group"), "affinity", 3)
    assert (group.members, group.hosts) == ((uuid_of("vm"),), ("a",))
    first, second = full.pci_requests
    assert (first.count, first.spec, first.numa_policy) == (1, ((("vendor_id", "8086"),),), "required")
    assert (second.count, second.spec, second.numa_policy) == (2, (), None)
    assert spec(id="r", instance_uuid="vm").instance_uuid == uuid_of("vm")


def test_a_group_without_a_rule_has_no_number() -> None:
    group = spec(group={"policy": "affinity", "uuid": "g", "name": "n"}).instance_group
    assert group is not None
    assert (group.uuid, group.name, group.max_server_per_host) == (uuid_of("g"), "n", None)


@pytest.mark.parametrize(
    ("target", "destination"),
    [
        ({"host": "a"}, Destination(host="a")),
        ({"node": "n", "cell": "c"}, Destination(node="n")),
        (
            {"cell": "c", "allow_cross_cell_move": True},
            Destination(cell=uuid_of("c"), allow_cross_cell_move=True),
        ),
        ({"allow_cross_cell_move": True}, Destination(allow_cross_cell_move=True)),
    ],
)
def test_a_destination_prefers_its_cell_if_another_may_be_chosen(
    target: dict[str, Any], destination: Destination
) -> None:
    assert spec(requested_destination=target).requested_destination == destination


def test_values_of_an_image_are_checked() -> None:
    with pytest.raises(errors.BadRequest, match="hw_cpu_cores"):
        spec(image={"hw_cpu_cores": "many"})


def test_cells_are_those_of_the_flavor() -> None:
    topology = spec(flavor={"vcpus": 2, "extra_specs": {"hw:numa_nodes": 2}}).numa_topology
    assert topology is not None
    assert len(topology.cells) == 2
