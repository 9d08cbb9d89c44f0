"""What a host is told of a build."""

import msgspec
import pytest

from minova.db.servers import instances
from minova.objects.catalogue.flavor import Flavor
from tests.functional.conductor.conductor_harness import FLAVOR, ConductorHarness

WITH_DEVICE = msgspec.structs.replace(FLAVOR, extra_specs={"pci_passthrough:alias": "qat:1"})


@pytest.mark.parametrize("flavor", [FLAVOR, WITH_DEVICE])
def test_a_host_gets_an_instance_as_its_rows_say(harness: ConductorHarness, flavor: Flavor) -> None:
    alias = '{"name": "qat", "vendor_id": "8086", "product_id": "0443"}'
    harness.settings.set_override("alias", [alias], group="pci")
    (uuid,) = harness.create(flavor=flavor)
    with harness.db.read() as session:
        stored = instances.by_uuids(session, [uuid], networks=False)[uuid]
    assert harness.hosts["a"].builds[-1].instance == stored
    assert len(stored.pci_requests) == len(flavor.extra_specs)
