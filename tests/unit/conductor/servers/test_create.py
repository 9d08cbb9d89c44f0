import msgspec
import pytest

from minova.conductor.servers.create import hostname_of, instance_row, spec_of
from minova.hardware.demands import host_needs
from minova.hardware.guest.features import FlavorAndImage
from minova.objects.requests.server_request import HostNeeds
from tests.functional.conductor.conductor_harness import CTX, IMAGE, request

UUID = "0f5f9d1c-0000-4000-8000-000000000001"


@pytest.mark.parametrize(
    ("name", "suffix", "hostname"),
    [
        ("web", "", "web"),
        ("Web Server #1", "", "web-server-1"),
        ("web.example.org", "", "web-example-org"),
        ("--web--", "", "web"),
        ("web", "-3", "web-3"),
        ("x" * 300, "", "x" * 63),
        ("x" * 300, "-12", "x" * 60 + "-12"),
        ("ünïcode", "", "n-code"),
        ("日本", "", f"Server-{UUID}"),
        ("", "", f"Server-{UUID}"),
    ],
)
def test_a_hostname_is_what_dns_takes_of_the_name(name: str, suffix: str, hostname: str) -> None:
    assert hostname_of(name, UUID, suffix) == hostname


def test_one_server_bears_the_name_and_many_are_numbered() -> None:
    assert instance_row(CTX, request(1), "r-1", UUID, 0)["display_name"] == "web"
    assert instance_row(CTX, request(2), "r-1", UUID, 1)["display_name"] == "web-2"


def test_the_spec_says_what_was_asked() -> None:
    spec = spec_of(CTX, request(3, force_host="a", availability_zone="z", scheduler_hints={"group": "g"}))
    assert (spec.num_instances, spec.force_hosts, spec.force_nodes) == (3, ("a",), ())
    assert (spec.availability_zone, spec.project_id, spec.scheduler_hints) == ("z", "demo", {"group": "g"})


def test_the_conductor_takes_the_needs_that_the_api_has_derived() -> None:
    needs = HostNeeds(required_traits=("CUSTOM_FROM_THE_API",))
    assert spec_of(CTX, request(needs=needs)).placement.required_traits == needs.required_traits


def test_a_request_of_an_older_api_gets_the_same_spec() -> None:
    image = msgspec.structs.replace(IMAGE, properties={"hw_disk_bus": "scsi", "hw_numa_nodes": "1"})
    older = request(image=image)
    newer = msgspec.structs.replace(older, needs=host_needs(FlavorAndImage(older.flavor, image), []))
    assert spec_of(CTX, older) == spec_of(CTX, newer)
    assert spec_of(CTX, older).numa_topology is not None


def test_a_conductor_of_an_older_release_ignores_the_needs() -> None:
    class OlderRequest(msgspec.Struct, frozen=True, kw_only=True):
        name: str
        max_count: int = 1

    sent = msgspec.to_builtins(request(2, needs=HostNeeds(required_traits=("CUSTOM_A",))))
    assert msgspec.convert(sent, OlderRequest) == OlderRequest(name="web", max_count=2)
