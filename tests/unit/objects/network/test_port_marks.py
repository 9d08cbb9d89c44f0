"""The mark on ports that minova has created."""

from typing import Any

import pytest

from minova.objects.network.port_marks import interface_of, is_marked, mark


def test_a_mark_names_the_server_and_its_interface() -> None:
    assert is_marked(mark("vm", 7), "vm")
    assert not is_marked(mark("vm", 7), "other")
    assert (interface_of(mark("vm", 7)), interface_of(mark("vm"))) == (7, None)


@pytest.mark.parametrize(
    "profile", [None, {}, "text", {"minova": "text"}, {"minova": {}}, {"minova": {"interface": "7"}}]
)
def test_any_other_profile_is_no_mark(profile: Any) -> None:
    port = {} if profile is None else {"binding:profile": profile}
    assert not is_marked(port, "vm")
    assert interface_of(port) is None
