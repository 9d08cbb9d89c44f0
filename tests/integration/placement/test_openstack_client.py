"""The ordinary `openstack` client with osc-placement, unchanged, against both doors of Placement."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.deployment import BIN
from tests.servers.private_server import free_ports
from tests.waiting import wait_for

CLIENT = Path(__file__).parents[2] / "openstack_commands.py"
HOST, NIC, CONSUMER, OTHER, AGGREGATE, PROJECT, USER = (
    f"{digit * 8}-0000-4000-8000-000000000000" for digit in "1234567"
)


class Openstack:
    """Commands gathered, then run together; each says what it must answer."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._commands: list[list[str]] = []

    def words(self, command: str) -> list[str]:
        login = ["--os-auth-type", "admin_token", "--os-endpoint", self._url, "--os-token", "admin"]
        return [*login, "--os-placement-api-version", "1.39", *command.split()]

    def __call__(self, *commands: str) -> list[Any]:
        """What each printed, read as JSON where it is asked for it; AssertionError: one failed."""
        body = json.dumps([self.words(command) for command in commands])
        done = subprocess.run([sys.executable, str(CLIENT)], input=body, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        answers = []
        for command, (code, out, err) in zip(commands, json.loads(done.stdout), strict=True):
            assert code == 0, f"{command}\n{out}\n{err}"
            answers.append(json.loads(out) if "-f json" in command else out)
        return answers

    def refused(self, command: str) -> str:
        """What it says when it fails."""
        done = subprocess.run(
            [str(BIN / "openstack"), *self.words(command)], capture_output=True, text=True, timeout=180
        )
        assert done.returncode != 0, done.stdout
        return done.stderr


@pytest.fixture(
    params=["minova-placement-api", pytest.param("minova-api", marks=pytest.mark.nightly("the same commands"))]
)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Of Placement: alone with a temporary database, or under /placement of minova-api."""
    (port,) = free_ports(1)
    alone = request.param == "minova-placement-api"
    command = [str(BIN / request.param)]
    if alone:
        command += ["--dev", "--port", str(port)]
    else:
        conf = tmp_path / "minova.conf"
        conf.write_text(
            f"[DEFAULT]\nstate_path = {tmp_path}\n[api]\nosapi_compute_listen_port = {port}\n"
            f"[database]\nconnection = sqlite:///{tmp_path}/minova.sqlite\n"
            "[oslo_messaging_rabbit]\n"
        )
        subprocess.run([str(BIN / "minova-manage"), "--config-file", str(conf), "db", "upgrade"], check=True)
        command += ["--config-file", str(conf)]
    log = tmp_path / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
    try:
        wait_for("listening", lambda: process.poll() is not None or f"listens on 127.0.0.1:{port}" in log.read_text())
        assert process.poll() is None, log.read_text()
        yield f"http://127.0.0.1:{port}" + ("" if alone else "/placement")
    finally:
        process.terminate()
        process.wait(30)


def test_every_command_of_the_ordinary_client_works(url: str) -> None:
    openstack = Openstack(url)
    of_host = f"{HOST} --resource VCPU=8 --resource VCPU:allocation_ratio=2.0 --resource MEMORY_MB=4096"
    allocation = f"--project-id {PROJECT} --user-id {USER} --consumer-type INSTANCE"
    held_by_it = f"--allocation rp={HOST},VCPU=2,MEMORY_MB=512 --allocation rp={NIC},SRIOV_NET_VF=1"
    creations = [
        "resource class create CUSTOM_GOLD",
        "resource class set CUSTOM_SILVER",
        "trait create CUSTOM_FAST",
        f"resource provider create host --uuid {HOST}",
        f"resource provider create nic --uuid {NIC} --parent-provider {HOST}",
        f"resource provider set {HOST} --name big-host",
        f"resource provider inventory set {of_host}",
        f"resource provider inventory set {NIC} --resource SRIOV_NET_VF=4",
        f"resource provider inventory class set {NIC} SRIOV_NET_VF --total 4 --max_unit 2",
        f"resource provider trait set --trait CUSTOM_FAST --trait HW_CPU_X86_AVX {HOST}",
        f"resource provider aggregate set --aggregate {AGGREGATE} --generation 2 {HOST}",
        f"resource provider allocation set {CONSUMER} {held_by_it} {allocation}",
    ]
    answers = openstack(
        *creations,
        "resource class list -f json",
        "resource class show CUSTOM_GOLD -f json",
        "trait list --associated -f json",
        "trait show CUSTOM_FAST -f json",
        f"resource provider list --resource VCPU=1 --required CUSTOM_FAST --member-of {AGGREGATE} -f json",
        f"resource provider show {NIC} -f json",
        f"resource provider inventory list {HOST} -f json",
        f"resource provider inventory show {HOST} VCPU -f json",
        f"resource provider trait list {HOST} -f json",
        f"resource provider aggregate list {HOST} -f json",
        f"resource provider usage show {HOST} -f json",
        f"resource provider allocation show {CONSUMER} -f json",
        f"resource usage show {PROJECT} -f json",
        "allocation candidate list --resource VCPU=1 --resource SRIOV_NET_VF=2 --required CUSTOM_FAST --limit 5 -f json",
        "allocation candidate list --group 1 --resource VCPU=1 --group 2 --resource SRIOV_NET_VF=1 "
        "--group-policy none -f json",
    )
    classes, gold, traits, trait, listed, shown, inventories, vcpu, of_host_traits, aggregates, *more = answers[
        len(creations) :
    ]
    usage, held, of_project, spread, granular = more
    assert {"CUSTOM_GOLD", "CUSTOM_SILVER", "VCPU"} <= {row["name"] for row in classes}
    assert gold == {"name": "CUSTOM_GOLD"}
    assert {row["name"] for row in traits} == {"CUSTOM_FAST", "HW_CPU_X86_AVX"}
    assert trait == {"name": "CUSTOM_FAST"}
    assert [(row["uuid"], row["name"]) for row in listed] == [(HOST, "big-host")]
    assert (shown["root_provider_uuid"], shown["parent_provider_uuid"]) == (HOST, HOST)
    assert {row["resource_class"]: row["used"] for row in inventories} == {"VCPU": 2, "MEMORY_MB": 512}
    assert (vcpu["total"], vcpu["allocation_ratio"], vcpu["used"]) == (8, 2.0, 2)
    assert {row["name"] for row in of_host_traits} == {"CUSTOM_FAST", "HW_CPU_X86_AVX"}
    assert aggregates == [{"uuid": AGGREGATE}]
    assert {row["resource_class"]: row["usage"] for row in usage} == {"VCPU": 2, "MEMORY_MB": 512}
    assert {row["resource_provider"]: row["resources"] for row in held} == {
        HOST: {"VCPU": 2, "MEMORY_MB": 512},
        NIC: {"SRIOV_NET_VF": 1},
    }
    # From microversion 1.38 on by consumer type, which the client shows in the place of the class.
    assert {row["resource_class"]: row["usage"] for row in of_project} == {
        "INSTANCE": {"VCPU": 2, "MEMORY_MB": 512, "SRIOV_NET_VF": 1, "consumer_count": 1}
    }
    assert {(row["resource provider"], row["allocation"]) for row in spread} == {
        (HOST, "VCPU=1"),
        (NIC, "SRIOV_NET_VF=2"),
    }
    assert {row["#"] for row in granular} == {1}

    assert "Unable to allocate inventory" in openstack.refused(
        f"resource provider allocation set {OTHER} --allocation rp={NIC},SRIOV_NET_VF=3 {allocation}"
    )
    *_, providers, traits = openstack(
        f"resource provider allocation unset {CONSUMER} --provider {NIC}",
        f"resource provider allocation delete {CONSUMER}",
        f"resource provider inventory delete {HOST} --resource-class MEMORY_MB",
        f"resource provider trait delete {HOST}",
        f"resource provider delete {NIC}",
        f"resource provider delete {HOST}",
        "trait delete CUSTOM_FAST",
        "resource class delete CUSTOM_GOLD",
        "resource provider list -f json",
        "trait list --associated -f json",
    )
    assert (providers, traits) == ([], [])
