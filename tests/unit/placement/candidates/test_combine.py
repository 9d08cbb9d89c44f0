"""Small trees drawn as text: `name(parent) CLASS=free ... +TRAIT @aggregate`, one provider a line, roots without parent."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minova.placement.candidates.combine import Candidate, Combiner
from minova.placement.candidates.request import CandidateRequest, RequestGroup
from minova.placement.candidates.tree import SHARES, Node, Tree, sharing_with, slots_of
from minova.placement.limits.inventory_checks import InventoryUsage

HOST = """
    host VCPU=8 MEMORY_MB=64 +X @agg
    numa0(host) PCPU=4 +NUMA
    numa1(host) PCPU=4 +NUMA +SSD
    nic0(numa0) VF=2 +FAST
    nic1(numa1) VF=1
"""
STORE = f"""
    store DISK_GB=100 +{SHARES} +SSD @agg
"""


def nodes_of(text: str) -> list[Node]:
    node_by_name: dict[str, Node] = {}
    for number, line in enumerate(text.split("\n")):
        if not line.strip():
            continue
        name, *words = line.split()
        name, _, parent = name.rstrip(")").partition("(")
        above = node_by_name.get(parent)
        inventories = dict(word.split("=") for word in words if "=" in word)
        node_by_name[name] = Node(
            id=number + len(text) * 100,
            uuid=name,
            root_id=above.root_id if above else number + len(text) * 100,
            root_uuid=above.root_uuid if above else name,
            parent_id=above.id if above else None,
            inventories={name: InventoryUsage(int(free), 0, 1, int(free), 1) for name, free in inventories.items()},
            traits=frozenset(word[1:] for word in words if word[0] == "+"),
            aggregates=frozenset(word[1:] for word in words if word[0] == "@"),
        )
    return list(node_by_name.values())


def tree_of(text: str, shared: str = "") -> Tree:
    nodes, others = nodes_of(text), nodes_of(shared)
    parents = {node.id: node.parent_id for node in (*nodes, *others)}
    return Tree(nodes[0], nodes, sharing_with(nodes, others), parents)


def asks(*groups: RequestGroup, **wide: object) -> CandidateRequest:
    return CandidateRequest(groups=groups, **wide)  # type: ignore[arg-type]


def group(suffix: str = "", asked: str = "", **more: object) -> RequestGroup:
    resources = {name: int(amount) for name, amount in (word.split("=") for word in asked.split())}
    return RequestGroup(suffix=suffix, resources=resources, **more)  # type: ignore[arg-type]


def all_of(request: CandidateRequest, tree: Tree, in_trees: dict[str, int] | None = None) -> list[Candidate]:
    return list(Combiner(request, in_trees or {}).candidates_of(tree))


def candidates_of(request: CandidateRequest, tree: Tree, in_trees: dict[str, int] | None = None) -> list[str]:
    """Each candidate as `suffix:provider,provider suffix:provider`, sorted."""
    lines = []
    for candidate in all_of(request, tree, in_trees):
        mappings = sorted(candidate.mappings().items())
        lines.append(" ".join(f"{suffix}:{','.join(sorted(uuids))}" for suffix, uuids in mappings))
    return sorted(lines)


def traits(*names: str) -> frozenset[str]:
    return frozenset(names)


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        ([group(asked="VCPU=8")], [":host"]),
        ([group(asked="VCPU=9")], []),
        ([group(asked="VGPU=1")], []),
        ([group(asked="VCPU=1 VF=1")], [":host,nic0", ":host,nic1"]),
        ([group(asked="VCPU=1 VF=2")], [":host,nic0"]),
        ([group("1", "VCPU=1 VF=1")], []),
        ([group("1", "VF=1"), group("2", "VF=1")], ["1:nic0 2:nic0", "1:nic0 2:nic1", "1:nic1 2:nic0"]),
        ([group("1", "VF=2"), group("2", "VF=1")], ["1:nic0 2:nic1"]),
        ([group("1", "VF=2"), group("2", "VF=2")], []),
        ([group("1", "VF=1", required=(traits("FAST"),))], ["1:nic0"]),
        ([group("1", "VF=1", forbidden=traits("FAST"))], ["1:nic1"]),
        ([group("1", "PCPU=1", required=(traits("SSD", "FAST"),))], ["1:numa1"]),
        ([group(asked="PCPU=1 VF=1", required=(traits("FAST"),))], [":nic0,numa0", ":nic0,numa1"]),
        ([group(asked="PCPU=1 VF=1", required=(traits("FAST"), traits("SSD")))], [":nic0,numa1"]),
        ([group(asked="PCPU=1 VF=1", forbidden=traits("SSD", "FAST"))], [":nic1,numa0"]),
        ([group(asked="PCPU=1", required=(traits("X"),))], []),
    ],
)
def test_which_provider_serves_which_group(asked: list[RequestGroup], answer: list[str]) -> None:
    assert candidates_of(asks(*asked), tree_of(HOST)) == answer


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        # A root's aggregates span its tree for the group without suffix; a granular one looks at its provider alone.
        ([group(asked="VF=2", member_of=(traits("agg"),))], [":nic0"]),
        ([group("1", "VF=2", member_of=(traits("agg"),))], []),
        ([group("1", "VCPU=2", member_of=(traits("agg", "other"),))], ["1:host"]),
        ([group("1", "VCPU=2", member_of=(traits("agg"), traits("other")))], []),
        ([group(asked="VF=2", forbidden_aggregates=traits("agg"))], []),
        ([group("1", "VF=2", forbidden_aggregates=traits("agg"))], ["1:nic0"]),
    ],
)
def test_aggregates(asked: list[RequestGroup], answer: list[str]) -> None:
    assert candidates_of(asks(*asked), tree_of(HOST)) == answer


def test_isolated_groups_come_from_providers_of_their_own_and_the_one_without_suffix_does_not_count() -> None:
    groups = [group(asked="VF=1"), group("1", "VF=1"), group("2", "VF=1")]
    assert candidates_of(asks(*groups[1:], isolate=True), tree_of(HOST)) == ["1:nic0 2:nic1", "1:nic1 2:nic0"]
    assert candidates_of(asks(*groups, isolate=True), tree_of(HOST)) == [":nic0 1:nic0 2:nic1", ":nic0 1:nic1 2:nic0"]


def test_of_a_same_subtree_one_is_above_all_others() -> None:
    groups = [group("A", "PCPU=1"), group("B", "VF=1")]
    together = {"same_subtrees": (traits("A", "B"),)}
    assert candidates_of(asks(*groups, **together), tree_of(HOST)) == ["A:numa0 B:nic0", "A:numa1 B:nic1"]
    # Two of the same height have none above them among the chosen.
    nics = [group("A", "VF=1"), group("B", "VF=1"), group("C", "", required=(traits("NUMA"),))]
    of_one_cell = asks(*nics, same_subtrees=(traits("A", "B", "C"),))
    assert candidates_of(of_one_cell, tree_of(HOST)) == ["A:nic0 B:nic0 C:numa0"]


def test_what_is_above_others_of_a_same_subtree_may_be_chosen_last() -> None:
    tree = tree_of(HOST + "    nic2(numa0) VF=1\n")
    of_cell = {"same_subtrees": (traits("A", "B", "C"),), "isolate": True}
    nics = [group("A", "VF=2"), group("B", "VF=1", forbidden=traits("FAST"))]
    cell = group("C", "", required=(traits("NUMA"),))
    assert candidates_of(asks(*nics, cell, **of_cell), tree) == ["A:nic0 B:nic2 C:numa0"]


def test_a_dead_end_is_one_only_for_the_same_isolated_providers() -> None:
    tree = tree_of("""
        host VCPU=1
        a(host) VF=2 +FIRST
        b(host) VF=3 +FIRST +SECOND
        c(host) VF=2 +SECOND +LAST
    """)
    first, second = ({"required": (traits(name),)} for name in ("FIRST", "SECOND"))
    apart = [group("1", "VF=1", **first), group("2", "VF=1", **second), group("3", "VF=1", **second)]
    request = asks(group(asked="VF=1", forbidden=traits("LAST")), *apart, isolate=True)
    # Group 1 leaves b and c to the others, wherever the group without a suffix is served.
    assert candidates_of(request, tree) == [
        f":{spread} 1:a 2:{two} 3:{three}" for spread in "ab" for two, three in ("bc", "cb")
    ]


def test_a_root_may_be_asked_for_its_traits() -> None:
    for names, answer in ((("X",), [":nic0"]), (("NUMA",), [])):
        assert candidates_of(asks(group(asked="VF=2"), root_required=traits(*names)), tree_of(HOST)) == answer
    assert candidates_of(asks(group(asked="VF=2"), root_forbidden=traits("X")), tree_of(HOST)) == []


def test_sharing_provider_serves_trees_of_its_aggregates() -> None:
    assert candidates_of(asks(group(asked="VCPU=1 DISK_GB=1")), tree_of(HOST, STORE)) == [":host,store"]
    assert candidates_of(asks(group(asked="VCPU=1 DISK_GB=1")), tree_of(HOST, STORE.replace("@agg", "@other"))) == []
    assert candidates_of(asks(group(asked="VCPU=1 DISK_GB=1", required=(traits("SSD"),))), tree_of(HOST, STORE)) == [
        ":host,store"
    ]


def test_sharing_provider_must_be_in_the_aggregates_itself() -> None:
    request = asks(group(asked="VCPU=1 DISK_GB=1", member_of=(traits("zone"),)))
    assert candidates_of(request, tree_of(HOST.replace("@agg", "@agg @zone"), STORE)) == []
    assert (
        candidates_of(request, tree_of(HOST.replace("@agg", "@agg @zone"), STORE.replace("@agg", "@agg @zone"))) != []
    )


def test_group_with_in_tree_is_served_by_that_tree_and_its_sharing_providers() -> None:
    tree = tree_of(HOST, STORE)
    host, store = tree.root.id, next(iter(tree.sharing)).id
    request = asks(group(asked="VCPU=1"), group("1", "DISK_GB=1"))
    assert candidates_of(request, tree, {"": host, "1": store}) == [":host 1:store"]
    assert candidates_of(request, tree, {"": host, "1": host}) == []
    assert candidates_of(asks(group(asked="VCPU=1 DISK_GB=1")), tree, {"": host}) == []


def test_old_clients_get_one_provider_of_a_tree_and_those_that_share() -> None:
    tree = tree_of(HOST, STORE)
    assert candidates_of(asks(group(asked="VCPU=1 VF=1"), nested=False), tree) == []
    assert candidates_of(asks(group(asked="VF=1 DISK_GB=1"), nested=False), tree) == [":nic0,store", ":nic1,store"]


def test_amounts_of_several_groups_add_up() -> None:
    (candidate,) = all_of(asks(group(asked="VCPU=1 MEMORY_MB=8"), group("1", "VCPU=2")), tree_of(HOST))
    assert candidate.allocations() == {"host": {"VCPU": 3, "MEMORY_MB": 8}}
    assert candidate.mappings() == {"": ["host"], "1": ["host"]}


def test_the_sum_of_several_groups_stays_below_max_unit() -> None:
    tree = tree_of("host VCPU=8")
    node = Node(id=1, uuid="host", root_id=1, root_uuid="host", inventories={"VCPU": InventoryUsage(8, 0, 1, 3, 1)})
    tree = Tree(node, [node], (), {1: None})
    assert candidates_of(asks(group("1", "VCPU=1"), group("2", "VCPU=2")), tree) == ["1:host 2:host"]
    assert candidates_of(asks(group("1", "VCPU=2"), group("2", "VCPU=2")), tree) == []


@pytest.mark.parametrize(
    ("inventory", "amount", "takes"),
    [
        (InventoryUsage(8, 0, 1, 8, 1), 8, True),
        (InventoryUsage(8, 1, 1, 8, 1), 8, False),
        (InventoryUsage(8, 0, 1, 4, 1), 5, False),
        (InventoryUsage(8, 0, 2, 8, 1), 1, False),
        (InventoryUsage(8, 0, 1, 8, 2), 3, False),
        (InventoryUsage(8, 9, 1, 8, 1), 1, False),
    ],
)
def test_units_steps_and_capacity(inventory: InventoryUsage, amount: int, takes: bool) -> None:
    assert inventory.takes(amount) is takes


def devices(count: int, of_each: int) -> Tree:
    return tree_of("\n".join(["host VCPU=8", *(f"pci{number}(host) VF={of_each}" for number in range(count))]))


def groups(count: int, asked: str = "VF=1") -> Sequence[RequestGroup]:
    return [group(f"_{number}", asked) for number in range(count)]


def test_eight_groups_over_eight_devices_are_all_permutations_and_the_first_come_first() -> None:
    request = asks(*groups(8), isolate=True)
    assert len(list(islice(Combiner(request, {}).candidates_of(devices(8, 1)), 1000))) == 1000
    assert len(candidates_of(asks(*groups(5)), devices(5, 1))) == 120


@pytest.mark.parametrize(
    "request_and_tree",
    [
        (asks(*groups(16)), devices(15, 1)),
        (asks(*groups(16), isolate=True), devices(15, 2)),
        (asks(*groups(13, "VF=3")), devices(12, 5)),
        (asks(*groups(12), group("last", "VF=1", required=(traits("NONE"),))), devices(20, 1)),
    ],
)
def test_what_cannot_be_is_found_out_without_trying_every_order(
    request_and_tree: tuple[CandidateRequest, Tree],
) -> None:
    # Tried in every order, each of these takes longer than the age of the universe.
    assert all_of(*request_and_tree) == []


# Of a tree: for each provider the place of its parent, and capacity, used and max_unit of its VFs.
inventories = st.builds(InventoryUsage, st.integers(0, 4), st.integers(0, 2), st.just(1), st.integers(1, 4), st.just(1))
PROVIDERS = st.lists(st.tuples(st.integers(0, 4), inventories, st.booleans()), min_size=1, max_size=5)
PARTS = st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["", "FAST"])), min_size=1, max_size=4)


@st.composite
def trees(draw: st.DrawFn) -> Tree:
    """The root has VCPUs beside its VFs, and some providers are fast."""
    nodes: list[Node] = []
    for number, (place, vfs, is_fast) in enumerate(draw(PROVIDERS)):
        parent = nodes[place % number] if number else None
        nodes.append(
            Node(
                id=number,
                uuid=str(number),
                root_id=0,
                root_uuid="0",
                parent_id=parent.id if parent is not None else None,
                inventories={"VF": vfs} if number else {"VF": vfs, "VCPU": InventoryUsage(2, 0, 1, 2, 1)},
                traits=traits("FAST") if is_fast else traits(),
            )
        )
    return Tree(nodes[0], nodes, (), {node.id: node.parent_id for node in nodes})


@st.composite
def requests(draw: st.DrawFn) -> CandidateRequest:
    granular = [
        group(f"_{number}", f"VF={amount}" if amount else "", required=(traits(trait),) if trait else ())
        for number, (amount, trait) in enumerate(draw(PARTS))
    ]
    spread = draw(st.sampled_from(["", "VCPU=1", "VF=1", "VCPU=1 VF=2"]))
    of_tree = [group("", spread, required=draw(st.sampled_from([(), (traits("FAST"),)])))] if spread else []
    suffixes = [each.suffix for each in granular]
    return asks(
        *of_tree,
        *granular,
        isolate=draw(st.booleans()),
        same_subtrees=tuple(draw(st.lists(st.sets(st.sampled_from(suffixes)).map(frozenset), max_size=2))),
        nested=draw(st.sampled_from([True, True, False])),
    )


def by_trying_everything(request: CandidateRequest, tree: Tree) -> Iterator[Candidate]:
    slots = slots_of(tree, request, {}) or []
    for nodes in product(*(slot.options for slot in slots)) if slots else ():
        if is_candidate(request, tree, candidate := Candidate(slots, nodes)):
            yield candidate


def is_candidate(request: CandidateRequest, tree: Tree, candidate: Candidate) -> bool:
    chosen = list(zip(candidate.slots, candidate.nodes, strict=True))
    taken = Counter[tuple[Node, str]]()
    for slot, node in chosen:
        taken.update({(node, name): amount for name, amount in slot.resources.items()})
    apart = [node for slot, node in chosen if slot.group.granular]
    borne = traits().union(*(node.traits for slot, node in chosen if not slot.group.granular))
    return (
        all(
            amount <= node.inventories[name].capacity - node.inventories[name].used
            and amount <= node.inventories[name].max_unit
            for (node, name), amount in taken.items()
        )
        and not (request.isolate and len(apart) > len(set(apart)))
        and (request.nested or len(set(candidate.nodes)) == 1)
        and all(borne & some for group in request.groups if not group.granular for some in group.required)
        and all(
            has_one_above([n.id for s, n in chosen if s.group.suffix in some], tree) for some in request.same_subtrees
        )
    )


def has_one_above(ids: Sequence[int], tree: Tree) -> bool:
    def is_above(upper: int, lower: int | None) -> bool:
        return lower is not None and (lower == upper or is_above(upper, tree.parents[lower]))

    return not ids or any(all(is_above(upper, lower) for lower in ids) for upper in ids)


@given(requests(), trees())
def test_the_candidates_are_those_that_trying_everything_finds(request: CandidateRequest, tree: Tree) -> None:
    found = [candidate.key() for candidate in all_of(request, tree)]
    assert Counter(found) == Counter(candidate.key() for candidate in by_trying_everything(request, tree))
