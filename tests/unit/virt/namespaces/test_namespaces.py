"""Values of the namespaces of local networks, which a process with root's rights takes from one without them."""

from pathlib import Path

import pytest

from minova.virt.namespaces import dnsmasq
from minova.virt.namespaces.namespaces import Namespaces
from minova.virt.namespaces.network import require_interface


@pytest.mark.parametrize("name", ["", "\0", "a/b", "..", "x" * 16, "eth0\n", "-o x"])
def test_bug_a_name_that_is_none_breaks_every_later_call(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="is no name of an interface"):
        Namespaces(tmp_path).track([name])
    assert list(tmp_path.iterdir()) == []


def test_names_of_interfaces() -> None:
    for name in ("br0", "br-ex", "vlan.100", "a:1", "x" * 15):
        require_interface(name)


def test_bug_guests_read_names_and_queries_of_others_at_the_resolver_of_the_host(tmp_path: Path) -> None:
    (text,) = dnsmasq.of_host(tmp_path).values()
    assert {"no-hosts", "cache-size=0"} <= {*text.splitlines()}


def test_only_bridges_of_the_configuration_are_tracked(tmp_path: Path) -> None:
    for name in ("eth0", "docker0", "mn0123456789ab"):
        with pytest.raises(ValueError, match="bridge_mappings"):
            Namespaces(tmp_path, bridges=lambda: {"br0"}).track([name])
    assert list(tmp_path.iterdir()) == []
