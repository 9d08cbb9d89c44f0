"""`createImage`: what the image inherits and says, where the answer points, and what is refused."""

from typing import Any

import pytest

from tests.functional.api.conftest import Cloud


def snapshot(stocked: Cloud, uuid: str, body: Any) -> tuple[int, Any]:
    return stocked.ask("POST", f"/v2.1/servers/{uuid}/action", {"createImage": body})


def test_an_image_inherits_from_the_servers_image_and_flavor(stocked: Cloud) -> None:
    base = stocked.make_image(min_ram=64, os_distro="debian", hw_disk_bus="virtio", cache_in_nova="yes")
    server = stocked.make_server(imageRef=base["id"])
    body = {"name": "shot", "metadata": {"mine": "1", "os_distro": "other"}}
    assert snapshot(stocked, server["id"], body) == (202, None)
    (_, kind, arguments) = stocked.conductor.actions[0]
    image = arguments["image"]
    assert kind == "snapshot"
    assert (image["name"], image["disk_format"], image["visibility"], image["min_ram"]) == (
        "shot",
        "qcow2",
        "private",
        64,
    )
    assert image["min_disk"] == stocked._flavor["disk"]
    assert image["properties"] == {
        "os_distro": "other",
        "hw_disk_bus": "virtio",
        "mine": "1",
        "image_type": "snapshot",
        "base_image_ref": base["id"],
        "image_location": "snapshot",
        "image_state": "available",
        "owner_id": "admin",
        "instance_uuid": server["id"],
        "user_id": image["properties"]["user_id"],
    }


def test_bug_snapshot_of_a_snapshot_forgot_the_first_image(stocked: Cloud) -> None:
    base = stocked.make_image()
    first = stocked.make_image(base_image_ref=base["id"])
    server = stocked.make_server(imageRef=first["id"])
    assert snapshot(stocked, server["id"], {"name": "shot"})[0] == 202
    properties = stocked.conductor.actions[0][2]["image"]["properties"]
    assert (properties["base_image_ref"], properties["first_image_ref"]) == (first["id"], base["id"])


@pytest.mark.parametrize("key", ["createImage", "createBackup"])
def test_metadata_do_not_replace_what_the_image_says_of_its_server(stocked: Cloud, key: str) -> None:
    server, other = stocked.make_server(), stocked.make_server()
    lies = {"instance_uuid": other["id"], "user_id": "other", "image_type": "other", "backup_type": "other"}
    body: Any = {"name": "shot", "metadata": lies}
    body |= {"backup_type": "daily", "rotation": 0} if key == "createBackup" else {}
    assert stocked.ask("POST", f"/v2.1/servers/{server['id']}/action", {key: body})[0] == 202
    ((_, _, arguments),) = stocked.conductor.actions
    said = arguments["image"]["properties"]
    assert said["instance_uuid"] == server["id"]
    assert said["user_id"] != "other"
    # Nova lets them say another kind.
    backup = ("backup", "daily")
    assert (said["image_type"], said["backup_type"]) == (backup if key == "createBackup" else ("other", "other"))


def test_the_answer_points_to_the_image(stocked: Cloud) -> None:
    server = stocked.make_server()
    result = stocked.client.simulate_post(
        f"/v2.1/servers/{server['id']}/action", json={"createImage": {"name": "shot"}}
    )
    image_id = stocked.conductor.actions[0][2]["image"]["id"]
    assert (result.status_code, result.content) == (202, b"")
    assert result.headers["Location"].endswith(f"/v2/images/{image_id}")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (None, "name"),
        ({}, "name"),
        ({"name": ""}, "name"),
        ({"name": "x" * 256}, "name"),
        ({"name": 5}, "name"),
        ({"name": " "}, "name"),
        ({"name": "shot", "metadata": {"key": 5}}, "metadata"),
        ({"name": "shot", "metadata": {"k" * 256: "v"}}, "metadata"),
        ({"name": "shot", "metadata": {"k": "v" * 256}}, "metadata"),
        ({"name": "shot", "metadata": "none"}, "metadata"),
        ({"name": "shot", "rotation": 1}, "rotation"),
    ],
)
def test_wrong_arguments_are_named(stocked: Cloud, body: Any, field: str) -> None:
    server = stocked.make_server()
    status, answer = snapshot(stocked, server["id"], body)
    assert status == 400
    assert field in answer["badRequest"]["message"].lower()
    assert stocked.conductor.actions == []


def test_too_much_metadata_is_forbidden(stocked: Cloud) -> None:
    server = stocked.make_server()
    metadata = {f"key{number}": "v" for number in range(129)}
    status, answer = snapshot(stocked, server["id"], {"name": "shot", "metadata": metadata})
    assert (status, "128" in answer["forbidden"]["message"]) == (403, True)
