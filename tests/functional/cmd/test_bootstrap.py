"""A new cloud gets flavors and a network by one command."""

from pathlib import Path

import pytest

from minova.cmd import manage
from minova.cmd.startup.usual_flavors import FLAVORS
from tests.functional.api.conftest import Cloud


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    file = tmp_path / "minova.conf"
    file.write_text(
        f"[DEFAULT]\nstate_path = {tmp_path}\n[database]\nconnection = sqlite:///{tmp_path}/minova.sqlite\n"
    )
    return file


def bootstrap(conf: Path, *words: str) -> int:
    return manage.run(["--config-file", str(conf), "bootstrap", *words])


def test_tables_must_be_there(conf: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert bootstrap(conf) == 1
    assert "db upgrade" in capsys.readouterr().err


def test_flavors_and_a_network_are_there_for_every_project(
    conf: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert manage.run(["--config-file", str(conf), "db", "upgrade"]) == 0
    assert bootstrap(conf) == 0
    said = capsys.readouterr().out
    cloud = Cloud(tmp_path)
    bob = {"headers": {"X-Auth-Token": "bob:demo"}}
    try:
        names = [flavor["name"] for flavor in cloud.get("/v2.1/flavors", **bob)["flavors"]]
        assert sorted(names) == sorted(flavor.name for flavor in FLAVORS)
        (network,) = cloud.get("/network/v2.0/networks", **bob)["networks"]
        assert (network["name"], network["shared"]) == ("default", True)
        (subnet,) = cloud.get("/network/v2.0/subnets", **bob)["subnets"]
        assert (subnet["cidr"], subnet["gateway_ip"], subnet["enable_dhcp"]) == ("172.30.0.0/24", "172.30.0.1", True)
    finally:
        cloud.close()
    assert "minova server create web --flavor m1.small --image debian" in said


def test_second_time_changes_nothing(conf: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manage.run(["--config-file", str(conf), "db", "upgrade"])
    assert bootstrap(conf) == 0
    capsys.readouterr()
    assert bootstrap(conf) == 0
    said = capsys.readouterr().out
    assert said.count("stays") == len(FLAVORS) + 1


def test_both_are_on_request(conf: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manage.run(["--config-file", str(conf), "db", "upgrade"])
    assert bootstrap(conf, "--no-flavors", "--range", "none") == 0
    assert bootstrap(conf, "--no-flavors", "--range", "nonsense") == 1
    cloud = Cloud(tmp_path)
    try:
        assert cloud.get("/v2.1/flavors")["flavors"] == []
        assert cloud.get("/network/v2.0/networks")["networks"] == []
    finally:
        cloud.close()


def test_bug_a_second_network_without_a_subnet_was_left(
    conf: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The range overlapped with that of a network of the operator's own: then servers no longer knew which network is meant."""
    manage.run(["--config-file", str(conf), "db", "upgrade"])
    cloud = Cloud(tmp_path)
    try:
        _, created = cloud.ask("POST", "/network/v2.0/networks", {"network": {"name": "own", "shared": True}})
        own = created["network"]["id"]
        subnet = {"network_id": own, "ip_version": 4, "cidr": "172.30.0.0/20"}
        assert cloud.ask("POST", "/network/v2.0/subnets", {"subnet": subnet})[0] == 201
        assert bootstrap(conf) == 0
        assert "No network was made: the cloud has a network already (own)." in capsys.readouterr().out
        assert [network["name"] for network in cloud.get("/network/v2.0/networks")["networks"]] == ["own"]
    finally:
        cloud.close()
