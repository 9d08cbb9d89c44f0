"""What minova-network-helper reads in the configuration of its host."""

from pathlib import Path

import pytest

from minova.cmd.network_helper import bridges_of, main, owner_of
from minova.errors import HypervisorError
from minova.virt.namespaces.network import LocalNetwork, NetworkRecord
from minova.virt.namespaces.records import write_record


@pytest.mark.parametrize(
    ("text", "owner"),
    [
        ("", "qemu:///system"),
        ("[libvirt]\nconnection_uri = qemu:///session\n", "qemu:///session"),
        ("[networks]\nbridge_mappings = lan:br0\n[libvirt]\nvirt_type = test\n", "test:///default"),
    ],
)
def test_owner_of_its_networks_is_the_libvirtd_of_the_host(tmp_path: Path, text: str, owner: str) -> None:
    file = tmp_path / "minova.conf"
    file.write_text(text)
    assert owner_of([str(file)]) == owner
    assert bridges_of([str(file)]) == ({"br0"} if "br0" in text else set())


def test_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    file = tmp_path / "minova.conf"
    file.write_text("[libvirt\n")
    for read in (bridges_of, owner_of):
        with pytest.raises(HypervisorError, match=f"not known: .*{file}"):
            read([str(file)])


def test_bug_removal_for_an_unknown_libvirtd_removes_nothing_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ended without a line, as if it had removed all."""
    words = ["minova-network-helper", "--run-dir", str(tmp_path), "--remove-networks-of", "qemu:///typo"]
    monkeypatch.setattr("sys.argv", words)
    with pytest.raises(SystemExit, match=f"in {tmp_path} no network is of 'qemu:///typo'; owners there: none"):
        main()
    network_id = "0a1b2c3d-4e5f-4a6b-8c7d-0123456789ab"
    record = NetworkRecord(
        network=LocalNetwork(network_id=network_id), index=0, mac="fa:16:3e:00:00:01", owner="qemu:///system"
    )
    write_record(tmp_path / "networks" / f"minova-{network_id}", record)
    (tmp_path / "bridges.json").write_text('{"qemu:///session": ["br0"]}')
    with pytest.raises(SystemExit, match="owners there: 'qemu:///session', 'qemu:///system'"):
        main()
    assert (tmp_path / "networks" / f"minova-{network_id}").exists()
