"""`minova ...` against minova-api itself, over a database and a conductor that writes rows."""

import hashlib
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from minova import errors
from minova.db import models
from minova.objects.catalogue.flavor import LocalDisk
from minova.objects.requests.diagnosis import Diagnosis, FilterStep, LostHost, WeighedHost
from tests.fakes.row_conductor import now
from tests.functional.api.conftest import Cloud
from tests.functional.cli.conftest import Cli, json_output, succeed

CREATE = ("server", "create", "web", "--flavor", "tiny", "--image", "guest")


def finish(cloud: Cloud, **columns: Any) -> Callable[[str], None]:
    """What a conductor and a compute would do after a create: every server becomes so."""

    def after(method: str) -> None:
        if method == "create_servers":
            cloud.db.run(lambda session: session.query(models.Instance).update(columns))  # type: ignore[arg-type]

    return after


def test_a_flavor_with_its_properties(minova: Cli) -> None:
    sizes = ("--ram", "2048", "--vcpus", "2", "--disk", "10", "--ephemeral", "5", "--swap", "512")
    succeed(
        minova("flavor", "create", "big", "--id", "7", *sizes, "--private", "--property", "hw:cpu_policy=dedicated")
    )
    flavor = json_output(minova("flavor", "show", "big", "-f", "json"))
    assert flavor == {
        "id": "7",
        "description": None,
        "name": "big",
        "ram": 2048,
        "disk": 10,
        "ephemeral": 5,
        "swap": 512,
        "vcpus": 2,
        "is_public": False,
        "rxtx_factor": 1.0,
        "properties": {"hw:cpu_policy": "dedicated"},
    }
    assert json_output(minova("flavor", "list", "-f", "json")) == []
    assert [row["Name"] for row in json_output(minova("flavor", "list", "--all", "-f", "json"))] == ["big"]
    succeed(minova("flavor", "delete", "big"))
    assert minova("flavor", "show", "7").code == 1


def test_service_is_deleted_by_its_id(minova: Cli, cloud: Cloud) -> None:
    for key, host in ((1, "hv1"), (2, "hv2")):
        row = models.Service(
            id=key, uuid=str(uuid.uuid4()), host=host, binary="minova-compute", topic="compute", created_at=now()
        )
        cloud.conductor.add(row)
    succeed(minova("service", "delete", "1"))
    assert [row["Host"] for row in json_output(minova("service", "list", "-f", "json"))] == ["hv2"]
    result = minova("service", "delete", "1", "2")
    assert (result.code, "Service 1 was not deleted: Service 1 not found." in result.err) == (1, True)
    assert json_output(minova("service", "list", "-f", "json")) == []


def test_an_image_goes_up_whole(minova: Cli, disk: Path) -> None:
    words = ("--disk-format", "raw", "--property", "hw_disk_bus=virtio", "-f", "json")
    image = json_output(minova("image", "create", "guest", "--file", str(disk), *words))
    assert (image["status"], image["size"]) == ("active", 3_000_000)
    assert image["os_hash_value"] == hashlib.sha256(disk.read_bytes()).hexdigest()
    assert image["properties"] == {"hw_disk_bus": "virtio"}
    assert [row["Name"] for row in json_output(minova("image", "list", "-f", "json"))] == ["guest"]
    succeed(minova("image", "delete", "guest"))
    assert json_output(minova("image", "list", "-f", "json")) == []


def test_more_images_than_a_page_has_without_a_limit(cloud: Cloud, minova: Cli) -> None:
    for number in range(30):
        cloud.make_image(f"image{number}", data=None)
    assert len(json_output(minova("image", "list", "-f", "json"))) == 30


@pytest.mark.parametrize("padding", [0, 5_000_000])
def test_a_corrupt_image_is_refused_and_nothing_is_left(minova: Cli, tmp_path: Path, padding: int) -> None:
    corrupt = tmp_path / "corrupt.qcow2"
    corrupt.write_bytes(b"QFI\xfb" + b"\xff" * 600 + bytes(padding))
    result = minova("image", "create", "bad", "--file", str(corrupt), "--disk-format", "qcow2")
    assert result.code == 1
    assert "Traceback" not in result.err
    assert len(result.err.splitlines()) == 1
    assert json_output(minova("image", "list", "-f", "json")) == []


def test_create_waits_shows_and_deletes(cloud: Cloud, stocked: Cli) -> None:
    cloud.conductor.after = finish(cloud, vm_state="active", task_state=None, host="h1", node="n1", power_state=1)
    server = json_output(stocked(*CREATE, "--property", "a=1", "--wait", "-f", "json"))
    assert (server["status"], server["OS-EXT-SRV-ATTR:host"], server["properties"]) == ("ACTIVE", "h1", {"a": "1"})
    assert server["flavor"].startswith("tiny (")
    (row,) = json_output(stocked("server", "list", "-f", "json"))
    assert (row["Name"], row["Host"], row["Image"], row["Flavor"]) == ("web", "h1", "guest", "tiny")
    cloud.consoles.texts[server["id"]] = "one\ntwo\n"
    assert succeed(stocked("server", "console", "log", "web")).out == "one\ntwo\n"
    succeed(stocked("server", "delete", "web", "--wait"))
    assert json_output(stocked("server", "list", "-f", "json")) == []
    assert "There is no server with the name or ID 'web'" in stocked("server", "show", "web").err


def test_ephemeral_disks_and_swap_of_a_new_server(cloud: Cloud, stocked: Cli) -> None:
    size = ("--ram", "128", "--vcpus", "1", "--disk", "1", "--ephemeral", "3", "--swap", "64")
    succeed(stocked("flavor", "create", "roomy", *size))
    create = ("server", "create", "web", "--flavor", "roomy", "--image", "guest")
    succeed(stocked(*create, "--ephemeral", "size=1,format=ext3", "--swap", "32"))
    assert cloud.conductor.requests[-1].block_device_mapping == (
        LocalDisk(size_mb=1024, guest_format="ext3"),
        LocalDisk(size_mb=32, guest_format="swap"),
    )
    assert "larger than the instance type allows" in stocked(*create, "--ephemeral", "size=4").err
    assert "'large' is not a disk such as size=1,format=ext4" in stocked(*create, "--ephemeral", "large").err


def test_several_at_once(cloud: Cloud, stocked: Cli) -> None:
    cloud.conductor.after = finish(cloud, vm_state="active", task_state=None)
    rows = json_output(stocked(*CREATE, "--max", "12", "--wait", "-f", "json"))
    assert [row["Name"] for row in rows] == [f"web-{number}" for number in range(1, 13)]


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_conductor_away_for_a_moment_makes_the_servers_once(cloud: Cloud, stocked: Cli, when: str) -> None:
    away = [True, True]

    def fail(method: str) -> None:
        if method == "create_servers" and away:
            away.pop()
            raise errors.ServiceUnavailable("No conductor answers.")

    setattr(cloud.conductor, when, fail)
    succeed(stocked(*CREATE))
    assert len(json_output(stocked("server", "list", "-f", "json"))) == 1


def test_a_build_that_fails_tells_the_reason(cloud: Cloud, stocked: Cli) -> None:
    reason = "No valid host was found. 2 hosts: RamFilter removed 2."

    def after(method: str) -> None:
        if method == "create_servers":
            finish(cloud, vm_state="error", task_state=None)(method)
            with cloud.db.read() as session:
                uuid = session.query(models.Instance.uuid).scalar()
            cloud.conductor.add(models.InstanceFault(instance_uuid=uuid, code=500, message=reason, created_at=now()))

    cloud.conductor.after = after
    result = stocked(*CREATE, "--wait")
    assert result.code == 1
    assert reason in result.err.splitlines()[-1]
    assert reason in stocked("server", "show", "web").out


@pytest.mark.parametrize(
    ("name", "message"),
    [("n" * 300, "300 characters"), ("we\x1b[2Jb", "cannot be printed"), ("", "empty"), (" web", "white space")],
)
def test_a_name_that_cannot_be_is_refused_in_one_line(stocked: Cli, name: str, message: str) -> None:
    result = stocked("server", "create", name, *CREATE[3:])
    assert result.code == 1
    assert message in result.err
    assert "\x1b" not in result.err
    assert json_output(stocked("server", "list", "-f", "json")) == []


@pytest.mark.parametrize("name", ["<b>&amp;</b>", "a b.c*d(e", "100%_\\", "äöü"])
def test_odd_names_are_found_again(stocked: Cli, name: str) -> None:
    uuid = json_output(stocked("server", "create", name, *CREATE[3:], "-f", "json"))["id"]
    assert json_output(stocked("server", "show", name, "-f", "json"))["id"] == uuid


def test_names_are_matched_whole(stocked: Cli) -> None:
    for name in ("web", "web-1", "a-web"):
        succeed(stocked("server", "create", name, *CREATE[3:]))
    assert json_output(stocked("server", "show", "web", "-f", "json"))["name"] == "web"
    succeed(stocked(*CREATE))
    result = stocked("server", "delete", "web")
    assert result.code == 1
    assert result.err.startswith("minova: 2 servers have the name 'web'. Say which by ID: ")


def test_why_nothing_was_found_is_explained(cloud: Cloud, stocked: Cli) -> None:
    uuid = json_output(stocked(*CREATE, "-f", "json"))["id"]
    assert "no record of a scheduler's decision" in stocked("server", "explain", "web").err
    lost = LostHost(host="h2", node="n2", reason="free memory 512 MB < requested 2048 MB")
    diagnosis = Diagnosis(
        request_id="req-1",
        instance_uuids=(uuid,),
        hosts=2,
        steps=(FilterStep(name="RamFilter", before=2, after=1, lost=(lost,)),),
        weighed=(WeighedHost(host="h1", node="n1", weight=1.0, weights={"ram": 1.0}),),
        selected=(("h1", "n1"),),
    )
    cloud.conductor.add_diagnosis([uuid], diagnosis, now())
    result = succeed(stocked("server", "explain", "web"))
    assert result.out.startswith("Server web: 2 hosts, chosen: h1 (n1).")
    assert "free memory 512 MB < requested 2048 MB" in result.out
    assert json_output(stocked("server", "explain", "web", "-f", "json"))["steps"][0]["lost"][0]["host"] == "h2"


def test_hypervisors_and_services(cloud: Cloud, minova: Cli) -> None:
    service = {"host": "h1", "binary": "minova-compute", "topic": "compute", "created_at": now()}
    cloud.conductor.add(
        models.Service(uuid="6f1e7fd4-6b1b-4d5e-9d2b-5a1c9d1a0001", **service),
        models.ComputeNode(
            uuid="6f1e7fd4-6b1b-4d5e-9d2b-5a1c9d1a0002",
            host="h1",
            hypervisor_hostname="n1",
            vcpus=8,
            vcpus_used=3,
            memory_mb=1000,
            created_at=now(),
        ),
    )
    (row,) = json_output(minova("hypervisor", "list", "-f", "json"))
    assert (row["Hypervisor Hostname"], row["VCPUs"], row["State"]) == ("n1", {"used": 3, "total": 8}, "down")
    assert json_output(minova("hypervisor", "show", "n1", "-f", "json"))["memory_mb"] == 1000
    assert json_output(minova("hypervisor", "stats", "-f", "json"))["vcpus_used"] == 3
    succeed(minova("service", "set", "h1", "--disable", "--disable-reason", "new fan"))
    (row,) = json_output(minova("service", "list", "--long", "-f", "json"))
    assert (row["Status"], row["State"], row["Disabled Reason"]) == ("disabled", "down", "new fan")
    succeed(minova("service", "set", "h1", "--enable"))
    assert json_output(minova("service", "list", "-f", "json"))[0]["Status"] == "enabled"


def test_names_find_soft_deleted_servers_to_restore_and_to_delete_for_good(stocked: Cli, cloud: Cloud) -> None:
    succeed(stocked(*CREATE))
    uuid = json_output(stocked("server", "show", "web", "-f", "json"))["id"]
    cloud.conductor.edit(uuid, vm_state="soft-delete", task_state=None)
    assert stocked("server", "stop", "web").code == 1
    succeed(stocked("server", "restore", "web"))
    assert cloud.conductor.actions == [(uuid, "restore", {})]
    succeed(stocked(*CREATE))
    succeed(stocked("server", "restore", "web"))  # the other one of this name cannot be restored
    assert [action[0] for action in cloud.conductor.actions] == [uuid, uuid]
    refused = stocked("server", "delete", "--force", "web")
    assert (refused.code, "2 servers have the name" in refused.err) == (1, True)
    succeed(stocked("server", "delete", "web"))
    succeed(stocked("server", "delete", "--force", uuid, "web"))
    assert cloud.conductor.forced == [uuid]
