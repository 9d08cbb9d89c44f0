"""`minova image set|unset|add project|remove project|member list`, against minova-api itself."""

import uuid
from pathlib import Path

import pytest

from tests.functional.api.conftest import Cloud
from tests.functional.cli.conftest import Cli, json_output, succeed

JSON = ("-f", "json")


@pytest.fixture
def image(cloud: Cloud) -> str:
    return str(cloud.make_image("guest", tags=["a"], os_distro="debian")["id"])


def test_an_image_is_changed_as_the_options_say(minova: Cli, cloud: Cloud, image: str) -> None:
    words = ("--name", "renamed", "--min-disk", "2", "--min-ram", "64", "--protected", "--private", "--hidden")
    succeed(minova("image", "set", image, *words, "--property", "a/b=1", "--property", "os_distro=sid", "--tag", "b"))
    shown = cloud.get(f"/v2/images/{image}")
    expected = {"name": "renamed", "min_disk": 2, "min_ram": 64, "protected": True, "visibility": "private"}
    expected |= {"os_hidden": True, "a/b": "1", "os_distro": "sid", "tags": ["a", "b"]}
    assert {key: shown[key] for key in expected} == expected
    succeed(minova("image", "set", image, "--unprotected", "--unhidden", "--shared", "--project", "other"))
    shown = cloud.get(f"/v2/images/{image}")
    assert (shown["protected"], shown["os_hidden"], shown["owner"]) == (False, False, "other")


def test_an_image_is_made_as_the_options_say_and_saved(minova: Cli, cloud: Cloud, tmp_path: Path) -> None:
    disk, copy, own = tmp_path / "disk", tmp_path / "copy", str(uuid.uuid4())
    disk.write_bytes(bytes(range(256)) * 9)
    words = ("--id", own, "--public", "--protected", "--tag", "a", "--tag", "b", "--project", "other", "--hidden")
    succeed(minova("image", "create", "guest", "--file", str(disk), "--disk-format", "raw", *words))
    expected = {"visibility": "public", "protected": True, "tags": ["a", "b"], "owner": "other", "os_hidden": True}
    shown = cloud.get(f"/v2/images/{own}")
    assert {key: shown[key] for key in expected} == expected
    succeed(minova("image", "save", own, "--file", str(copy), "--chunk-size", "100"))
    assert copy.read_bytes() == disk.read_bytes()


def test_an_image_without_bytes_is_not_saved(minova: Cli, cloud: Cloud, image: str, tmp_path: Path) -> None:
    record = {"name": "empty", "disk_format": "raw", "container_format": "bare"}
    empty = cloud.ask("POST", "/v2/images", record)[1]["id"]
    result = minova("image", "save", empty, "--file", str(tmp_path / "copy"))
    assert (result.code, "has no bytes yet" in result.err) == (1, True)
    assert [*tmp_path.glob("copy*")] == []
    result = minova("image", "save", image, "--file", str(tmp_path / "none" / "copy"))
    assert (result.code, "Cannot write" in result.err) == (1, True)


def test_properties_and_tags_are_unset_or_none_of_them(minova: Cli, cloud: Cloud, image: str) -> None:
    result = minova("image", "unset", image, "--property", "os_distro", "--property", "name", "--tag", "none")
    assert (result.code, "has no name, none; nothing was unset" in result.err) == (1, True)
    succeed(minova("image", "unset", image, "--property", "os_distro", "--tag", "a"))
    shown = cloud.get(f"/v2/images/{image}")
    assert ("os_distro" in shown, shown["tags"]) == (False, [])


def test_nothing_to_change_is_told(minova: Cli, image: str) -> None:
    for verb in ("set", "unset"):
        assert minova("image", verb, image).code == 2


def test_an_image_is_deactivated_and_activated(minova: Cli, cloud: Cloud, image: str) -> None:
    for option, status in (("--deactivate", "deactivated"), ("--activate", "active")):
        succeed(minova("image", "set", "guest", option))
        assert cloud.get(f"/v2/images/{image}")["status"] == status


def test_an_image_is_shared_and_accepted(minova: Cli, image: str) -> None:
    member = json_output(minova("image", "add", "project", "guest", "other", *JSON))
    assert (member["member_id"], member["status"]) == ("other", "pending")
    # The only member that is seen.
    succeed(minova("image", "set", "guest", "--accept"))
    (row,) = json_output(minova("image", "member", "list", "guest", *JSON))
    assert row == {"Image ID": image, "Member ID": "other", "Status": "accepted"}
    succeed(minova("image", "add", "project", "guest", "third"))
    assert "--project" in minova("image", "set", "guest", "--reject").err
    succeed(minova("image", "set", "guest", "--reject", "--project", "third"))
    succeed(minova("image", "remove", "project", "guest", "other"))
    (row,) = json_output(minova("image", "member", "list", "guest", *JSON))
    assert (row["Member ID"], row["Status"]) == ("third", "rejected")


def test_images_are_listed_by_their_fields(minova: Cli, cloud: Cloud, image: str) -> None:
    cloud.make_image("open", visibility="public", tags=["b"], os_distro="sid")
    succeed(minova("image", "set", "open", "--architecture", "arm64", "--os-version", "13"))
    cloud.make_image("away", os_hidden=True)

    def names(*options: str) -> list[str]:
        return [row["Name"] for row in json_output(minova("image", "list", *options, *JSON))]

    assert names("--sort", "name:desc") == ["open", "guest"]
    assert (names("--public"), names("--community"), names("--hidden")) == (["open"], [], ["away"])
    assert (names("--tag", "a"), names("--tag", "a", "--tag", "b")) == (["guest"], [])
    assert names("--property", "os_distro=sid", "--property", "architecture=arm64") == ["open"]
    assert (len(names("--limit", "1")), names("--sort", "name:asc", "--marker", image)) == (1, ["open"])
    assert (names("--project", "nobody"), len(names("--all"))) == ([], 2)


def test_a_membership_and_a_size_are_shown(minova: Cli, image: str) -> None:
    succeed(minova("image", "add", "project", "guest", "other"))
    assert json_output(minova("image", "member", "get", "guest", "other", *JSON))["status"] == "pending"
    assert json_output(minova("image", "show", "guest", "--human-readable", *JSON))["size"] == "1 KiB"
