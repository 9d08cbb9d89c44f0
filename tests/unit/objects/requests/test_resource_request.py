"""One answer to what an instance takes: the scheduler's choices, and nothing else, satisfy an audit."""

from typing import Any

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from minova import errors
from minova.hardware.numa_constraints import numa_constraints
from minova.objects.catalogue.flavor import Flavor
from minova.objects.requests.request_spec import RequestSpec
from minova.objects.requests.resource_request import claimed_as, resource_alternatives
from minova.placement.audit.judge import (
    AuditedConsumer,
    AuditedInstance,
    FindingKind,
    Holding,
    Offer,
    judge,
    known_alternatives,
)
from minova.scheduler.request.filters import RequestFilterOptions, apply_request_filters

SIZE = {"MEMORY_MB": 512, "DISK_GB": 1}


def flavor(vcpus: int = 4, **extra_specs: str) -> Flavor:
    specs = {key.replace("__", ":"): value for key, value in extra_specs.items()}
    return Flavor(flavorid="f", name="f", vcpus=vcpus, memory_mb=512, root_gb=1, extra_specs=specs)


def alternatives(wanted: Flavor, **image: str) -> tuple[dict[str, int], ...]:
    return resource_alternatives(wanted, numa_constraints(wanted, image))


@pytest.mark.parametrize(
    ("wanted", "image", "expected"),
    [
        (flavor(), {}, ({"VCPU": 4, **SIZE},)),
        (flavor(hw__numa_nodes="2"), {}, ({"VCPU": 4, **SIZE},)),
        (flavor(hw__cpu_policy="dedicated"), {}, ({"PCPU": 4, **SIZE}, {"VCPU": 4, **SIZE})),
        (flavor(), {"hw_cpu_policy": "dedicated"}, ({"PCPU": 4, **SIZE}, {"VCPU": 4, **SIZE})),
        (
            flavor(hw__cpu_policy="dedicated", hw__emulator_threads_policy="isolate"),
            {},
            ({"PCPU": 5, **SIZE}, {"VCPU": 4, **SIZE}),
        ),
        (flavor(hw__cpu_policy="mixed", hw__cpu_dedicated_mask="1-3"), {}, ({"PCPU": 3, "VCPU": 1, **SIZE},)),
        (flavor(resources__PCPU="4"), {}, ({"PCPU": 4, **SIZE},)),
        (flavor(resources__VGPU="1", resources__DISK_GB="0"), {}, ({"VCPU": 4, "MEMORY_MB": 512, "VGPU": 1},)),
        (
            flavor(hw__mem_encryption="yes"),
            {"hw_firmware_type": "uefi"},
            ({"VCPU": 4, "MEM_ENCRYPTION_CONTEXT": 1, **SIZE},),
        ),
        (flavor(hw__mem_encryption="no"), {}, ({"VCPU": 4, **SIZE},)),
        (flavor(pci_passthrough__alias="nic:1"), {}, ({"VCPU": 4, **SIZE},)),
    ],
)
def test_what_an_instance_takes(wanted: Flavor, image: dict[str, str], expected: Any) -> None:
    assert alternatives(wanted, **image) == expected


def test_a_malformed_flavor_is_refused_and_judged_by_no_audit() -> None:
    wrong = flavor(resources__NO_CLASS="1")
    with pytest.raises(errors.BadRequest, match="NO_CLASS"):
        resource_alternatives(wrong, None)
    assert known_alternatives(wrong, None) == ()


def test_a_guest_that_an_earlier_release_built_with_plain_memory_holds_no_context() -> None:
    encrypted_flavor = flavor(hw__mem_encryption="true")
    right = known_alternatives(encrypted_flavor, None)
    assert claimed_as({"VCPU": 4, **SIZE}, right)
    assert claimed_as({"VCPU": 4, "MEM_ENCRYPTION_CONTEXT": 1, **SIZE}, right)
    assert not claimed_as({"VCPU": 4, "MEM_ENCRYPTION_CONTEXT": 2, **SIZE}, right)


CPU_SPECS = [
    {},
    {"hw:numa_nodes": "2"},
    {"hw:cpu_policy": "dedicated"},
    {"hw:cpu_policy": "dedicated", "hw:numa_nodes": "2", "hw:emulator_threads_policy": "isolate"},
    {"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "^0"},
    {"hw:cpu_policy": "dedicated", "hw:cpu_thread_policy": "require"},
    {"resources:PCPU": "4"},
    {"resources:VCPU": "2"},
]
OTHER_SPECS = st.fixed_dictionaries(
    {},
    optional={
        "resources:VGPU": st.sampled_from(["0", "1", "2"]),
        "resources:DISK_GB": st.sampled_from(["0", "7"]),
        "resources:MEMORY_MB": st.just("100"),
        "resources:CUSTOM_LICENCE": st.just("1"),
        "pci_passthrough:alias": st.just("nic:1"),
    },
)
FLAVORS = st.builds(
    lambda cpus, others: Flavor(
        flavorid="f", name="f", vcpus=4, memory_mb=512, root_gb=1, extra_specs={**cpus, **others}
    ),
    st.sampled_from(CPU_SPECS),
    OTHER_SPECS,
)


def spec_of(wanted: Flavor) -> RequestSpec:
    spec = RequestSpec(flavor=wanted, numa_topology=numa_constraints(wanted, {}))
    return apply_request_filters(spec, (), RequestFilterOptions())


def instance_of(wanted: Flavor, **tree: dict[str, int]) -> AuditedInstance:
    return AuditedInstance(
        host="a",
        node="a",
        state="active",
        holds_resources=True,
        provider_uuid="a",
        provider_name="a",
        alternatives=known_alternatives(wanted, numa_constraints(wanted, {})),
        tree=[Offer(provider_uuid=name, free=free) for name, free in tree.items()],
    )


def holding(provider: str, resources: dict[str, int]) -> Holding:
    return Holding(provider_uuid=provider, provider_name=provider, root_uuid="a", of_node=True, resources=resources)


def audit_of(instance: AuditedInstance, *holdings: Holding) -> Any:
    return judge(AuditedConsumer(uuid="i", holdings=holdings, instance=instance, busy=False))


@given(wanted=FLAVORS, more=st.sampled_from([{}, {"CUSTOM_BANDWIDTH": 5}]))
def test_an_audit_accepts_whatever_the_scheduler_may_claim(wanted: Flavor, more: dict[str, int]) -> None:
    spec = spec_of(wanted)
    choices = [spec.resources, *([spec.fallback.resources] if spec.fallback is not None else [])]
    for claimed in choices:
        assert claimed is not None
        assert audit_of(instance_of(wanted), holding("a", {**claimed, **more})) is None


@given(wanted=FLAVORS, wrong=st.dictionaries(st.sampled_from(["VCPU", "PCPU", "DISK_GB", "VGPU"]), st.integers(0, 9)))
def test_what_it_heals_is_right_afterwards_and_touches_nothing_else(wanted: Flavor, wrong: dict[str, int]) -> None:
    spec = spec_of(wanted)
    instance = instance_of(wanted, a=dict.fromkeys(("VCPU", "PCPU", "MEMORY_MB", "DISK_GB"), 99), gpu={"VGPU": 99})
    held = {name: amount for name, amount in {**spec.resources, **wrong, "CUSTOM_OTHER": 3}.items() if amount}
    verdict = audit_of(instance, holding("a", held))
    assume(verdict is not None)
    assert verdict.finding.kind is FindingKind.WRONG_AMOUNT
    healed = verdict.allocations
    assert healed["a"]["CUSTOM_OTHER"] == 3
    total = {name: amount for resources in healed.values() for name, amount in resources.items()}
    assert claimed_as(total, instance.alternatives)
    assert audit_of(instance, *(holding(name, dict(resources)) for name, resources in healed.items())) is None
    changed = {name for name in {*held, *total} if held.get(name, 0) != total.get(name, 0)}
    needed = min(
        len(
            {name for name in {*held, *alternative} - {"CUSTOM_OTHER"} if held.get(name, 0) != alternative.get(name, 0)}
            & named
        )
        for alternative in instance.alternatives
        for named in [{name for each in instance.alternatives for name in each}]
    )
    assert len(changed) == needed


def test_a_class_that_is_missing_comes_from_the_provider_that_offers_it() -> None:
    gpu_flavor = flavor(resources__VGPU="1")
    instance = instance_of(gpu_flavor, a={"VCPU": 9}, gpu0={"VGPU": 1}, gpu1={"VGPU": 2})
    verdict = audit_of(instance, holding("a", {"VCPU": 4, **SIZE}))
    assert verdict.allocations == {"a": {"VCPU": 4, **SIZE}, "gpu1": {"VGPU": 1}}


@pytest.mark.parametrize(("free", "expected"), [({"PCPU": 4}, "PCPU"), ({"PCPU": 3, "VCPU": 4}, "VCPU"), ({}, "PCPU")])
def test_an_instance_that_holds_nothing_gets_the_alternative_for_which_there_is_room(
    free: dict[str, int], expected: str
) -> None:
    instance = instance_of(flavor(hw__cpu_policy="dedicated"), a={**free, "MEMORY_MB": 9999, "DISK_GB": 9})
    assert audit_of(instance).allocations == {"a": {expected: 4, **SIZE}}


def test_a_fitted_topology_takes_what_the_requested_one_did() -> None:
    isolated_flavor = flavor(hw__cpu_policy="dedicated", hw__emulator_threads_policy="isolate")
    requested = numa_constraints(isolated_flavor, {})
    assert requested is not None
    (cell,) = requested.cells
    fitted = msgspec.structs.replace(
        cell, id=7, cpu_pinning=tuple((cpu, cpu + 8) for cpu in range(4)), cpuset_reserved=frozenset({12})
    )
    assert resource_alternatives(isolated_flavor, msgspec.structs.replace(requested, cells=(fitted,))) == alternatives(
        isolated_flavor
    )
