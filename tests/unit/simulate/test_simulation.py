"""What was once other than Nova's answer, each with the case that showed it."""

import json
from typing import Any

import pytest

from minova.cmd.simulate import answer

SIZE = {"vcpus": 1, "memory_mb": 512, "root_gb": 10}
POOL = {"vendor_id": "8086", "product_id": "1572", "count": 1}
CELL = {"id": 0, "cpuset": [0, 1, 2, 3], "pcpuset": [0, 1, 2, 3], "memory": 4096, "siblings": [[0, 1], [2, 3]]}


def host(name: str, **values: Any) -> dict[str, Any]:
    return {"host": name, "vcpus": 8, "memory_mb": 8192, "local_gb": 100, **values}


def request_json(**values: Any) -> dict[str, Any]:
    return {"id": "r", "flavor": SIZE, **values}


def answered(hosts: list[Any], requests: list[Any], filters: list[str], **config: Any) -> list[Any]:
    scenario = {"filters": filters, "hosts": hosts, "requests": requests, "config": config}
    return json.loads(answer(json.dumps(scenario).encode()))["requests"]  # type: ignore[no-any-return]


def test_an_address_is_no_text() -> None:
    hosts = [host("a", host_ip="10.0.0.1")]
    same = request_json(hints={"query": '["=", "$host_ip", "10.0.0.1"]'})
    more = request_json(hints={"query": '[">", "$host_ip", "10.0.0.0"]'})
    answers = answered(hosts, [same, more], ["JsonFilter"])
    assert answers[0]["selected"] == []
    assert answers[1]["error"].startswith("TypeError: ")


def test_what_a_decision_takes_of_a_disk_shows_in_what_is_free_only() -> None:
    need = SIZE | {"extra_specs": {"capabilities:disk_mb_used": "<= 0"}}
    requests = [request_json(consume=True), request_json(flavor=need)]
    first, second = answered([host("a")], requests, ["ComputeCapabilitiesFilter"])
    assert first["consumed"]["free_disk_mb"] == 90 * 1024
    assert second["selected"] == ["a"]


@pytest.mark.parametrize(("node", "left"), [(0, []), (None, []), (1, [1])])
def test_a_guest_with_cells_on_a_host_that_tells_none_takes_devices_near_its_own(
    node: int | None, left: list[int]
) -> None:
    need = SIZE | {"extra_specs": {"hw:numa_nodes": "1"}}
    request = request_json(flavor=need, pci_requests=[{"count": 1, "spec": [{"vendor_id": "8086"}]}], consume=True)
    hosts = [host("a", pci_pools=[POOL | {"numa_node": node}])]
    (result,) = answered(hosts, [request], ["ComputeFilter"])
    assert [pool["count"] for pool in result["consumed"]["pci_pools"]] == left


def test_of_devices_that_are_not_all_there_none_is_taken_and_all_else_is() -> None:
    request = request_json(
        pci_requests=[{"count": 1, "spec": [{"vendor_id": "8086"}]}, {"count": 1, "spec": [{"vendor_id": "10de"}]}],
        consume=True,
    )
    (result,) = answered([host("a", pci_pools=[POOL])], [request], ["ComputeFilter"])
    assert [pool["count"] for pool in result["consumed"]["pci_pools"]] == [1]
    assert [result["consumed"][key] for key in ("vcpus_used", "num_instances", "num_io_ops")] == [1, 1, 1]


def test_cells_without_page_sizes_count_the_guest() -> None:
    need = SIZE | {"extra_specs": {"hw:numa_nodes": "1"}}
    (result,) = answered([host("a", numa=[CELL])], [request_json(flavor=need, consume=True)], ["NUMATopologyFilter"])
    (cell,) = result["consumed"]["numa"]
    assert (cell["cpu_usage"], cell["memory_usage"]) == (1, 512)


def test_the_winners_image_is_on_the_host_but_once() -> None:
    image = {"os_type": "linux"}
    requests = [request_json(image=image, instance_uuid="vm", consume=True) for _ in range(2)] + [
        request_json(image=image)
    ]
    answers = answered(
        [host("a"), host("b", vcpus=4)],
        requests,
        ["ComputeFilter"],
        **{"filter_scheduler.image_props_weight_multiplier": 1.0},
    )
    raw = [request["weights"]["ImagePropertiesWeigher"]["raw"]["a"] for request in answers]
    assert raw == [0.0, 1.0, 1.0]


def test_a_filter_that_does_not_mind_a_rebuild_is_in_the_chain_and_passes_everybody() -> None:
    rebuilt = request_json(hints={"_nova_check_type": ["rebuild"]})
    (result,) = answered([host("a", disabled=True)], [rebuilt], ["ComputeFilter", "ImagePropertiesFilter"])
    assert result["chain"] == [["ComputeFilter", ["a"]], ["ImagePropertiesFilter", ["a"]]]
    assert result["individual"] == {"ComputeFilter": ["a"], "ImagePropertiesFilter": ["a"]}


def test_a_weigher_that_cannot_weigh_leaves_the_selected() -> None:
    metrics = {"metrics.weight_setting": ["cpu.percent=1"], "metrics.required": True}
    (result,) = answered([host("a"), host("b")], [request_json()], ["ComputeFilter"], **metrics)
    assert result["error"].startswith("ComputeHostMetricNotFound: ")
    assert (result["selected"], result["order"]) == (["a", "b"], [])


def test_what_a_host_supports_is_understood_in_any_spelling() -> None:
    request = request_json(image={"hw_architecture": "x86_64"})
    hosts = [host("a", supported_instances=[["AMD64", "KVM", "hv"]])]
    assert answered(hosts, [request], ["ImagePropertiesFilter"])[0]["selected"] == ["a"]


NUMA_SIZE = SIZE | {"extra_specs": {"hw:numa_nodes": "1"}}
DEVICE = [{"count": 1, "spec": [{"vendor_id": "8086"}]}]


@pytest.mark.parametrize(
    ("wanted", "keys"),
    [
        ({}, set()),
        ({"flavor": NUMA_SIZE}, {"numa_fit", "claims"}),
        ({"pci_requests": DEVICE}, {"pci_ok", "claims"}),
        ({"flavor": NUMA_SIZE, "pci_requests": DEVICE}, {"numa_fit", "pci_ok", "claims"}),
    ],
)
def test_hardware_that_a_request_wants_is_answered_for_each_host(wanted: dict[str, Any], keys: set[str]) -> None:
    hosts = [host("a", numa=[CELL], pci_pools=[POOL]), host("b"), host("c", numa=[CELL])]
    (result,) = answered(hosts, [request_json(**wanted)], ["ComputeFilter"])
    assert result.keys() & {"numa_fit", "pci_ok", "claims"} == keys
    if "numa_fit" in keys:
        fits = {name: fit and [cell["id"] for cell in fit["cells"]] for name, fit in result["numa_fit"].items()}
        assert (fits["a"], fits["b"]) == ([0], None)
    if "pci_ok" in keys:
        assert result["pci_ok"] == {"a": True, "b": False, "c": False}
        assert result["claims"]["a"] == "ok"
        assert result["claims"]["b"].startswith("Insufficient compute resources: ")


def test_a_server_that_consumed_is_a_member_of_its_group_for_later_requests() -> None:
    group = {"policy": "anti-affinity", "uuid": "g"}
    requests = [request_json(id=name, group=group, consume=True) for name in ("first", "second", "third")]
    answers = answered([host("a"), host("b")], requests, ["ServerGroupAntiAffinityFilter"])
    assert [answer["selected"] for answer in answers] == [["a", "b"], ["b"], []]
    assert answers[2]["consumed"] is None
    others = answered(
        [host("a")],
        [*requests[:1], request_json(id="x", group=group | {"uuid": "other"})],
        ["ServerGroupAntiAffinityFilter"],
    )
    assert others[1]["selected"] == ["a"]


def test_an_error_has_novas_name_and_is_that_of_its_cause() -> None:
    wrong = request_json(image={"hw_cpu_policy": "strange"})
    scheduled = request_json(hints={"query": '[">", "$host_ip", "10.0.0.0"]'})
    first, second = answered([host("a", host_ip="10.0.0.1")], [wrong, scheduled], ["JsonFilter"])
    assert first["error"].partition(":")[0] == "ValueError"
    assert second["error"].startswith("TypeError: ")
    assert second["chain"] == []


def test_a_single_host_is_not_weighed_and_several_are_in_order() -> None:
    one, two = (
        answered([host("a"), host("b", memory_mb_used=1024)][:number], [request_json()], ["ComputeFilter"])[0]
        for number in (1, 2)
    )
    assert (one["weights"], one["order"]) == ({}, [["a", 0.0]])
    assert [name for name, _ in two["order"]] == ["a", "b"]
    assert two["weights"]["RAMWeigher"]["raw"] == {"a": 8192.0, "b": 7168.0}


def test_ignored_hosts_end_the_chain_and_forced_ones_skip_it() -> None:
    requests = [request_json(ignore_hosts=["a"]), request_json(force_hosts=["a"]), request_json(force_hosts=["x"])]
    answers = answered([host("a", disabled=True)], requests, ["ComputeFilter", "RamFilter"])
    assert [answer["chain"] for answer in answers] == [[], [], []]
    assert [answer["selected"] for answer in answers] == [[], ["a"], []]
    (refused,) = answered([host("a", disabled=True)], [request_json()], ["ComputeFilter", "RamFilter"])
    assert refused["chain"] == [["ComputeFilter", []]]
