"""By which names guests find each other."""

import pytest

from minova.objects.network.guest_names import domain_of

UUID = "5f705771-3aa9-4f4c-8660-0d9522ffdbea"


def test_name_stands_alone_on_a_network_of_its_project_alone() -> None:
    assert domain_of("alice", "alice", is_shared=False) == ""
    # An administrator may put servers of others there.
    assert domain_of("bob", "alice", is_shared=False) == "bob.openstacklocal"


@pytest.mark.parametrize("project", ["alice", "admin", UUID, UUID.replace("-", ""), "0", "x" * 63])
def test_name_has_the_project_on_a_shared_network(project: str) -> None:
    assert domain_of(project, "admin", is_shared=True) == f"{project}.openstacklocal"


def test_each_project_has_another_domain() -> None:
    """Resolvers ignore case, and labels end at dots."""
    projects = ["alice", "Alice", "ALICE", "a.lice", "alice.", "alice.openstacklocal", "", "-alice", "alice-", "x" * 64]
    domains = [domain_of(project, "admin", is_shared=True) for project in projects]
    assert len({domain.lower() for domain in domains}) == len(projects)
    for domain in domains:
        label, _, rest = domain.partition(".")
        assert (rest, 0 < len(label) < 64, label.isascii()) == ("openstacklocal", True, True)
