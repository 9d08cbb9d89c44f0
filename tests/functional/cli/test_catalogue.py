"""`minova flavor|image|hypervisor|service ...`."""

import os
import subprocess
from pathlib import Path

import pytest

from minova.cli.commands.image import QCOW2_MAGIC
from tests.fakes.faulty_api import FaultyApi
from tests.functional.api.conftest import Cloud
from tests.functional.cli.conftest import Cli, json_output
from tests.functional.cli.hosts import add_node, add_service


@pytest.fixture
def cli_of_nothing(cli_without_api: Cli) -> Cli:
    """Of an API that does not listen: a request would end the command with another error."""
    return lambda *words: cli_without_api("--url", "http://127.0.0.1:1", *words)


# -- flavors


def test_flavor_create_with_all_its_sizes(minova: Cli) -> None:
    sizes = ("--ram", "2048", "--vcpus", "2", "--disk", "10", "--ephemeral", "5", "--swap", "512")
    words = ("--id", "7", *sizes, "--property", "hw:cpu_policy=dedicated", "-f", "json")
    assert json_output(minova("flavor", "create", "big", *words)) == {
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
    cli_of_nothing: Cli, words: tuple[str, ...], message: str
) -> None:
    result = cli_of_nothing("flavor", "create", "bad", *words)
    assert result.code == 2
    assert message in result.err


def test_a_flavor_name_that_is_taken_is_the_apis_error(cloud: Cloud, minova: Cli) -> None:
    cloud.make_flavor("taken")
    result = minova("flavor", "create", "taken", "--id", "7")
    assert (result.code, result.err) == (1, "minova: Flavor with name 'taken' or id '7' exists already\n")


def test_flavor_list_hides_private_ones_and_find_does_not(cloud: Cloud, minova: Cli) -> None:
    cloud.make_flavor("open", id="1")
    cloud.make_flavor("secret", id="2", **{"os-flavor-access:is_public": False})
    assert minova("flavor", "list", "-f", "value", "-c", "Name").out.split() == ["open"]
    assert minova("flavor", "list", "--all", "-f", "value", "-c", "Name").out.split() == ["open", "secret"]
    assert json_output(minova("flavor", "show", "secret", "-f", "json"))["id"] == "2"


def test_an_id_wins_over_another_flavors_name(cloud: Cloud, minova: Cli) -> None:
    cloud.make_flavor("2", id="1")
    cloud.make_flavor("other", id="2")
    assert json_output(minova("flavor", "show", "2", "-f", "json"))["name"] == "other"


def test_flavor_delete_with_one_unknown_deletes_none(cloud: Cloud, minova: Cli) -> None:
    def names() -> list[str]:
        return [flavor["name"] for flavor in cloud.get("/v2.1/flavors")["flavors"]]

    cloud.make_flavor("one", id="1")
    cloud.make_flavor("two", id="2")
    assert minova("flavor", "delete", "one", "three").code == 1
    assert names() == ["one", "two"]
    assert minova("flavor", "delete", "one", "2").code == 0
    assert names() == []


# -- images


@pytest.fixture
def qcow2(tmp_path: Path) -> Path:
    path = tmp_path / "guest.qcow2"
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", path, "1M"], check=True)
    return path


def test_image_create_uploads_the_bytes_and_shows_the_image(cloud: Cloud, minova: Cli, qcow2: Path) -> None:
    more = ("--min-disk", "1", "--min-ram", "64", "--property", "hw_machine_type=q35", "-f", "json")
    shown = json_output(minova("image", "create", "guest", "--file", str(qcow2), "--disk-format", "qcow2", *more))
    assert (shown["name"], shown["status"], shown["size"]) == ("guest", "active", qcow2.stat().st_size)
    assert (shown["min_disk"], shown["min_ram"]) == (1, 64)
    assert shown["properties"] == {"hw_machine_type": "q35"}
    assert (cloud.images / shown["id"]).read_bytes() == qcow2.read_bytes()


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
    cli_of_nothing: Cli, tmp_path: Path, make, message: str
) -> None:
    path = make(tmp_path)
    result = cli_of_nothing("image", "create", "guest", "--file", str(path), "--disk-format", "qcow2")
    assert result.code == 1
    assert message in result.err
    assert str(path) in result.err


def test_a_qcow2_file_is_not_uploaded_as_raw(cli_of_nothing: Cli, qcow2: Path) -> None:
    result = cli_of_nothing("image", "create", "guest", "--file", str(qcow2), "--disk-format", "raw")
    assert result.code == 1
    assert "say --disk-format qcow2" in result.err


@pytest.mark.parametrize("fault", ["refused", "lost", "busy"])
def test_a_failed_upload_deletes_the_record(
    cloud: Cloud, faulty_api: FaultyApi, faulty_cli: Cli, qcow2: Path, fault: str
) -> None:
    if fault == "refused":
        qcow2.write_bytes(QCOW2_MAGIC + b"CORRUPT")
    else:
        faulty_api.order(fault, method="PUT")
    result = faulty_cli("image", "create", "guest", "--file", str(qcow2), "--disk-format", "qcow2")
    assert result.code == 1
    words = {
        "refused": "declared as qcow2, but the file is raw",
        "lost": "connection to minova",
        "busy": "queue is full",
    }
    assert words[fault] in result.err
    assert cloud.get("/v2/images")["images"] == []


def test_a_store_that_is_full_says_so_in_the_middle_of_an_upload(
    cloud: Cloud, faulty_api: FaultyApi, faulty_cli: Cli, tmp_path: Path
) -> None:
    path = tmp_path / "big.raw"
    with path.open("wb") as big:
        big.truncate(50 << 20)
    image = cloud.make_image("before", data=None)
    faulty_api.order("ok", "full", method="EARLY")
    result = faulty_cli("image", "create", "big", "--file", str(path), "--disk-format", "raw")
    assert result.code == 1
    assert "The image store is full." in result.err
    assert [each["id"] for each in cloud.get("/v2/images")["images"]] == [image["id"]]


def test_image_list_show_and_delete(cloud: Cloud, minova: Cli) -> None:
    image, _two = cloud.make_image("one", data=None, hw_disk_bus="virtio"), cloud.make_image("two", data=None)
    assert sorted(minova("image", "list", "-f", "value", "-c", "Name").out.split()) == ["one", "two"]
    assert minova("image", "list", "--long").code == 0
    shown = json_output(minova("image", "show", image["id"], "-f", "json"))
    assert (shown["owner"], shown["properties"]) == ("admin", {"hw_disk_bus": "virtio"})
    assert minova("image", "delete", "one", "three").code == 1
    assert len(cloud.get("/v2/images")["images"]) == 2
    assert minova("image", "delete", "one", "two").code == 0
    assert cloud.get("/v2/images")["images"] == []


# -- hypervisors and services


@pytest.fixture
def hosts(cloud: Cloud) -> Cloud:
    """Two hosts of one node each, and a conductor."""
    for number in (1, 2):
        add_service(cloud, number, f"host{number}")
        add_node(cloud, number, f"host{number}", f"node{number}")
    add_service(cloud, 3, "host1", "minova-conductor")
    return cloud


@pytest.mark.usefixtures("hosts")
def test_hypervisors_with_their_usage(minova: Cli) -> None:
    result = minova("hypervisor", "list")
    assert "| 3/8 " in result.out
    assert "| 4608/16000 " in result.out
    assert "node2" not in minova("hypervisor", "list", "--matching", "node1").out
    shown = json_output(minova("hypervisor", "show", "node2", "-f", "json"))
    assert (shown["vcpus_used"], shown["service_host"]) == (3, "host2")
    assert shown["cpu_info"] == {"arch": "x86_64"}
    assert json_output(minova("hypervisor", "stats", "-f", "json"))["vcpus"] == 16
    assert "There is no hypervisor with the name or ID 'node3'" in minova("hypervisor", "show", "node3").err


def test_a_hypervisor_by_the_host_of_its_service(minova: Cli, hosts: Cloud) -> None:
    assert json_output(minova("hypervisor", "show", "host2", "-f", "json"))["hypervisor_hostname"] == "node2"
    add_node(hosts, 3, "host1", "node3")
    assert "2 hypervisors have the name 'host1'" in minova("hypervisor", "show", "host1").err


@pytest.mark.usefixtures("hosts")
def test_a_service_is_disabled_with_a_reason_and_enabled_again(minova: Cli) -> None:
    def rows() -> list[list[str]]:
        services = json_output(minova("service", "list", "--host", "host1", "--long", "-f", "json"))
        return sorted([row["Binary"], row["Status"], row["Disabled Reason"]] for row in services)

    conductor = ["minova-conductor", "enabled", None]
    assert minova("service", "set", "host1", "--disable", "--disable-reason", "new fan").code == 0
    assert rows() == [["minova-compute", "disabled", "new fan"], conductor]
    assert minova("service", "set", "host1", "minova-compute", "--enable").code == 0
    assert rows() == [["minova-compute", "enabled", None], conductor]
    assert "minova-conductor" not in minova("service", "list", "--service", "minova-compute").out


def test_a_service_in_doubt_is_neither_up_nor_down(minova: Cli, cloud: Cloud) -> None:
    """Computes that fell silent together are in doubt."""
    add_service(cloud, 1, "host1", "minova-conductor")
    for number in range(2, 22):
        add_service(cloud, number, f"host{number}", silent=90)
    rows = json_output(minova("service", "list", "-f", "json"))
    assert {(row["Binary"], row["State"]) for row in rows} == {
        ("minova-conductor", "up"),
        ("minova-compute", "in doubt"),
    }


@pytest.mark.usefixtures("hosts")
@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("host9", "--disable"), 1, "There is no minova-compute on host 'host9'"),
        (("host1", "--enable", "--disable-reason", "x"), 2, "goes with --disable"),
        (("host1",), 2, "Say what is to be set: --enable, --disable, --down or --up"),
    ],
)
def test_bad_service_set(minova: Cli, words: tuple[str, ...], code: int, message: str) -> None:
    result = minova("service", "set", *words)
    assert result.code == code
    assert message in result.err
