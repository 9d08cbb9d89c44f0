"""What servers with encrypted disks or TPMs cannot do is refused, with the key; what they can do is not."""

from typing import Any

import pytest

from tests.functional.api.compute.test_aggregates import add_host
from tests.functional.api.conftest import Cloud, at

ENCRYPTED = {"hw:ephemeral_encryption": "true"}
WITH_TPM = {"hw:tpm_version": "2.0"}


def server(cloud: Cloud, extra_specs: dict[str, str], **properties: Any) -> str:
    flavor = cloud.make_flavor("own", disk=10, extra_specs=extra_specs)["id"]
    image = cloud.make_image("own", **properties)["id"]
    uuid: str = cloud.make_server("web", flavorRef=flavor, imageRef=image)["id"]
    cloud.conductor.edit(uuid, vm_state="active", task_state=None, host="h1", node="h1")
    return uuid


def act(cloud: Cloud, uuid: str, body: dict[str, Any]) -> tuple[int, str]:
    status, answer = cloud.ask("POST", f"/v2.1/servers/{uuid}/action", body, **at("2.95"))
    return status, str(answer)


@pytest.mark.parametrize(
    ("extra_specs", "properties"), [(ENCRYPTED, {}), ({}, {"hw_ephemeral_encryption": "true"})], ids=["flavor", "image"]
)
@pytest.mark.parametrize(
    "action",
    [
        {"createImage": {"name": "copy"}},
        {"createBackup": {"name": "copy", "backup_type": "daily", "rotation": 1}},
        {"shelve": None},
    ],
    ids=lambda action: next(iter(action)),
)
def test_no_image_is_made_of_encrypted_disks(
    stocked: Cloud, action: dict[str, Any], extra_specs: dict[str, str], properties: dict[str, Any]
) -> None:
    uuid = server(stocked, extra_specs, **properties)
    images = stocked.ask("GET", "/v2/images")[1]
    status, text = act(stocked, uuid, action)
    assert (status, "hw:ephemeral_encryption" in text) == (409, True)
    assert stocked.conductor.actions == []
    assert stocked.ask("GET", "/v2/images")[1] == images


def test_a_server_with_a_tpm_is_shelved(stocked: Cloud) -> None:
    assert act(stocked, server(stocked, WITH_TPM), {"shelve": None})[0] == 202


def test_a_resize_does_not_encrypt_disks(stocked: Cloud) -> None:
    plain = stocked.make_flavor("plain", disk=10)["id"]
    other = stocked.make_flavor("other", disk=20, extra_specs=ENCRYPTED)["id"]
    encrypted = server(stocked, ENCRYPTED)
    status, text = act(stocked, encrypted, {"resize": {"flavorRef": plain}})
    assert (status, "hw:ephemeral_encryption" in text) == (400, True)
    assert act(stocked, encrypted, {"resize": {"flavorRef": other}})[0] == 202


@pytest.mark.parametrize("path", ["action", "action/dry-run"])
@pytest.mark.parametrize("specs", [{}, {"hw:mem_encryption": "false"}], ids=["unset", "false"])
def test_bug_resize_dropped_the_encrypted_memory_of_the_image(stocked: Cloud, path: str, specs: dict[str, str]) -> None:
    plain = stocked.make_flavor("plain", disk=10, extra_specs=specs)["id"]
    other = stocked.make_flavor("other", disk=20, extra_specs={"hw:mem_encryption": "true"})["id"]
    uuid = server(
        stocked, {"hw:mem_encryption": "true"}, hw_mem_encryption="true", hw_firmware_type="uefi", hw_machine_type="q35"
    )
    url = f"/v2.1/servers/{uuid}/{path}"
    status, answer = stocked.ask("POST", url, {"resize": {"flavorRef": plain}}, **at("2.95"))
    assert (status, "hw_mem_encryption of the image" in str(answer) or "hw_mem_encryption=" in str(answer)) == (
        400,
        True,
    )
    assert stocked.conductor.actions == []
    assert stocked.ask("POST", url, {"resize": {"flavorRef": other}}, **at("2.95"))[0] in {200, 202}


def test_a_tpm_is_not_evacuated(stocked: Cloud) -> None:
    uuid = server(stocked, WITH_TPM)
    add_host(stocked, "h2")
    status, text = act(stocked, uuid, {"evacuate": {"host": "h2"}})
    assert (status, "hw:tpm_version" in text, "vTPM-enabled instance" in text) == (409, True, True)
    assert stocked.conductor.evacuated == []


def test_encrypted_disks_are_evacuated(stocked: Cloud) -> None:
    uuid = server(stocked, ENCRYPTED)
    add_host(stocked, "h2")
    assert act(stocked, uuid, {"evacuate": {"host": "h2"}})[0] == 200
