"""Which bridges of the configuration are there, and what the log says of it."""

import logging

import pytest

from minova.virt.libvirt.networking.bridges import Bridges, is_interface


def test_interfaces_of_this_host() -> None:
    assert is_interface("lo")
    assert not is_interface("no-such-one")
    assert not is_interface("longer-than-any-interface-can-be")


def test_a_bridge_that_goes_and_comes_is_logged_once_each(caplog: pytest.LogCaptureFixture) -> None:
    present = {"br0"}
    bridges = Bridges({"dc1": "br0", "dc1.7": "br7"}, present.__contains__)
    with caplog.at_level(logging.INFO):
        for _ in range(2):
            assert bridges.present() == {"dc1": "br0"}
        present.add("br7")
        for _ in range(2):
            assert bridges.present() == {"dc1": "br0", "dc1.7": "br7"}
        present.clear()
        assert bridges.present() == {}
    assert [record.getMessage() for record in caplog.records] == [
        "[networks] bridge_mappings: bridge br7 is not there: no server on dc1.7 is built here",
        "Bridge br7 is there again, and carries dc1.7",
        "[networks] bridge_mappings: bridge br0 is not there: no server on dc1 is built here",
        "[networks] bridge_mappings: bridge br7 is not there: no server on dc1.7 is built here",
    ]
