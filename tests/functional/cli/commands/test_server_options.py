"""Options of `minova server ...` as OpenStack's client has them: what the API is asked."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.fakes.faulty_api import FaultyApi
from tests.functional.api.conftest import Cloud
from tests.functional.cli import conftest
from tests.functional.cli.conftest import Cli, CommandResult
from tests.functional.cli.servers import add_server, server_names

CREATE = ("server", "create", "web", "--flavor", "roomy")
BLANK = {"source_type": "blank", "destination_type": "local", "boot_index": -1, "delete_on_termination": True}


@pytest.fixture(autouse=True)
def catalogue(cloud: Cloud) -> None:
    cloud.with_catalogue()
    cloud.make_flavor("roomy", **{"OS-FLV-EXT-DATA:ephemeral": 20, "swap": 64})
    for name in ("a", "b"):
        assert cloud.ask("POST", "/network/v2.0/security-groups", {"security_group": {"name": name}})[0] == 201


# What the API does not serve, or has nothing for here, and how it says so.
REFUSED = {
    ("--auto-network",): "Unable to automatically allocate a network",
    ("--nic", "auto"): "Unable to automatically allocate a network",
    ("--trusted-image-cert", "c1"): "Not served yet: trusted_image_certificates.",
    (
        "--block-device",
        "source_type=blank,boot_index=2,delete_on_termination=no",
        "--swap",
        "8",
    ): "Invalid input for field block_device_mapping_v2.delete_on_termination. Value: False.",
    (
        "--block-device",
        "source_type=image,uuid=abc,boot_index=0",
    ): "Not served: block_device_mapping_v2. There is no volume service",
    ("--preserve-ephemeral",): "The current driver does not support preserving ephemeral partitions.",
    ("--trusted-image-cert=c",): "unknown field `trusted_image_certificates`",
}


def sent(api: FaultyApi, method: str = "POST") -> Any:
    """The body of the last request of this method."""
    return [body for done, _, body in api.requests if done == method][-1]


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [
        (("--no-network",), "networks", "none"),
        (("--auto-network",), "networks", "auto"),
        (("--nic", "none"), "networks", "none"),
        (("--nic", "auto"), "networks", "auto"),
        (("--no-security-group",), "security_groups", []),
        (("--security-group", "a", "--security-group", "b"), "security_groups", [{"name": "a"}, {"name": "b"}]),
        (("--use-config-drive",), "config_drive", True),
        (("--config-drive",), "config_drive", True),
        (("--no-config-drive",), "config_drive", False),
        (("--trusted-image-cert", "c1"), "trusted_image_certificates", ["c1"]),
        (
            ("--block-device", "volume_size=5,guest_format=ext3,disk_bus=scsi"),
            "block_device_mapping_v2",
            [{**BLANK, "volume_size": 5, "guest_format": "ext3", "disk_bus": "scsi"}],
        ),
        (
            ("--block-device", "source_type=blank,boot_index=2,delete_on_termination=no", "--swap", "8"),
            "block_device_mapping_v2",
            [
                {**BLANK, "boot_index": 2, "delete_on_termination": False},
                {**BLANK, "guest_format": "swap", "volume_size": 8},
            ],
        ),
        (
            ("--block-device", "source_type=image,uuid=abc,boot_index=0"),
            "block_device_mapping_v2",
            [
                {
                    "source_type": "image",
                    "destination_type": "local",
                    "boot_index": 0,
                    "uuid": "abc",
                    "delete_on_termination": True,
                }
            ],
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_create_says_it(
    cloud: Cloud, faulty_api: FaultyApi, faulty_cli: Cli, words: tuple[str, ...], field: str, value: Any
) -> None:
    result = faulty_cli(*CREATE, "--image", "guest", *words)
    assert sent(faulty_api)["server"][field] == value
    reason = REFUSED.get(words)
    assert (result.code, server_names(cloud)) == ((0, ["web"]) if reason is None else (1, [])), result.err
    assert reason is None or reason in result.err


def test_without_the_options_nothing_is_said(faulty_api: FaultyApi, faulty_cli: Cli) -> None:
    conftest.succeed(faulty_cli(*CREATE, "--image", "guest"))
    assert sent(faulty_api)["server"].keys() == {"name", "flavorRef", "imageRef", "metadata", "min_count", "max_count"}


def test_a_server_for_a_shell(cloud: Cloud, faulty_cli: Cli) -> None:
    shown = conftest.succeed(
        faulty_cli(*CREATE, "--image", "guest", "-f", "shell", "-c", "name", "--prefix", "my_")
    ).out
    assert shown == 'my_name="web"\n'
    several = faulty_cli(*CREATE, "--image", "guest", "-f", "shell", "--max", "2")
    assert (several.code, "-f shell is for one server" in several.err) == (2, True)
    assert server_names(cloud) == ["web"]


def test_a_block_device_of_a_file(faulty_api: FaultyApi, faulty_cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "disk.json"
    file.write_text('{"source_type": "blank", "volume_size": 3}')
    conftest.succeed(faulty_cli(*CREATE, "--image", "guest", "--block-device", str(file)))
    assert sent(faulty_api)["server"]["block_device_mapping_v2"] == [{**BLANK, "volume_size": 3}]


def test_create_from_the_only_image_with_properties(cloud: Cloud, faulty_api: FaultyApi, faulty_cli: Cli) -> None:
    guest = cloud.make_image("debian", hw_disk_bus="virtio", os_distro="debian")["id"]
    cloud.make_image("other", hw_disk_bus="virtio")
    conftest.succeed(
        faulty_cli(*CREATE, "--image-property", "hw_disk_bus=virtio", "--image-property", "os_distro=debian")
    )
    assert sent(faulty_api)["server"]["imageRef"] == guest
    several = faulty_cli(*CREATE, "--image-property", "hw_disk_bus=virtio")
    assert (several.code, "2 images have hw_disk_bus=virtio: " in several.err) == (1, True)
    none = faulty_cli(*CREATE, "--image-property", "hw_disk_bus=virtio", "--image-property", "os_distro=arch")
    assert (none.code, "No image has hw_disk_bus=virtio, os_distro=arch." in none.err) == (1, True)
    assert server_names(cloud) == ["web"]


BAD = {
    "no source": ((), "one of the arguments --image --image-property --volume --snapshot is required"),
    "two sources": (("--image", "a", "--image-property", "b=c"), "not allowed with argument"),
    "a volume": (("--volume", "v"), "--volume: minova has no volumes: a server boots from an image"),
    "a snapshot": (("--snapshot", "v"), "--snapshot: minova has no volumes"),
    "a new volume": (("--image", "guest", "--boot-from-volume", "5"), "--boot-from-volume: minova has no volumes"),
    "its end": (("--image", "guest", "--delete-on-termination"), "--delete-on-termination: minova has no volumes"),
    "a mapping": (("--image", "guest", "--block-device-mapping", "vdb=x"), "minova has no volumes"),
    "a volume device": (("--image", "guest", "--block-device", "source_type=volume,uuid=x"), "minova has no volumes"),
    "an image on a volume": (
        ("--image", "guest", "--block-device", "source_type=image,uuid=x,destination_type=volume"),
        "minova has no volumes",
    ),
    "a key": (("--image", "guest", "--block-device", "size=5"), "there is no key 'size'; there are uuid, source_type"),
    "a source": (("--image", "guest", "--block-device", "source_type=tape"), "source_type is one of image, snapshot"),
    "two words": (("--image", "guest", "--nic", "none", "--nic", "auto"), "has no other --network, --port or --nic"),
    "a word and a port": (("--image", "guest", "--no-network", "--port", "p"), "networks 'none' has no other"),
    "a nic": (("--image", "guest", "--nic", "net-id=a,port-id=b"), "is not an interface such as"),
    "two addresses": (
        ("--image", "guest", "--nic", "net-id=a,v4-fixed-ip=192.0.2.1,v6-fixed-ip=2001:db8::1"),
        "is not an interface such as",
    ),
    "an empty tag": (("--image", "guest", "--nic", "net-id=a,tag="), "is not an interface such as"),
    "groups and none": (("--image", "guest", "--security-group", "a", "--no-security-group"), "not allowed with"),
    "drive and none": (("--image", "guest", "--config-drive", "--no-config-drive"), "not allowed with argument"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_is_refused_and_nothing_is_made(cloud: Cloud, faulty_cli: Cli, case: str) -> None:
    words, message = BAD[case]
    result = faulty_cli(*CREATE, *words)
    assert result.code == 2
    assert message in result.err
    assert server_names(cloud) == []


def test_a_block_device_file_that_is_none(faulty_api: FaultyApi, faulty_cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "disk.json"
    for text, message in (("{", "Cannot read the block device"), ("[]", "is not an object of keys and values")):
        file.write_text(text)
        result = faulty_cli(*CREATE, "--image", "guest", "--block-device", str(file))
        assert (result.code, message in result.err) == (2, True)


# -- list --------------------------------------------------------------------------------------------------------------

FILTERS = {
    ("--status", "shutoff"): {"status": "SHUTOFF"},
    ("--name", "^w"): {"name": "^w"},
    ("--ip", "^10"): {"ip": "^10"},
    ("--ip6", "::1"): {"ip6": "::1"},
    ("--host", "h"): {"host": "h"},
    ("--reservation-id", "r-1"): {"reservation_id": "r-1"},
    ("--availability-zone", "z"): {"availability_zone": "z"},
    ("--key-name", "k"): {"key_name": "k"},
    ("--config-drive",): {"config_drive": "True"},
    ("--no-config-drive",): {"config_drive": "False"},
    ("--progress", "0"): {"progress": "0"},
    ("--vm-state", "stopped"): {"vm_state": "stopped"},
    ("--task-state", "spawning"): {"task_state": "spawning"},
    ("--power-state", "pending"): {"power_state": "0"},
    ("--power-state", "running"): {"power_state": "1"},
    ("--changes-since", "2026-01-01"): {"changes-since": "2026-01-01"},
    ("--changes-before", "2026-01-01"): {"changes-before": "2026-01-01"},
    ("--locked",): {"locked": "True"},
    ("--unlocked",): {"locked": "False"},
    ("--tags", "a", "--tags", "b"): {"tags": "a,b"},
    ("--not-tags", "a", "--not-tags", "b"): {"not-tags": "a,b"},
    ("--flavor", "tiny"): {"flavor": "FLAVOR"},
    ("--project", "p"): {"project_id": "p", "all_tenants": "1"},
    ("--user", "u"): {"user_id": "u"},
    ("--all-projects",): {"all_tenants": "1"},
    ("--deleted",): {"deleted": "True"},
    ("--max-items", "7"): {"limit": "7"},
    (): {},
}


@pytest.mark.parametrize("words", FILTERS, ids=" ".join)
def test_list_asks_for_what_is_wanted(
    cloud: Cloud, faulty_api: FaultyApi, faulty_cli: Cli, words: tuple[str, ...]
) -> None:
    conftest.succeed(faulty_cli("server", "list", *words))
    (path,) = [path for _, path, _ in faulty_api.requests if path.startswith("/v2.1/servers/detail")]
    query = {key: values[0] for key, values in parse_qs(urlsplit(path).query).items()}
    asked = {key: value.replace("FLAVOR", cloud.server["flavorRef"]) for key, value in FILTERS[words].items()}
    assert query == {"limit": "1000"} | asked


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--progress", "101"), "'101' is not a number from 0 to 100"),
        (("--power-state", "on"), "invalid choice: 'on'"),
        (("--locked", "--unlocked"), "not allowed with argument"),
        (("--config-drive", "--no-config-drive"), "not allowed with argument"),
        (("-n", "--name-lookup-one-by-one"), "not allowed with argument"),
        (("--project", "p", "--project-domain", "d"), "--project-domain is for clouds with Keystone"),
    ],
    ids=" ".join,
)
def test_list_refuses_what_cannot_be(faulty_cli: Cli, words: tuple[str, ...], message: str) -> None:
    result = faulty_cli("server", "list", *words)
    assert (result.code, message in result.err) == (2, True), result.err


def names(result: CommandResult) -> list[str]:
    return conftest.succeed(result).out.split()


def test_names_on_hosts_are_filtered_here_and_the_limit_counts_what_is_left(cloud: Cloud, faulty_cli: Cli) -> None:
    """The name on the host has the ID of the server."""
    ids = [add_server(cloud, f"s{number}") for number in range(6)]
    listed = ("server", "list", "-f", "value", "-c", "Name")
    odd = f"^instance-({'|'.join(ids[1::2])})$"
    assert names(faulty_cli(*listed, "--instance-name", odd, "--limit", "2")) == ["s5", "s3"]
    assert names(faulty_cli(*listed, "--instance-name", "e-7$")) == []
    assert faulty_cli(*listed, "--instance-name", "(").code == 1


def test_names_on_hosts_are_for_administrators(tmp_path: Path, cli_without_api: Cli) -> None:
    (tmp_path / "policy.yaml").write_text('"os_compute_api:os-extended-server-attributes": "!"\n')
    cloud = Cloud(tmp_path / "hidden", policy_file=str(tmp_path / "policy.yaml")).with_catalogue()
    add_server(cloud, "web")
    with FaultyApi(cloud.app) as api:
        refused = cli_without_api("--url", api.url, "server", "list", "--instance-name", "1$")
    cloud.close()
    assert (refused.code, "Only administrators see the names" in refused.err) == (1, True), refused


def test_names_of_images_are_looked_up_as_wanted(cloud: Cloud, faulty_api: FaultyApi, faulty_cli: Cli) -> None:
    image, flavor = cloud.server["imageRef"], cloud.server["flavorRef"]
    for name in ("one", "two"):
        add_server(cloud, name)

    def asked(*words: str) -> tuple[str, list[str]]:
        faulty_api.requests.clear()
        (row, other) = json.loads(conftest.succeed(faulty_cli("server", "list", *words, "-f", "json")).out)
        assert (row["Image"], row["Flavor"]) == (other["Image"], other["Flavor"])
        return row["Image"], [path for _, path, _ in faulty_api.requests if "servers" not in path]

    assert asked() == ("guest", ["/v2/images?limit=1000", "/v2.1/flavors?limit=1000&is_public=None"])
    assert asked("-n") == (image, [])
    assert asked("--name-lookup-one-by-one") == ("guest", [f"/v2/images/{image}", f"/v2.1/flavors/{flavor}"])


# -- what is done with servers -----------------------------------------------------------------------------------------


BEFORE = {"start": {"vm_state": "stopped", "power_state": 4}}


@pytest.mark.parametrize("verb", ["stop", "start", "reboot", "pause", "shelve", "delete"])
def test_names_are_looked_for_in_every_project(cloud: Cloud, faulty_api: FaultyApi, faulty_cli: Cli, verb: str) -> None:
    add_server(cloud, "web", BEFORE.get(verb, {}))
    conftest.succeed(faulty_cli("server", verb, "web", "--all-projects"))
    (path,) = [path for _, path, _ in faulty_api.requests if path.startswith("/v2.1/servers/detail")]
    assert parse_qs(urlsplit(path).query)["all_tenants"] == ["1"]
    faulty_api.requests.clear()
    add_server(cloud, "own", BEFORE.get(verb, {}))
    conftest.succeed(faulty_cli("server", verb, "own"))
    assert not any("all_tenants" in path for _, path, _ in faulty_api.requests)


@pytest.mark.parametrize(
    ("word", "more"),
    [
        ("--key-unset", {"key_name": None}),
        ("--preserve-ephemeral", {"preserve_ephemeral": True}),
        ("--no-preserve-ephemeral", {"preserve_ephemeral": False}),
        ("--trusted-image-cert=c", {"trusted_image_certificates": ["c"]}),
        ("--no-trusted-image-certs", {}),
        ("--reimage-boot-volume", {}),
        ("--no-reimage-boot-volume", {}),
    ],
)
def test_rebuild(cloud: Cloud, faulty_api: FaultyApi, faulty_cli: Cli, word: str, more: dict[str, Any]) -> None:
    add_server(cloud, "web")
    result = faulty_cli("server", "rebuild", "web", word)
    reason = REFUSED.get((word,))
    assert (result.code, (reason or "") in result.err) == (0 if reason is None else 1, True), result.err
    assert sent(faulty_api) == {"rebuild": {"imageRef": cloud.server["imageRef"], **more}}
