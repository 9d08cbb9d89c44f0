"""Request specs in versioned notifications, compared with the samples of Nova's package."""

from datetime import UTC, datetime

from minova.objects.catalogue.flavor import Flavor
from minova.objects.catalogue.image import Image
from minova.objects.catalogue.instance_group import InstanceGroup
from minova.objects.hosts.numa import InstanceNUMACell, InstanceNUMATopology
from minova.objects.hosts.pci import InstancePCIRequest
from minova.objects.requests.request_spec import RequestSpec
from minova.objects.requests.versioned_payloads import request_spec
from tests.conformance.notification_samples import require_payload

UUID = "d5e6a7b7-80e5-4166-85a3-cd6115201082"
FLAVOR = Flavor(flavorid="1", name="m1", vcpus=2, memory_mb=512, root_gb=1, extra_specs={"hw:numa_nodes": "1"})


def test_a_request_for_all_that_there_is_has_the_fields_of_the_samples() -> None:
    spec = RequestSpec(
        flavor=FLAVOR,
        image=Image(
            id=UUID,
            name="guest",
            properties={"hw_architecture": "x86_64"},
            created_at=datetime(2026, 1, 2, 3, tzinfo=UTC),
        ),
        project_id="p",
        user_id="u",
        force_hosts=("a", "b"),
        scheduler_hints={"group": UUID, "different_host": ["x", "y"]},
        instance_group=InstanceGroup(uuid=UUID, policy="anti-affinity", max_server_per_host=3),
        numa_topology=InstanceNUMATopology(
            cells=(InstanceNUMACell(id=0, cpuset=frozenset({1, 0}), memory=512, cpu_pinning=((0, 7),)),)
        ),
        pci_requests=(InstancePCIRequest(count=1, spec=((("vendor_id", "8086"),),), alias_name="nic"),),
    )
    payload = request_spec(spec, UUID)
    require_payload(payload)
    data = payload["nova_object.data"]
    assert (data["instance_uuid"], data["force_hosts"], data["num_instances"]) == (UUID, "a", 1)
    assert data["scheduler_hints"] == {"group": [UUID], "different_host": ["x", "y"]}
    assert data["image"]["nova_object.data"]["created_at"] == "2026-01-02T03:00:00Z"
    assert data["instance_group"]["nova_object.data"]["rules"] == {"max_server_per_host": "3"}
    (cell,) = data["numa_topology"]["nova_object.data"]["cells"]
    assert (cell["nova_object.data"]["cpuset"], cell["nova_object.data"]["cpu_pinning_raw"]) == ([0, 1], {"0": 7})
    (request,) = data["pci_requests"]["nova_object.data"]["requests"]
    assert request["nova_object.data"]["spec"] == [{"vendor_id": "8086"}]


def test_a_plain_request_has_the_fields_of_the_samples() -> None:
    payload = request_spec(RequestSpec(flavor=FLAVOR), UUID)
    require_payload(payload)
    assert payload["nova_object.data"]["image"] is None
