"""What minova-network-helper reads in the configuration of its host."""

from pathlib import Path

import pytest

from minova.cmd.network_helper import bridges_of, owner_of
from minova.errors import HypervisorError


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
