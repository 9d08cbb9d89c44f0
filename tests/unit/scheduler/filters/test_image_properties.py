"""ImagePropertiesFilter, beside what tests/unit/scheduler/test_filters.py says of it; MetricsFilter; rebuilds."""

import pytest

from minova import errors
from minova.scheduler.extensions import load_filters
from minova.scheduler.filters.image_properties import ImagePropertiesFilter, version_text
from minova.scheduler.filters.metrics import MetricsFilter
from minova.scheduler.hosts.record import ImageSupport, Metric
from tests.unit.scheduler.filters.cases import Case, check, each, error_of
from tests.unit.scheduler.requests import options, request


def version(number: int) -> dict[str, object]:
    triples = (("x86_64", "kvm", "hvm"),)
    return {"image_support": ImageSupport(hypervisor_version=number, supported_instances=triples)}


def needs(required: str) -> dict[str, object]:
    return {"properties": {"img_hv_type": "KVM", "hypervisor_version_requires": required}}


def machine(name: str, **properties: str) -> dict[str, object]:
    return {"properties": {"hw_machine_type": name, **properties}}


MACHINES = {
    "image_support": ImageSupport(supported_instances=(("x86_64", "kvm", "hvm"), ("i686", "kvm", "hvm"))),
    "cpu_info": '{"arch": "x86_64", "machine_types": {"x86_64": ["pc", "q35"], "i686": ["pc"]}}',
}
NARROW = {**version(0), "cpu_info": '{"maxphysaddr": {"bits": 42}}'}
WIDE = {"properties": {"img_hv_type": "kvm", "hw_maxphysaddr_bits": "46"}}
SETTING = {"metrics__weight_setting": ["cpu.percent=1.0", "cpu.frequency=0", "junk", "=3", "x=one"]}


@each(
    [
        Case(
            ImagePropertiesFilter, "an older name of the property", None, version(0), {"properties": {"vm_mode": "HV"}}
        ),
        Case(ImagePropertiesFilter, "a machine type that the host lists", None, MACHINES, machine("q35")),
        Case(ImagePropertiesFilter, "a machine type of a host that lists none", None, version(0), machine("q36")),
        Case(
            ImagePropertiesFilter,
            "a machine type that the host does not list",
            "image needs machine type q36, host has no such machine for x86_64",
            MACHINES,
            machine("q36"),
        ),
        Case(
            ImagePropertiesFilter,
            "a machine type of another architecture",
            "image needs machine type q35, host has no such machine for i686",
            MACHINES,
            machine("q35", hw_architecture="i686"),
        ),
        Case(ImagePropertiesFilter, "a version in range", None, version(8002001), needs(">=8.2,<9")),
        Case(
            ImagePropertiesFilter,
            "a version out of range",
            "hypervisor version 9.0.0, image needs >=8.2,<9",
            version(9000000),
            needs(">=8.2,<9"),
        ),
        Case(
            ImagePropertiesFilter,
            "9.0 is 9.0.0",
            "hypervisor version 9.0.0, image needs !=9.0",
            version(9000000),
            needs("!=9.0"),
        ),
        Case(ImagePropertiesFilter, "a host that does not tell its version", None, version(0), needs(">=8.2")),
        Case(
            ImagePropertiesFilter,
            "narrow addresses",
            "physical addresses of 42 bits, image needs 46",
            NARROW,
            WIDE,
        ),
        Case(ImagePropertiesFilter, "a host that does not tell their width", None, version(0), WIDE),
        Case(
            ImagePropertiesFilter,
            "the default architecture",
            "image needs aarch64, host supports x86_64, kvm, hvm",
            version(0),
            options={"image_properties_default_architecture": "aarch64"},
        ),
        Case(
            ImagePropertiesFilter,
            "the image's own goes before it",
            None,
            version(0),
            {"properties": {"architecture": "amd64"}},
            {"image_properties_default_architecture": "aarch64"},
        ),
        Case(MetricsFilter, "nothing to weigh", None),
        Case(
            MetricsFilter,
            "every metric is there",
            None,
            {"metrics": (Metric(name="cpu.percent"), Metric(name="cpu.frequency"))},
            options=SETTING,
        ),
        Case(
            MetricsFilter,
            "a metric is missing, though its ratio is 0",
            "no metric cpu.frequency",
            {"metrics": (Metric(name="cpu.percent", value=0.5),)},
            options=SETTING,
        ),
    ]
)
def test_images_and_metrics(case: Case) -> None:
    check(case)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hw_architecture", "x86"),
        ("architecture", "vax"),
        ("vm_mode", "paravirtual"),
        ("hypervisor_type", "esx"),
        ("img_hv_requested_version", ">=old"),
        ("img_hv_requested_version", "8.2"),
        ("hw_disk_bus", "VIRTIO"),
        ("hw_cpu_policy", "free"),
        ("hw_video_ram", "much"),
        ("os_type", "beos"),
        ("hw_numa_mem.0", "lots"),
    ],
)
def test_a_property_that_cannot_be_is_named(name: str, value: str) -> None:
    error = error_of(Case(ImagePropertiesFilter, "", "", asked={"properties": {name: value}}))
    assert isinstance(error, errors.BadRequest)
    assert getattr(error, "nova_name", "") == "ValueError"
    assert f"{value!r} is not valid" in str(error)


def test_an_option_that_is_no_architecture_is_named() -> None:
    with pytest.raises(
        errors.InvalidConfiguration, match="image_properties_default_architecture: 'x86' is none of aarch64"
    ):
        ImagePropertiesFilter(options(image_properties_default_architecture="x86"))


@pytest.mark.parametrize(("number", "text"), [(8002001, "8.2.1"), (2000, "2.0"), (999, "999"), (12_000_000, "12.0.0")])
def test_version_text(number: int, text: str) -> None:
    assert version_text(number) == text


@pytest.mark.parametrize("hint", ["rebuild", ["rebuild"]])
def test_a_rebuild_is_judged_by_filters_of_images_alone(hint: object) -> None:
    names = [
        "ImagePropertiesFilter",
        "IsolatedHostsFilter",
        "AggregateImagePropertiesIsolation",
        "RamFilter",
        "JsonFilter",
    ]
    filters = load_filters(options(enabled_filters=names))
    spec = request(hints={"_nova_check_type": hint})
    assert [host_filter.name for host_filter in filters if host_filter.applies_to(spec)] == names[:3]
    assert [host_filter.name for host_filter in filters if host_filter.applies_to(request())] == names
