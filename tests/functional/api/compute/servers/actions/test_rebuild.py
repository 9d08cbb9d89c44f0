"""`rebuild`: what is taken, what the conductor gets, and every "no"."""

import base64
import uuid
from typing import Any

import pytest

from minova.objects.catalogue import kernel_boot
from minova.objects.catalogue.image import Image
from tests.functional.api.conftest import ALL_FIELDS, Cloud

# The fields of an answer at 2.1, by Nova's schema.
SHOWN = {
    "id", "name", "links", "status", "tenant_id", "user_id", "metadata", "hostId", "image", "flavor", "created", "updated",
    "addresses", "accessIPv4", "accessIPv6", "OS-DCF:diskConfig", "progress",
}  # fmt: skip


class Server:
    def __init__(self, cloud: Cloud, **more: Any) -> None:
        self.cloud = cloud
        self.uuid = cloud.make_server("old", metadata={"a": "1"}, **more)["id"]
        cloud.conductor.edit(self.uuid, vm_state="active", task_state=None, host="h1", node="h1")

    def rebuild(self, body: Any, **more: Any) -> tuple[int, Any]:
        return self.cloud.ask("POST", f"/v2.1/servers/{self.uuid}/action", {"rebuild": body}, **more)

    @property
    def sent(self) -> Any:
        ((identity, kind, arguments),) = self.cloud.conductor.actions
        assert (identity, kind) == (self.uuid, "rebuild")
        return arguments


@pytest.fixture
def server(stocked: Cloud) -> Server:
    return Server(stocked)


def test_what_is_not_named_stays(stocked: Cloud, server: Server) -> None:
    image = stocked.make_image("new")["id"]
    status, answer = server.rebuild({"imageRef": image})
    assert (status, {*answer["server"]}, answer["server"]["status"]) == (202, SHOWN, "REBUILD")
    assert (server.sent["image"]["id"], server.sent["changes"]) == (image, {"config_drive": False})


def test_what_is_named_is_changed(stocked: Cloud, server: Server) -> None:
    body = {"imageRef": stocked.make_image("new")["id"], "name": "new", "metadata": {"b": "2"}}
    body |= {
        "accessIPv4": "10.0.0.7",
        "accessIPv6": "FE80::1",
        "OS-DCF:diskConfig": "MANUAL",
        "preserve_ephemeral": "no",
    }
    assert server.rebuild(body)[0] == 202
    assert server.sent["changes"] == {
        "config_drive": False,
        "display_name": "new",
        "metadata_": {"b": "2"},
        "access_ip_v4": "10.0.0.7",
        "access_ip_v6": "fe80::1",
        "auto_disk_config": "MANUAL",
    }


def test_the_guest_of_a_config_drive_gets_files_and_a_password(stocked: Cloud) -> None:
    server = Server(stocked, config_drive=True)
    files = [{"path": "/etc/motd", "contents": base64.b64encode(b"hello").decode()}]
    status, answer = server.rebuild(
        {"imageRef": stocked.make_image("new")["id"], "personality": files, "adminPass": "p"}
    )
    assert (status, answer["server"]["adminPass"]) == (202, "p")
    assert ([*server.sent["files"]], server.sent["admin_password"]) == (files, "p")
    assert server.sent["changes"] == {"config_drive": True}


def test_password_and_files_without_a_drive_have_no_effect(stocked: Cloud, server: Server) -> None:
    files = [{"path": "/etc/motd", "contents": base64.b64encode(b"hello").decode()}]
    status, answer = server.rebuild(
        {"imageRef": stocked.make_image("new")["id"], "personality": files, "adminPass": "p"}
    )
    assert (status, answer["server"]["adminPass"]) == (202, "p")
    assert ([*server.sent["files"]], server.sent["changes"]) == ([], {"config_drive": False})


def test_key_and_user_data_come_with_later_microversions(stocked: Cloud, server: Server) -> None:
    key = stocked.ask("POST", "/v2.1/os-keypairs", {"keypair": {"name": "mine"}})[1]["keypair"]
    text = base64.b64encode(b"#!/bin/sh").decode()
    body = {"imageRef": stocked.make_image("new")["id"], "key_name": "mine", "user_data": text, "description": "d"}
    assert server.rebuild(body)[0] == 400
    assert server.rebuild(body, **ALL_FIELDS)[0] == 202
    assert server.sent["changes"] == {
        "config_drive": False, "key_name": "mine", "key_data": key["public_key"], "key_type": "ssh", "user_data": text,
        "description": "d",
    }  # fmt: skip
    stocked.conductor.actions.clear()
    assert server.rebuild({**body, "key_name": None, "user_data": None}, **ALL_FIELDS)[0] == 202
    changes = server.sent["changes"]
    assert [changes[name] for name in ("key_name", "key_data", "key_type", "user_data")] == [None] * 4


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"imageRef": str(uuid.uuid4())}, "Cannot find image for rebuild"),
        ({"imageRef": ""}, "Cannot find image for rebuild"),
        ({"imageRef": "http://h/images/1"}, "imageRef"),
        ({"imageRef": None}, "image_ref"),
        ({"name": ""}, "name"),
        ({"name": "x" * 256}, "name"),
        ({"metadata": {"a": 1}}, "metadata"),
        ({"metadata": {"a/b": "1"}}, "metadata"),
        ({"metadata": {"a": "x" * 256}}, "metadata"),
        ({"accessIPv4": "fe80::1"}, "accessIPv4"),
        ({"accessIPv6": ""}, "access_ipv6"),
        ({"preserve_ephemeral": True}, "preserving ephemeral"),
        ({"preserve_ephemeral": 7}, "preserve_ephemeral"),
        ({"OS-DCF:diskConfig": "auto"}, "diskConfig"),
        ({"key_name": "mine"}, "key_name"),
        ({"user_data": "YQ=="}, "user_data"),
        ({"description": "x"}, "description"),
        ({"hostname": "x"}, "hostname"),
        ({"flavorRef": "1"}, "flavorRef"),
    ],
)
def test_what_cannot_be_is_a_bad_request_that_says_why(
    stocked: Cloud, server: Server, wrong: dict[str, Any], text: str
) -> None:
    status, answer = server.rebuild({"imageRef": stocked.make_image("new")["id"], **wrong})
    assert status == 400
    assert text in answer["badRequest"]["message"].replace("imageRef", "imageRef image_ref").replace(
        "accessIPv6", "accessIPv6 access_ipv6"
    )
    assert stocked.conductor.actions == []


@pytest.mark.parametrize(
    ("image", "text"),
    [
        ({"min_disk": 2}, "too small"),
        ({"min_ram": 4096}, "too small"),
        ({"data": None}, "is not active"),
        ({"hw_numa_nodes": "1"}, "NUMA topology cannot be changed"),
        ({"hw_disk_bus": "floppy-drive"}, "hw_disk_bus"),
    ],
)
def test_an_image_that_does_not_fit_the_server_is_a_bad_request(
    stocked: Cloud, server: Server, image: dict[str, Any], text: str
) -> None:
    status, answer = server.rebuild({"imageRef": stocked.make_image("new", **image)["id"]})
    assert (status, stocked.conductor.actions) == (400, [])
    assert text in answer["badRequest"]["message"]


def test_a_server_that_is_not_there_is_404_and_too_much_metadata_403(stocked: Cloud, server: Server) -> None:
    image = stocked.make_image("new")["id"]
    metadata = {str(number): "" for number in range(129)}
    assert server.rebuild({"imageRef": image, "metadata": metadata})[0] == 403
    server.uuid = str(uuid.uuid4())
    assert server.rebuild({"imageRef": image})[0] == 404


def test_the_answer_has_the_key_since_2_54_and_the_user_data_since_2_57(stocked: Cloud, server: Server) -> None:
    text = base64.b64encode(b"#!/bin/sh").decode()
    stocked.conductor.edit(server.uuid, key_name="mine", user_data=text)
    body = {"imageRef": stocked.make_image("new")["id"]}
    for version, expected in (
        ("2.53", {}),
        ("2.54", {"key_name": "mine"}),
        ("2.57", {"key_name": "mine", "user_data": text}),
        ("2.75", {"key_name": "mine", "user_data": text}),
    ):
        status, answer = server.rebuild(body, headers={"X-OpenStack-Nova-API-Version": version})
        assert status == 202, answer
        shown = {key: answer["server"][key] for key in ("key_name", "user_data") if key in answer["server"]}
        assert shown == expected, version


def test_bug_the_properties_shown_are_those_of_the_image_of_the_creation(stocked: Cloud, server: Server) -> None:
    path, now = f"/v2.1/servers/{server.uuid}", {"headers": {"X-OpenStack-Nova-API-Version": "2.98"}}
    assert stocked.get(path, **now)["server"]["image"]["properties"] == {}
    properties = {"hw_disk_bus": "scsi", "kernel_id": str(uuid.uuid4()), "private": "1"}
    for changed in (properties, {**properties, "hw_disk_bus": "sata"}):
        new = Image(id=stocked.make_image("new")["id"], properties=changed)
        stocked.conductor.edit(server.uuid, image_ref=new.id, image=new, **kernel_boot.columns_of(new))
        shown = stocked.get(path, **now)["server"]
        assert shown["image"]["properties"] == {"hw_disk_bus": changed["hw_disk_bus"]}
        assert shown["OS-EXT-SRV-ATTR:kernel_id"] == properties["kernel_id"]
        assert shown["OS-EXT-SRV-ATTR:ramdisk_id"] == ""


def test_bug_changed_properties_of_the_same_image_were_not_compared(stocked: Cloud, server: Server) -> None:
    """The topology of the row stays in a rebuild, so that the new properties would have had no effect."""
    row = stocked.get(f"/v2.1/servers/{server.uuid}")["server"]
    image = row["image"]["id"]
    change = [{"op": "add", "path": "/hw_numa_nodes", "value": "1"}]
    headers = {"Content-Type": "application/openstack-images-v2.1-json-patch"}
    assert stocked.ask("PATCH", f"/v2/images/{image}", change, headers=headers)[0] == 200
    status, answer = server.rebuild({"imageRef": image})
    assert (status, "NUMA topology cannot be changed" in str(answer)) == (400, True), answer
    assert stocked.conductor.actions == []
