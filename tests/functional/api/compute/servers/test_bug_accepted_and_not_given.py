"""Encryption and other keys were accepted, and the server became ACTIVE without them: by every door they are refused by name now."""

from typing import Any

import pytest

from tests.functional.api.conftest import Cloud

UEFI = {"hw_firmware_type": "uefi", "hw_machine_type": "q35"}
FLAVORS: list[dict[str, str]] = [
    # Without UEFI; and a model that is not served.
    {"hw:mem_encryption": "true"},
    {"hw:mem_encryption_model": "amd-sev-snp", "hw:mem_encryption": "true"},
    {"hw:ephemeral_encryption_format": "plain", "hw:ephemeral_encryption": "true"},
    {"hw:ephemeral_encryption_format": "luks"},
    {"hw:tpm_model": "tpm-crb"},
    {"hw:tpm_model": "tpm-crb", "hw:tpm_version": "1.2"},
    {"hw:tpm_secret_security": "user", "hw:tpm_version": "2.0"},
    {"accel:device_profile": "gpu"},
    {"hw:pmem": "small"},
    {"hw:redirected_usb_ports": "2"},
    {"hw:cpu_max_sockets": "1", "hw:cpu_max_cores": "1", "hw:cpu_max_threads": "1"},
]
IMAGES: list[dict[str, Any]] = [
    {"hw_mem_encryption": "true", **UEFI},
    {"hw_ephemeral_encryption_secret_uuid": "4711"},
    {"hw_firmware_stateless": "true"},
    {"hw_firmware_stateless": "true", "os_secure_boot": "required", **UEFI},
    {"img_signature": "c2lnbmF0dXJl"},
    {"img_signature_certificate_uuid": "4711"},
    {"img_block_device_mapping": '[{"volume_id": "1"}]'},
    {"hw_scsi_model": "buslogic", "hw_disk_bus": "scsi"},
    {"hw_machine_type": "microvm"},
]


@pytest.mark.parametrize("extra_specs", FLAVORS, ids=str)
def test_a_flavor_is_refused(stocked: Cloud, extra_specs: dict[str, str]) -> None:
    flavor = stocked.make_flavor("other", vcpus=4, disk=10, extra_specs=extra_specs)["id"]
    key = next(iter(extra_specs))
    for path in ("/v2.1/servers", "/v2.1/servers/dry-run"):
        status, answer = stocked.ask("POST", path, {"server": {**stocked.server, "flavorRef": flavor}})
        assert status == 400, path
        assert key in str(answer)
    uuid = _active(stocked)
    status, answer = stocked.ask("POST", f"/v2.1/servers/{uuid}/action", {"resize": {"flavorRef": flavor}})
    assert (status, key in str(answer)) == (400, True)
    assert stocked.conductor.actions == []


@pytest.mark.parametrize("properties", IMAGES, ids=str)
def test_an_image_is_refused(stocked: Cloud, properties: dict[str, Any]) -> None:
    image = stocked.make_image("other", **properties)["id"]
    key = next(iter(properties))
    for path in ("/v2.1/servers", "/v2.1/servers/dry-run"):
        status, answer = stocked.ask("POST", path, {"server": {**stocked.server, "imageRef": image}})
        assert status == 400, path
        assert key in str(answer)
    uuid = _active(stocked)
    status, answer = stocked.ask("POST", f"/v2.1/servers/{uuid}/action", {"rebuild": {"imageRef": image}})
    assert (status, key in str(answer)) == (400, True)
    assert stocked.conductor.actions == []


def test_a_flavor_and_an_image_that_contradict_each_other_are_refused(stocked: Cloud) -> None:
    flavor = stocked.make_flavor("other", extra_specs={"hw:pmu": "true"})["id"]
    image = stocked.make_image("other", hw_pmu="false")["id"]
    server: dict[str, Any] = {**stocked.server, "flavorRef": flavor, "imageRef": image}
    status, answer = stocked.ask("POST", "/v2.1/servers", {"server": server})
    assert status == 400
    assert "hw_pmu=false of the image: the flavor has hw:pmu=true" in str(answer)


def test_bug_the_flavor_was_not_asked_when_a_server_is_rebuilt(stocked: Cloud) -> None:
    flavor = stocked.make_flavor("video", disk=10, extra_specs={"hw_video:ram_max_mb": "8"})["id"]
    uuid = _active(stocked, flavorRef=flavor)
    image = stocked.make_image("video", hw_video_ram="4")["id"]
    assert stocked.ask("POST", f"/v2.1/servers/{uuid}/action", {"rebuild": {"imageRef": image}})[0] == 202


def _active(cloud: Cloud, **more: Any) -> str:
    uuid: str = cloud.make_server("old", **more)["id"]
    cloud.conductor.edit(uuid, vm_state="active", task_state=None, host="h1", node="h1")
    return uuid
