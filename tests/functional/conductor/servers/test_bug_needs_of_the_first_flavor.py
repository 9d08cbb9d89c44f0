"""Unshelve and evacuation asked hosts for the devices, cells and PCI devices of the flavor and image of the server's creation."""

from collections.abc import Mapping

import msgspec
import pytest
from sqlalchemy import update

from minova.db import models
from minova.hardware.guest.features import TPM_TRAITS
from minova.objects.requests.evacuation import EvacuationRequest
from minova.objects.requests.request_spec import RequestSpec
from tests.functional.conductor.actions.kinds.test_shelving import offload, unshelve
from tests.functional.conductor.conductor_harness import FLAVOR, IMAGE, ConductorHarness, new_request

PLAIN: Mapping[str, str] = {}
TPM = {"hw:tpm_version": "2.0", "hw:numa_nodes": "1"}
NEEDED = {TPM_TRAITS["2.0"], TPM_TRAITS["tpm-tis"]}


def resized(harness: ConductorHarness, before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """A server of a flavor with the extra specs `before`, after a confirmed resize."""
    uuid = harness.active(flavor=msgspec.structs.replace(FLAVOR, extra_specs=dict(before)))
    flavor = msgspec.structs.replace(FLAVOR, extra_specs=dict(after))
    with harness.db.write() as session:
        session.execute(update(models.Instance).where(models.Instance.uuid == uuid).values(flavor=flavor))
    harness.scheduler.order = ["b"]
    return uuid


def needs(spec: RequestSpec) -> tuple[set[str], bool]:
    return {*spec.placement.required_traits}, spec.numa_topology is not None


@pytest.mark.parametrize(("before", "after", "wanted"), [(PLAIN, TPM, (NEEDED, True)), (TPM, PLAIN, (set(), False))])
@pytest.mark.parametrize("way", ["unshelve", "evacuate"])
def test_a_resized_server_needs_what_its_present_flavor_names(
    harness: ConductorHarness,
    way: str,
    before: Mapping[str, str],
    after: Mapping[str, str],
    wanted: tuple[set[str], bool],
) -> None:
    if way == "unshelve":
        harness.options["shelved_offload_time"] = 0
        harness.conductor = harness.start("one")
    uuid = resized(harness, before, after)
    if way == "unshelve":
        offload(harness, uuid)
        unshelve(harness, uuid)
    else:
        harness.force_down("a")
        harness.conductor.evacuate_server(new_request(), instance_uuid=uuid, request=EvacuationRequest())
        harness.settle()
    assert needs(harness.scheduler.specs[-1]) == wanted


def test_a_rebuilt_server_needs_what_its_present_image_names(harness: ConductorHarness) -> None:
    uuid = harness.active()
    image = msgspec.structs.replace(IMAGE, properties={"hw_tpm_version": "2.0"})
    with harness.db.write() as session:
        session.execute(update(models.Instance).where(models.Instance.uuid == uuid).values(image=image))
    harness.scheduler.order = ["b"]
    harness.force_down("a")
    harness.conductor.evacuate_server(new_request(), instance_uuid=uuid, request=EvacuationRequest())
    harness.settle()
    assert needs(harness.scheduler.specs[-1]) == (NEEDED, False)
