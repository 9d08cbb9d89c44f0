"""What each weigher makes of three hosts."""

from typing import Any

import numpy as np
import pytest

from minova.objects.catalogue.image_properties import InvalidImageProperty
from minova.objects.hosts.pci import PciDevicePool
from minova.objects.requests.request_spec import Destination
from minova.scheduler.hosts.record import ImageSupport, Metric
from minova.scheduler.weights import Weigher, parts
from minova.scheduler.weights.affinity import ServerGroupSoftAffinityWeigher, ServerGroupSoftAntiAffinityWeigher
from minova.scheduler.weights.build_failure import BuildFailureWeigher
from minova.scheduler.weights.cpu import CPUWeigher
from minova.scheduler.weights.cross_cell import CrossCellWeigher
from minova.scheduler.weights.disk import DiskWeigher
from minova.scheduler.weights.hypervisor_version import HypervisorVersionWeigher
from minova.scheduler.weights.image_properties import ImagePropertiesWeigher
from minova.scheduler.weights.io_ops import IoOpsWeigher
from minova.scheduler.weights.metrics import ComputeHostMetricNotFound, MetricsWeigher
from minova.scheduler.weights.num_instances import NumInstancesWeigher
from minova.scheduler.weights.pci import PCIWeigher
from minova.scheduler.weights.ram import RAMWeigher
from tests.unit.scheduler.hosts import record, table_of
from tests.unit.scheduler.requests import options, per_host, request

Three = list[dict[str, Any]]


def pools(*counts: int) -> dict[str, Any]:
    return {"pci_pools": tuple(PciDevicePool(vendor_id="8086", product_id="1", count=count) for count in counts)}


def metrics(**values: float) -> dict[str, Any]:
    return {"metrics": tuple(Metric(name=name.replace("_", "."), value=value) for name, value in values.items())}


def images(*properties: dict[str, str]) -> dict[str, Any]:
    images_of_host = tuple(tuple(sorted(image_properties.items())) for image_properties in properties)
    return {
        "instances": tuple(f"i{number}" for number in range(len(images_of_host))),
        "instance_images": images_of_host,
    }


MEMBERS: Three = [{"instances": ("a", "b")}, {"instances": ("c", "x")}, {}]
LINUX: Three = [
    images({"os_type": "linux", "hw_boot_menu": "true"}, {"os_type": "Linux"}),
    images({"os_type": "windows"}),
    images({"os_type": "linux", "hw_disk_bus": "virtio"}),
]
MOVE = Destination(cell="c1", allow_cross_cell_move=True)
CELLS: Three = [{"cell_uuid": "c1"}, {"cell_uuid": "c2"}, {"cell_uuid": "c1"}]
CASES: list[tuple[type[Weigher], str, Three, dict[str, Any], dict[str, Any], list[float]]] = [
    (RAMWeigher, "free memory", [{}, {"memory_mb_used": 1024}, {"memory_mb_used": 40000}], {}, {}, [32768, 31744, 0]),
    (CPUWeigher, "free vcpus, lent", [{}, {"vcpus_used": 8}, {"cpu_allocation_ratio": 0.5}], {}, {}, [64, 56, 8]),
    (DiskWeigher, "free disk", [{"free_disk_mb": 5}, {"free_disk_mb": -5}, {"free_disk_mb": 0}], {}, {}, [5, 0, 0]),
    (IoOpsWeigher, "builds", [{"num_io_ops": 2}, {}, {"num_io_ops": 1}], {}, {}, [2, 0, 1]),
    (NumInstancesWeigher, "instances", [{"num_instances": 2}, {}, {"num_instances": 1}], {}, {}, [2, 0, 1]),
    (BuildFailureWeigher, "failures", [{"failed_builds": 3}, {}, {}], {}, {}, [3, 0, 0]),
    (
        HypervisorVersionWeigher,
        "versions",
        [{}, {"image_support": ImageSupport(hypervisor_version=8000000)}, {"image_support": ImageSupport()}],
        {},
        {},
        [7002000, 8000000, 0],
    ),
    (PCIWeigher, "the fewer devices the better", [{}, pools(3, 4), pools(500)], {}, {}, [100, 93, 1]),
    (
        ServerGroupSoftAffinityWeigher,
        "members",
        MEMBERS,
        {"policy": "soft-affinity", "members": ("a", "b", "c")},
        {},
        [2, 1, 0],
    ),
    (ServerGroupSoftAffinityWeigher, "no group", MEMBERS, {}, {}, [0, 0, 0]),
    (
        ServerGroupSoftAffinityWeigher,
        "not its policy",
        MEMBERS,
        {"policy": "affinity", "members": ("a",)},
        {},
        [0, 0, 0],
    ),
    (
        ServerGroupSoftAntiAffinityWeigher,
        "members",
        MEMBERS,
        {"policy": "soft-anti-affinity", "members": ("a", "b", "c")},
        {},
        [-2, -1, 0],
    ),
    (ServerGroupSoftAntiAffinityWeigher, "not its policy", MEMBERS, {"policy": "anti-affinity"}, {}, [0, 0, 0]),
    (CrossCellWeigher, "the server's own cell", CELLS, {"requested_destination": MOVE}, {}, [1, -1, 1]),
    (CrossCellWeigher, "nothing moves", CELLS, {}, {}, [0, 0, 0]),
    (
        CrossCellWeigher,
        "it may not leave its cell",
        CELLS,
        {"requested_destination": Destination(cell="c1")},
        {},
        [0, 0, 0],
    ),
    (ImagePropertiesWeigher, "off", LINUX, {"properties": {"os_type": "linux"}}, {}, [0, 0, 0]),
    (
        ImagePropertiesWeigher,
        "every shared property of every instance",
        LINUX,
        {"properties": {"os_type": "linux", "hw_boot_menu": "yes"}},
        {"image_props_weight_multiplier": 1.0},
        [3, 0, 1],
    ),
    (
        ImagePropertiesWeigher,
        "by ratio, and only those with one",
        LINUX,
        {"properties": {"os_type": "linux", "hw_boot_menu": "yes"}},
        {"image_props_weight_multiplier": 1.0, "image_props_weight_setting": ["os_type=1.5", "os_type=x", "nonsense"]},
        [3.0, 0, 1.5],
    ),
    (
        ImagePropertiesWeigher,
        "an image without properties",
        LINUX,
        {},
        {"image_props_weight_multiplier": 1.0},
        [0, 0, 0],
    ),
    (MetricsWeigher, "no setting", [{}, {}, {}], {}, {}, [0, 0, 0]),
    (
        MetricsWeigher,
        "by ratio; shares count in percent, in whole numbers",
        [
            metrics(cpu_percent=0.5, cpu_frequency=1000),
            metrics(cpu_percent=0.299, cpu_frequency=0),
            metrics(cpu_percent=1, cpu_frequency=1.9),
        ],
        {},
        {"metrics__weight_setting": ["cpu.percent=2.0", "cpu.frequency=0.01", "junk"]},
        [110, 58, 200.01],
    ),
    (
        MetricsWeigher,
        "a metric that is missing and not required",
        [metrics(cpu_frequency=1), {}, metrics(cpu_idle_time=4, cpu_frequency=2)],
        {},
        {"metrics__weight_setting": ["cpu.frequency=1", "cpu.idle.time=-2"], "metrics__required": False},
        [-10000, -10000, -6],
    ),
    (
        MetricsWeigher,
        "its ratio is 0: it does not count",
        [metrics(cpu_frequency=1), metrics(cpu_frequency=3), metrics(cpu_frequency=2)],
        {},
        {"metrics__weight_setting": ["cpu.frequency=1", "cpu.idle.time=0"], "metrics__required": False},
        [1, 3, 2],
    ),
    (
        MetricsWeigher,
        "the multiplier is 0: it does not count",
        [metrics(cpu_frequency=1), {}, metrics(cpu_frequency=2)],
        {},
        {
            "metrics__weight_setting": ["cpu.frequency=1"],
            "metrics__required": False,
            "metrics__weight_multiplier": 0.0,
        },
        [1, 0, 2],
    ),
]


@pytest.mark.parametrize(
    ("cls", "sentence", "hosts", "asked", "set_to", "values"),
    CASES,
    ids=[f"{case[0].__name__}: {case[1]}" for case in CASES],
)
def test_weigher(
    cls: type[Weigher], sentence: str, hosts: Three, asked: dict[str, Any], set_to: dict[str, Any], values: list[float]
) -> None:
    table = table_of(*(record(number, **facts) for number, facts in enumerate(hosts, 1)))
    weigher, spec = cls(options(**set_to)), request(**asked)
    assert per_host(parts(weigher, table, np.arange(3), spec).values, 3) == values
    alone = [float(weigher.weigh(table.host(row), spec)) for row in range(3)]
    assert [max(value, 0.0) if weigher.minval == 0 else value for value in alone] == values


def test_a_metric_that_is_missing_and_required_fails_the_request() -> None:
    table = table_of(record(1, **metrics(cpu_percent=1)), record(2))
    weigher = MetricsWeigher(options(metrics__weight_setting=["cpu.percent=1"]))
    with pytest.raises(ComputeHostMetricNotFound, match=r"Metric cpu.percent could not be found on host2.node2."):
        parts(weigher, table, np.arange(2), request())


def test_hosts_that_were_lost_before_may_lack_a_metric() -> None:
    table = table_of(record(1, **metrics(cpu_percent=1)), record(2), record(3, **metrics(cpu_percent=0)))
    weigher = MetricsWeigher(options(metrics__weight_setting=["cpu.percent=1"]))
    assert per_host(parts(weigher, table, np.array([0, 2]), request()).values, 2) == [100, 0]


def test_the_image_of_an_instance_on_a_lost_host_is_not_looked_at() -> None:
    wrong = images({"hw_rng_model": "x"})
    table = table_of(record(1, **images({"os_type": "linux"})), record(2, **wrong), record(3))
    weigher = ImagePropertiesWeigher(options(image_props_weight_multiplier=1.0))
    spec = request(properties={"os_type": "linux"})
    assert per_host(parts(weigher, table, np.array([0, 2]), spec).values, 2) == [1, 0]
    with pytest.raises(InvalidImageProperty, match="hw_rng_model: 'x' is not valid"):
        parts(weigher, table, np.arange(3), spec)
