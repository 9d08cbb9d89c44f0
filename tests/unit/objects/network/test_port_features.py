"""Ports that a server may use."""

from typing import Any

import pytest

from minova.objects.network.port_features import refusal_reason


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({}, None),
        ({"binding:vnic_type": "normal", "resource_request": {}, "trunk_details": None}, None),
        ({"binding:vnic_type": None}, None),
        ({"binding:vnic_type": "direct"}, "Port p has binding:vnic_type direct"),
        ({"resource_request": {"required": []}}, "Port p has a resource_request"),
        ({"trunk_details": {"trunk_id": "t"}}, "Port p is the parent of a trunk"),
    ],
)
def test_a_feature_that_needs_its_hosts_support_is_refused(fields: dict[str, Any], why: str | None) -> None:
    reason = refusal_reason({"id": "p", **fields})
    assert reason is None if why is None else why in (reason or "")
