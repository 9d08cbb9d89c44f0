"""On which nodes an instance is."""

from hypothesis import given
from hypothesis import strategies as st

from minova.scheduler.hosts.instance_index import InstanceIndex, RowsOfHosts
from tests.unit.scheduler.hosts import record

steps = st.lists(st.tuples(st.booleans(), st.integers(1, 3), st.sets(st.sampled_from("abc"))))


@given(steps)
def test_an_instance_is_on_the_nodes_that_got_it_and_have_not_lost_it(
    changes: list[tuple[bool, int, set[str]]],
) -> None:
    index = InstanceIndex()
    nodes: dict[str, set[int]] = {}
    for puts, node, uuids in changes:
        (index.put if puts else index.drop)(node, uuids)
        for uuid in uuids:
            of_instance = nodes.setdefault(uuid, set())
            (of_instance.add if puts else of_instance.discard)(node)
    assert {uuid: set(index.nodes(uuid)) for uuid in "abc"} == {uuid: nodes.get(uuid, set()) for uuid in "abc"}
    copy = index.copy()
    copy.put(9, "a")
    copy.drop(1, "b")
    assert {uuid: set(index.nodes(uuid)) for uuid in "abc"} == {uuid: nodes.get(uuid, set()) for uuid in "abc"}
    assert set(copy.nodes("a")) == nodes.get("a", set()) | {9}


def test_nodes_of_a_host_are_found_whatever_the_case_until_they_are_forgotten() -> None:
    rows, records = RowsOfHosts(), [record(1, host="A"), record(2, host="b"), record(3, host="a")]
    assert (rows.of(records, "a"), rows.of(records, "b"), rows.of(records, "A")) == ([0, 2], [1], [])
    assert rows.of(records[1:], "a") == [0, 2]
    rows.forget()
    assert rows.of(records[1:], "a") == [1]
