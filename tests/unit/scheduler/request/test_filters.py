"""What a request asks of Placement, by flavor, image, project, zone and options: as Nova's request filters have it."""

from typing import Any

import pytest
from oslo_config import cfg

from minova import conf as configuration
from minova import errors
from minova.objects.catalogue.flavor import Flavor
from minova.objects.catalogue.image import Image
from minova.objects.hosts.numa import InstanceNUMACell, InstanceNUMATopology
from minova.objects.requests import required_traits
from minova.objects.requests.request_spec import PlacementFilter, RequestSpec
from minova.scheduler.hosts.record import AggregateFacts
from minova.scheduler.request.filters import RequestFilterOptions, apply_request_filters, needs_aggregates, options_of

DISABLED = "COMPUTE_STATUS_DISABLED"
PLAIN = {"VCPU": 2, "MEMORY_MB": 1024, "DISK_GB": 10}


def spec(image: dict[str, str] | None = None, disk_format: str = "qcow2", **more: Any) -> RequestSpec:
    extra_specs = more.pop("extra_specs", {})
    flavor = Flavor(flavorid="f", name="f", vcpus=2, memory_mb=1024, root_gb=10, extra_specs=extra_specs)
    of = Image(id="i", disk_format=disk_format, properties=image or {})
    return RequestSpec(flavor=flavor, image=of, project_id="p1", **more)


def aggregate(number: int, **metadata: str) -> AggregateFacts:
    pairs = tuple(sorted((key.replace("__", ":"), value) for key, value in metadata.items()))
    return AggregateFacts(id=number, name=f"a{number}", metadata=pairs, uuid=f"u{number}")


def placed(wanted: RequestSpec, *aggregates: AggregateFacts, **options: bool) -> PlacementFilter:
    return apply_request_filters(wanted, aggregates, RequestFilterOptions(**options)).placement


def test_a_plain_request_asks_for_its_flavor_and_for_no_disabled_host() -> None:
    assert placed(spec()) == PlacementFilter(forbidden_traits=(DISABLED,), resources=PLAIN)


def test_what_was_asked_before_stays() -> None:
    given = PlacementFilter(required_traits=("CUSTOM_A",), member_of=(("x",),), forbidden_aggregates=("y",))
    placement = placed(spec(placement=given, extra_specs={"trait:CUSTOM_B": "required"}))
    assert placement.required_traits == ("CUSTOM_A", "CUSTOM_B")
    assert (placement.member_of, placement.forbidden_aggregates) == ((("x",),), ("y",))


@pytest.mark.parametrize(
    ("sentence", "extra_specs", "image", "required", "forbidden"),
    [
        ("a flavor requires", {"trait:HW_CPU_X86_AVX2": "required"}, {}, ("HW_CPU_X86_AVX2",), ()),
        ("a flavor forbids", {"trait:CUSTOM_SLOW": "forbidden"}, {}, (), ("CUSTOM_SLOW",)),
        ("an image requires", {}, {"trait:CUSTOM_TPM": "required"}, ("CUSTOM_TPM",), ()),
        (
            "both together",
            {"trait:CUSTOM_A": "required"},
            {"trait:CUSTOM_B": "required"},
            ("CUSTOM_A", "CUSTOM_B"),
            (),
        ),
        ("another prefix is none of its business", {"capabilities:trait": "x", "hw:cpu_policy": "shared"}, {}, (), ()),
    ],
)
def test_traits(
    sentence: str, extra_specs: dict[str, str], image: dict[str, str], required: Any, forbidden: Any
) -> None:
    placement = placed(spec(image, extra_specs=extra_specs))
    assert placement.required_traits == required, sentence
    assert placement.forbidden_traits == tuple(sorted((*forbidden, DISABLED))), sentence


@pytest.mark.parametrize(
    ("sentence", "extra_specs", "resources"),
    [
        ("a class of its own is added", {"resources:CUSTOM_GPU": "2"}, {**PLAIN, "CUSTOM_GPU": 2}),
        ("the flavor's number is replaced", {"resources:MEMORY_MB": "64"}, {**PLAIN, "MEMORY_MB": 64}),
        ("nought takes a class away", {"resources:DISK_GB": "0"}, {"VCPU": 2, "MEMORY_MB": 1024}),
        (
            "bare metal: all is taken away but one",
            {"resources:VCPU": "0", "resources:MEMORY_MB": "0", "resources:DISK_GB": "0", "resources:CUSTOM_BM": "1"},
            {"CUSTOM_BM": 1},
        ),
        ("PCPU stands for VCPU", {"resources:PCPU": "2"}, {"PCPU": 2, "MEMORY_MB": 1024, "DISK_GB": 10}),
    ],
)
def test_resources(sentence: str, extra_specs: dict[str, str], resources: dict[str, int]) -> None:
    filtered = apply_request_filters(spec(extra_specs=extra_specs), (), RequestFilterOptions())
    assert filtered.resources == resources, sentence
    assert filtered.fallback is None


@pytest.mark.parametrize(
    ("extra_specs", "image", "named"),
    [
        ({"trait:CUSTOM_A": "maybe"}, {}, "trait:CUSTOM_A='maybe'.*required or forbidden"),
        ({"trait:NO_SUCH": "required"}, {}, "trait:NO_SUCH='required'.*no trait is named 'NO_SUCH'"),
        ({"trait:CUSTOM_lower": "required"}, {}, "trait:CUSTOM_lower"),
        ({"trait:CUSTOM_" + "A" * 255: "required"}, {}, "no trait"),
        ({}, {"trait:CUSTOM_A": "forbidden"}, "trait:CUSTOM_A='forbidden'.*only be required"),
        ({"resources:VCPU": "two"}, {}, "resources:VCPU='two'.*whole number"),
        ({"resources:VCPU": "-1"}, {}, "resources:VCPU='-1'"),
        ({"resources:VCPU": "\u0662"}, {}, "whole number"),
        ({"resources:NO_SUCH": "1"}, {}, "no resource class is named 'NO_SUCH'"),
        ({"resources1:VCPU": "1"}, {}, "resources1:VCPU='1'.*numbered groups"),
        ({"trait_nic:CUSTOM_A": "required"}, {}, "trait_nic:CUSTOM_A"),
    ],
)
def test_what_cannot_be_is_named(extra_specs: dict[str, str], image: dict[str, str], named: str) -> None:
    wrong = spec(image, extra_specs=extra_specs)
    with pytest.raises(errors.BadRequest, match=named):
        apply_request_filters(wrong, (), RequestFilterOptions())
    with pytest.raises(errors.BadRequest, match=named):
        required_traits.check(wrong.flavor, wrong.image)


TENANTS = (
    aggregate(1, filter_tenant_id="p1"),
    aggregate(2, filter_tenant_id2="p1", filter_tenant_id="p2"),
    aggregate(3, filter_tenant_id="p3"),
    aggregate(4, owner="p1"),
)


@pytest.mark.parametrize(
    ("sentence", "project", "options", "member_of"),
    [
        ("off, no project is limited", "p1", {}, ()),
        ("the project's aggregates, by any key that begins so", "p1", {"limit": True}, (("u1", "u2"),)),
        ("one that is named nowhere goes anywhere", "p9", {"limit": True}, ()),
        ("required, but off", "p9", {"required": True}, ()),
        ("required, and named", "p3", {"limit": True, "required": True}, (("u3",),)),
    ],
)
def test_tenant_aggregates(sentence: str, project: str, options: dict[str, bool], member_of: Any) -> None:
    names = {"limit": "limit_tenants_to_placement_aggregate", "required": "placement_aggregate_required_for_tenants"}
    query_options = RequestFilterOptions(**{names[name]: value for name, value in options.items()})
    request_spec = RequestSpec(flavor=spec().flavor, project_id=project)
    assert apply_request_filters(request_spec, TENANTS, query_options).placement.member_of == member_of, sentence


def test_a_project_without_an_aggregate_may_be_refused_all_hosts() -> None:
    with pytest.raises(errors.NoValidHost, match="No hosts available for tenant p1"):
        placed(
            spec(),
            TENANTS[2],
            limit_tenants_to_placement_aggregate=True,
            placement_aggregate_required_for_tenants=True,
        )


@pytest.mark.parametrize(
    ("sentence", "zone", "member_of"),
    [
        ("no zone asked for", None, ()),
        ("every aggregate of the zone will do", "z1", (("u1", "u2"),)),
        ("a zone of no aggregate is left to the filter", "nova", ()),
    ],
)
def test_zone_aggregates(sentence: str, zone: str | None, member_of: Any) -> None:
    zones = [aggregate(n, availability_zone=name) for n, name in ((1, "z1"), (2, "z1"), (3, "z2"))]
    assert placed(spec(availability_zone=zone), *zones).member_of == member_of, sentence


def test_project_and_zone_must_both_be_met() -> None:
    both = (aggregate(1, filter_tenant_id="p1"), aggregate(2, availability_zone="z1"))
    placement = placed(spec(availability_zone="z1"), *both, limit_tenants_to_placement_aggregate=True)
    assert placement.member_of == (("u1",), ("u2",))


ISOLATED = (
    aggregate(1, trait__CUSTOM_WINDOWS="required"),
    aggregate(2, trait__CUSTOM_WINDOWS="required", trait__CUSTOM_SGX="required"),
    aggregate(3, trait__CUSTOM_WINDOWS="forbidden"),
    aggregate(4, ssd="true"),
)


@pytest.mark.parametrize(
    ("sentence", "extra_specs", "image", "forbidden"),
    [
        ("who requires nothing stays out of both", {}, {}, ("u1", "u2")),
        ("a flavor's trait opens one", {"trait:CUSTOM_WINDOWS": "required"}, {}, ("u2",)),
        ("an image's too", {}, {"trait:CUSTOM_WINDOWS": "required"}, ("u2",)),
        ("both", {"trait:CUSTOM_WINDOWS": "required"}, {"trait:CUSTOM_SGX": "required"}, ()),
        ("to forbid is not to require", {"trait:CUSTOM_WINDOWS": "forbidden"}, {}, ("u1", "u2")),
    ],
)
def test_isolated_aggregates(
    sentence: str, extra_specs: dict[str, str], image: dict[str, str], forbidden: tuple[str, ...]
) -> None:
    request = spec(image, extra_specs=extra_specs)
    placement = placed(request, *ISOLATED, enable_isolated_aggregate_filtering=True)
    assert placement.forbidden_aggregates == forbidden, sentence
    assert placed(request, *ISOLATED).forbidden_aggregates == ()


@pytest.mark.parametrize(
    ("sentence", "disk_format", "on", "required"),
    [
        ("off", "qcow2", False, ()),
        ("on", "qcow2", True, ("COMPUTE_IMAGE_TYPE_QCOW2",)),
        ("a format that no trait names asks for nothing", "iso9660", True, ()),
    ],
)
def test_image_types(sentence: str, disk_format: str, on: bool, required: Any) -> None:
    request = spec(disk_format=disk_format)
    assert placed(request, query_placement_for_image_type_support=on).required_traits == required, sentence


@pytest.mark.parametrize(
    ("sentence", "image", "required"),
    [
        ("a bus", {"hw_disk_bus": "scsi"}, ("COMPUTE_STORAGE_BUS_SCSI",)),
        (
            "several, with a dash",
            {"hw_vif_model": "e1000e", "hw_cdrom_bus": "virtio", "hw_architecture": "x86-64"},
            ("COMPUTE_NET_VIF_MODEL_E1000E", "COMPUTE_STORAGE_BUS_VIRTIO", "HW_ARCH_X86_64"),
        ),
        ("one that no trait names: none of them", {"hw_vif_model": "strange", "hw_disk_bus": "scsi"}, ()),
        ("another property", {"hw_rng_model": "virtio"}, ()),
    ],
)
def test_image_metadata(sentence: str, image: dict[str, str], required: Any) -> None:
    assert placed(spec(image), image_metadata_prefilter=True).required_traits == required, sentence
    assert placed(spec(image)).required_traits == ()


def pinned(*cells: InstanceNUMACell, emulator: str | None = None, **more: Any) -> RequestSpec:
    return spec(numa_topology=InstanceNUMATopology(cells=cells, emulator_threads_policy=emulator), **more)


def cell(shared: int = 0, dedicated: int = 0, threads: str | None = None) -> InstanceNUMACell:
    cpus = range(shared + dedicated)
    return InstanceNUMACell(
        id=0,
        memory=1024,
        cpuset=frozenset(cpus[:shared]),
        pcpuset=frozenset(cpus[shared:]),
        cpu_thread_policy=threads,
    )


OTHERS = {"MEMORY_MB": 1024, "DISK_GB": 10}


@pytest.mark.parametrize(
    ("sentence", "wanted", "first", "second"),
    [
        ("shared CPUs on NUMA nodes are VCPU", pinned(cell(2)), {"VCPU": 2}, None),
        ("pinned CPUs are PCPU, or VCPU", pinned(cell(0, 1), cell(0, 1)), {"PCPU": 2}, {"VCPU": 2}),
        ("emulator threads take one more", pinned(cell(0, 2), emulator="isolate"), {"PCPU": 3}, {"VCPU": 2}),
        ("or share", pinned(cell(0, 2), emulator="share"), {"PCPU": 2}, {"VCPU": 2}),
        ("mixed has both kinds, and no second choice", pinned(cell(1, 1)), {"PCPU": 1, "VCPU": 1}, None),
    ],
)
def test_pinned_cpus(sentence: str, wanted: RequestSpec, first: Any, second: Any) -> None:
    filtered = apply_request_filters(wanted, (), RequestFilterOptions())
    assert filtered.placement.resources == {**first, **OTHERS}, sentence
    assert (filtered.fallback and filtered.fallback.resources) == (second and {**second, **OTHERS}), sentence


def test_the_second_choice_can_be_switched_off() -> None:
    assert (
        apply_request_filters(pinned(cell(0, 2)), (), RequestFilterOptions(disable_fallback_pcpu_query=True)).fallback
        is None
    )


@pytest.mark.parametrize(
    ("threads", "required", "forbidden"),
    [
        ("require", ("HW_CPU_HYPERTHREADING",), (DISABLED,)),
        ("isolate", (), (DISABLED, "HW_CPU_HYPERTHREADING")),
        ("prefer", (), (DISABLED,)),
        (None, (), (DISABLED,)),
    ],
)
def test_a_thread_policy_is_a_trait_of_the_first_choice_alone(
    threads: str | None, required: Any, forbidden: Any
) -> None:
    filtered = apply_request_filters(pinned(cell(0, 2, threads)), (), RequestFilterOptions())
    assert (filtered.placement.required_traits, filtered.placement.forbidden_traits) == (required, forbidden)
    assert filtered.fallback is not None
    assert (filtered.fallback.required_traits, filtered.fallback.forbidden_traits) == ((), (DISABLED,))


def test_a_thread_policy_of_shared_cpus_asks_for_nothing() -> None:
    placement = apply_request_filters(pinned(cell(2, threads="require")), (), RequestFilterOptions()).placement
    assert placement.required_traits == ()


@pytest.mark.parametrize(
    ("zone", "options", "needed"),
    [
        (None, RequestFilterOptions(), False),
        ("z1", RequestFilterOptions(), True),
        (None, RequestFilterOptions(limit_tenants_to_placement_aggregate=True), True),
        (None, RequestFilterOptions(enable_isolated_aggregate_filtering=True), True),
        (None, RequestFilterOptions(image_metadata_prefilter=True), False),
    ],
)
def test_aggregates_are_read_only_where_a_filter_looks(
    zone: str | None, options: RequestFilterOptions, needed: bool
) -> None:
    assert needs_aggregates(spec(availability_zone=zone), options) is needed


def test_options_come_from_the_configuration() -> None:
    conf: cfg.ConfigOpts = configuration.new()
    conf([], project="minova", default_config_files=[])
    assert options_of(conf) == RequestFilterOptions()
    for name in RequestFilterOptions._fields:
        conf.set_override(name, True, group="scheduler" if name in conf.scheduler else "workarounds")
    assert options_of(conf) == RequestFilterOptions(*[True] * len(RequestFilterOptions._fields))
