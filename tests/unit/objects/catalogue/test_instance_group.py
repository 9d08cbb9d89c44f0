"""How many members of a group a host may have."""

import pytest

from minova.objects.catalogue.instance_group import InstanceGroup


@pytest.mark.parametrize(
    ("policy", "most", "on_a_host"),
    [
        ("anti-affinity", None, 1),
        ("anti-affinity", 3, 3),
        ("soft-anti-affinity", 3, None),
        ("affinity", None, None),
    ],
)
def test_only_anti_affinity_has_a_maximum(policy: str, most: int | None, on_a_host: int | None) -> None:
    group = InstanceGroup(uuid="g", policy=policy, max_server_per_host=most)
    assert group.most_per_host == on_a_host
    assert group.rules == ({} if most is None else {"max_server_per_host": most})
