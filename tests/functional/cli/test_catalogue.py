"""`minova flavor|image|hypervisor|service ...` against an API that keeps books."""

import json
import os
from pathlib import Path

import pytest

from minova.cli.commands.image import QCOW2_MAGIC
from tests.fakes.api_server import ApiServer
from tests.functional.cli.conftest import Cli

# -- flavors


def test_flavor_create_with_all_its_sizes(api: ApiServer, cli: Cli) -> None:
    sizes = ("--ram", "2048", "--vcpus", "2", "--disk", "10", "--ephemeral", "5", "--swap", "512")
    result = cli("flavor", "create", "big", "--id", "7", *sizes, "--property", "hw:cpu_policy=dedicated", "-f", "json")
    assert result.code == 0, result.err
    assert json.loads(result.out) == {
        "id": "7",
        "description": None,
        "name": "big",
        "ram": 2048,
        "disk": 10,
        "ephemeral": 5,
        "swap": 512,
        "vcpus": 2,
        "is_public": True,
        "rxtx_factor": 1.0,
        "properties": {"hw:cpu_policy": "dedicated"},
    }


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--ram", "0"), "0 is below 1"),
        (("--ram", "-5"), "-5 is below 1"),
        (("--vcpus", "0"), "0 is below 1"),
        (("--disk", "-1"), "-1 is below 0"),
        (("--swap", "1.5"), "'1.5' is not a whole number"),
        (("--property", "x"), "'x' is not KEY=VALUE"),
    ],
)
def test_a_flavor_of_zero_or_negative_size_is_wrong_usage(
    api: ApiServer, cli: Cli, words: tuple[str, ...], message: str
) -> None:
    result = cli("flavor", "create", "bad", *words)
    assert result.code == 2
    assert message in result.err
    assert not api.flavors


def test_a_flavor_name_that_is_taken_is_the_apis_error(api: ApiServer, cli: Cli) -> None:
    api.add_flavor("taken")
    result = cli("flavor", "create", "taken")
    assert (result.code, result.err) == (1, "minova: Flavor with name taken already exists.\n")


def test_flavor_list_hides_private_ones_and_find_does_not(api: ApiServer, cli: Cli) -> None:
    api.add_flavor("open", "1")
    api.add_flavor("secret", "2", **{"os-flavor-access:is_public": False})
    assert cli("flavor", "list", "-f", "value", "-c", "Name").out.split() == ["open"]
    assert cli("flavor", "list", "--all", "-f", "value", "-c", "Name").out.split() == ["open", "secret"]
    assert json.loads(cli("flavor", "show", "secret", "-f", "json").out)["id"] == "2"


def test_an_id_wins_over_another_flavors_name(api: ApiServer, cli: Cli) -> None:
    api.add_flavor("2", "1")
    api.add_flavor("other", "2")
    assert json.loads(cli("flavor", "show", "2", "-f", "json").out)["name"] == "other"


def test_flavor_delete_with_one_unknown_deletes_none(api: ApiServer, cli: Cli) -> None:
    api.add_flavor("one", "1")
    api.add_flavor("two", "2")
    assert cli("flavor", "delete", "one", "three").code == 1
    assert len(api.flavors) == 2
    assert cli("flavor", "delete", "one", "2").code == 0
    assert not api.flavors


# -- images


@pytest.fixture
def qcow2(tmp_path: Path) -> Path:
    path = tmp_path / "guest.qcow2"
    path.write_bytes(QCOW2_MAGIC + os.urandom(300_000))
    return path


def test_image_create_uploads_the_bytes_and_shows_the_image(api: ApiServer, cli: Cli, qcow2: Path) -> None:
    more = ("--min-disk", "1", "--min-ram", "64", "--property", "hw_machine_type=q35")
    result = cli("image", "create", "guest", "--file", str(qcow2), "--disk-format", "qcow2", *more, "-f", "json")
    assert result.code == 0, result.err
    shown = json.loads(result.out)
    assert (shown["name"], shown["status"], shown["size"]) == ("guest", "active", 300_004)
    assert (shown["min_disk"], shown["min_ram"]) == (1, 64)
    assert shown["properties"] == {"hw_machine_type": "q35"}
    assert list(api.bytes.values()) == [qcow2.read_bytes()]


def _missing(folder: Path) -> Path:
    return folder / "missing"


def _folder(folder: Path) -> Path:
    return folder


def _empty(folder: Path) -> Path:
    (folder / "empty").touch()
    return folder / "empty"


def _pipe(folder: Path) -> Path:
    os.mkfifo(folder / "pipe")
    return folder / "pipe"


def _text(folder: Path) -> Path:
    (folder / "text").write_text("not a disk")
    return folder / "text"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (_missing, "No such file or directory"),
        (_folder, "it is a folder"),
        (_empty, "it is empty"),
        (_pipe, "it is not a regular file"),
        (_text, "it is not a qcow2 image. If it is a plain disk, say --disk-format raw."),
    ],
)
def test_a_file_that_is_no_image_is_told_before_anything_is_created(  # type: ignore[no-untyped-def]
    api: ApiServer, cli: Cli, tmp_path: Path, make, message: str
) -> None:
    path = make(tmp_path)
    result = cli("image", "create", "guest", "--file", str(path), "--disk-format", "qcow2")
    assert result.code == 1
    assert message in result.err
    assert str(path) in result.err
    assert not api.requests


def test_a_qcow2_file_is_not_uploaded_as_raw(api: ApiServer, cli: Cli, qcow2: Path) -> None:
    result = cli("image", "create", "guest", "--file", str(qcow2), "--disk-format", "raw")
    assert result.code == 1
    assert "say --disk-format qcow2" in result.err
    assert not api.requests


@pytest.mark.parametrize("fault", ["refused", "lost", "busy"])
def test_a_failed_upload_deletes_the_record(api: ApiServer, cli: Cli, qcow2: Path, fault: str) -> None:
    if fault == "refused":
        qcow2.write_bytes(QCOW2_MAGIC + b"CORRUPT")
    else:
        api.order(fault, method="PUT")
    result = cli("image", "create", "guest", "--file", str(qcow2), "--disk-format", "qcow2")
    assert result.code == 1
    words = {"refused": "bad header", "lost": "connection to minova", "busy": "queue is full"}
    assert words[fault] in result.err
    assert not api.images


def test_a_store_that_is_full_says_so_in_the_middle_of_an_upload(api: ApiServer, cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "big.raw"
    with path.open("wb") as big:
        big.truncate(50 << 20)
    image = api.add_image("before")
    api.order("ok", "full", method="EARLY")
    result = cli("image", "create", "big", "--file", str(path), "--disk-format", "raw")
    assert result.code == 1
    assert "The image store is full." in result.err
    assert list(api.images) == [image["id"]]


def test_image_list_show_and_delete(api: ApiServer, cli: Cli) -> None:
    image, _two = api.add_image("one", owner="admin", hw_disk_bus="virtio"), api.add_image("two")
    assert cli("image", "list", "-f", "value", "-c", "Name").out.split() == ["one", "two"]
    assert cli("image", "list", "--long").code == 0
    shown = json.loads(cli("image", "show", image["id"], "-f", "json").out)
    assert (shown["owner"], shown["properties"]) == ("admin", {"hw_disk_bus": "virtio"})
    assert cli("image", "delete", "one", "three").code == 1
    assert cli("image", "delete", "one", "two").code == 0
    assert not api.images


# -- hypervisors and services

HYPERVISOR = {
    "id": 1,
    "hypervisor_hostname": "node1",
    "hypervisor_type": "QEMU",
    "hypervisor_version": 7002000,
    "host_ip": "10.0.0.1",
    "state": "up",
    "status": "enabled",
    "vcpus": 8,
    "vcpus_used": 3,
    "memory_mb": 16000,
    "memory_mb_used": 4608,
    "free_ram_mb": 11392,
    "local_gb": 100,
    "local_gb_used": 20,
    "free_disk_gb": 80,
    "disk_available_least": 70,
    "running_vms": 2,
    "current_workload": 0,
    "cpu_info": '{"arch": "x86_64"}',
    "service": {"id": 5, "host": "host1", "disabled_reason": None},
}


@pytest.fixture
def hypervisors(api: ApiServer) -> None:
    api.hypervisors = [HYPERVISOR, {**HYPERVISOR, "id": 2, "hypervisor_hostname": "node2"}]


@pytest.mark.usefixtures("hypervisors")
def test_hypervisors_with_their_usage(cli: Cli) -> None:
    result = cli("hypervisor", "list")
    assert "| 3/8 " in result.out
    assert "| 4608/16000 " in result.out
    assert "node2" not in cli("hypervisor", "list", "--matching", "node1").out
    shown = json.loads(cli("hypervisor", "show", "node2", "-f", "json").out)
    assert (shown["id"], shown["vcpus_used"], shown["service_host"]) == (2, 3, "host1")
    assert shown["cpu_info"] == {"arch": "x86_64"}
    assert json.loads(cli("hypervisor", "stats", "-f", "json").out)["vcpus"] == 16
    assert "There is no hypervisor with the name or ID 'node3'" in cli("hypervisor", "show", "node3").err


def test_a_hypervisor_by_the_host_of_its_service(cli: Cli, api: ApiServer) -> None:
    other = {**HYPERVISOR, "id": 2, "hypervisor_hostname": "node2", "service": {"id": 6, "host": "host2"}}
    api.hypervisors = [HYPERVISOR, other]
    assert json.loads(cli("hypervisor", "show", "host2", "-f", "json").out)["hypervisor_hostname"] == "node2"
    other["service"] = HYPERVISOR["service"]
    assert "2 hypervisors have the name 'host1'" in cli("hypervisor", "show", "host1").err


@pytest.fixture
def services(api: ApiServer) -> None:
    for number, binary in enumerate(("minova-conductor", "minova-compute")):
        api.services.append(
            {
                "id": number,
                "binary": binary,
                "host": "host1",
                "zone": "nova",
                "status": "enabled",
                "state": "up",
                "updated_at": "2026-01-01T00:00:00.000000",
                "disabled_reason": None,
                "forced_down": False,
            }
        )


@pytest.mark.usefixtures("services")
def test_a_service_is_disabled_with_a_reason_and_enabled_again(cli: Cli) -> None:
    def rows() -> list[list[str]]:
        out = cli("service", "list", "--long", "-f", "json").out
        return [[row["Binary"], row["Status"], row["Disabled Reason"]] for row in json.loads(out)]

    conductor = ["minova-conductor", "enabled", None]
    assert cli("service", "set", "host1", "--disable", "--disable-reason", "new fan").code == 0
    assert rows() == [conductor, ["minova-compute", "disabled", "new fan"]]
    assert cli("service", "set", "host1", "minova-compute", "--enable").code == 0
    assert rows() == [conductor, ["minova-compute", "enabled", None]]
    assert "minova-conductor" not in cli("service", "list", "--service", "minova-compute").out


@pytest.mark.usefixtures("services")
def test_a_service_in_doubt_is_neither_up_nor_down(cli: Cli, api: ApiServer) -> None:
    api.services[1]["in_doubt"] = True
    rows = json.loads(cli("service", "list", "-f", "json").out)
    assert [(row["Binary"], row["State"]) for row in rows] == [
        ("minova-conductor", "up"),
        ("minova-compute", "in doubt"),
    ]


@pytest.mark.usefixtures("services")
@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("host9", "--disable"), 1, "There is no minova-compute on host 'host9'"),
        (("host1", "--enable", "--disable-reason", "x"), 2, "goes with --disable"),
        (("host1",), 2, "Say what is to be set: --enable, --disable, --down or --up"),
    ],
)
def test_bad_service_set(cli: Cli, words: tuple[str, ...], code: int, message: str) -> None:
    result = cli("service", "set", *words)
    assert result.code == code
    assert message in result.err
