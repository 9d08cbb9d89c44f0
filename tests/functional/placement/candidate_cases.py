"""What holds of allocation candidates on every engine."""

import random
import re
from typing import Any
from urllib.parse import parse_qsl

import pytest

from minova.api.placement.candidates import body
from minova.db.engine import Database
from minova.placement.candidates.combine import Candidate
from minova.placement.candidates.query import parse
from minova.placement.candidates.request import CandidateRequest
from minova.placement.candidates.search import AllocationCandidates, search
from minova.placement.errors import BadRequest
from tests.conformance.placement import random_clouds
from tests.conformance.placement.minova_cloud import empty, put_cloud
from tests.functional.placement.naive_candidates import Naive, text_of

QUERIES = 30


def candidate_request(query: str, version: tuple[int, int] = (1, 39)) -> CandidateRequest:
    return parse(parse_qsl(query, keep_blank_values=True), version)


def find(db: Database, request: CandidateRequest) -> AllocationCandidates:
    with db.read() as session:
        return search(session, request)


def text(candidate: Candidate) -> str:
    held = {(u, name): n for u, resources in candidate.allocations().items() for name, n in resources.items()}
    return text_of(held, candidate.mappings())


def provider(name: str, parent: str | None = None, **more: Any) -> dict[str, Any]:
    given = {name: _inventory(total) for name, total in more.pop("inventories", {}).items()}
    return {"uuid": name, "parent": parent, "inventories": given, "traits": [], "aggregates": []} | more


def _inventory(total: int) -> dict[str, Any]:
    return {"total": total, "reserved": 0, "min_unit": 1, "max_unit": total, "step_size": 1, "allocation_ratio": 1.0}


def put(db: Database, *providers: dict[str, Any]) -> None:
    put_cloud(db, {"providers": providers, "consumers": {}})


ALONE, ELSEWHERE, RACK = (f"{number}" * 8 + "-0000-4000-8000-000000000000" for number in (1, 2, 3))
# Each has something of which the provider in question has nothing or too little.
OTHERS = [
    provider(ELSEWHERE, inventories={"VCPU": 8}, traits=["HW_CPU_X86_SSE"]),
    provider("gpu", ELSEWHERE, inventories={"VGPU": 1}, aggregates=[ELSEWHERE]),
]


class CandidateCases:
    # Each is a cloud of its own.
    SEEDS = range(5)

    def test_they_are_those_that_trying_everything_finds(self, db: Database) -> None:
        for seed in self.SEEDS:
            draw = random.Random(seed)
            cloud = random_clouds.cloud(draw)
            empty(db)
            put_cloud(db, cloud)
            naive = Naive(cloud)
            for _ in range(QUERIES):
                version, query = random_clouds.query(draw, cloud)
                request = candidate_request(query, (1, int(version.partition(".")[2])))
                answers = [text(candidate) for candidate in find(db, request).candidates]
                assert len(answers) == len(set(answers)), (seed, query)
                assert set(answers) == naive.candidates(request), (seed, query)

    def test_a_limit_takes_some_of_them_and_sums_up_only_their_trees(self, db: Database) -> None:
        for seed in self.SEEDS:
            draw = random.Random(seed)
            cloud = random_clouds.cloud(draw)
            empty(db)
            put_cloud(db, cloud)
            query = "resources=VCPU:1,MEMORY_MB:1&resources_A=DISK_GB:1"
            everything = find(db, candidate_request(query))
            for limit in (1, 2, 7):
                result = find(db, candidate_request(f"{query}&limit={limit}"))
                assert len(result.candidates) == min(limit, len(everything.candidates))
                assert {text(c) for c in result.candidates} <= {text(c) for c in everything.candidates}
                roots = {node.root_id for candidate in result.candidates for node in candidate.nodes}
                assert {node.id for node in result.nodes} == {n.id for n in everything.nodes if n.root_id in roots}

    def test_a_limit_takes_one_of_each_tree_before_it_takes_a_second(self, db: Database) -> None:
        for host in "abc":
            put_one = provider(host, inventories={"VCPU": 4})
            nics = [provider(f"{host}{number}", host, inventories={"SRIOV_NET_VF": 1}) for number in range(5)]
            put(db, put_one, *nics)
        result = find(db, candidate_request("resources=VCPU:1,SRIOV_NET_VF:1&limit=3"))
        assert {node.root_uuid for candidate in result.candidates for node in candidate.nodes} == {*"abc"}

    def test_trees_are_looked_through_until_there_are_enough(self, db: Database) -> None:
        # The database cannot see that one provider has both traits, and the other one the room, so all are read.
        traits = ["HW_CPU_X86_AVX"]
        put(db, provider("first", inventories={"VCPU": 4}, traits=traits))
        for number in range(70):
            root, child = f"root{number}", f"child{number}"
            put(
                db,
                provider(root, inventories={"VCPU": 4}),
                provider(child, root, inventories={"VGPU": 1}, traits=traits),
            )
        put(
            db,
            provider("last", inventories={"VCPU": 4}, traits=traits),
            provider("lastborn", "last", inventories={"VGPU": 1}),
        )
        result = find(db, candidate_request("resources=VCPU:1&required=HW_CPU_X86_AVX&limit=3"))
        assert [candidate.allocations() for candidate in result.candidates] == [
            {"first": {"VCPU": 1}},
            {"last": {"VCPU": 1}},
        ]

    @pytest.mark.parametrize("others", [[], OTHERS])
    @pytest.mark.parametrize(
        ("query", "found"),
        [
            ("resources=VCPU:4", True),
            ("resources=VCPU:5", False),
            ("resources=VGPU:1", False),
            (f"resources=VCPU:1&in_tree={ALONE}", True),
            (f"resources=VCPU:1&in_tree={ELSEWHERE}", False),
            ("resources=VCPU:1&required=HW_CPU_X86_AVX", True),
            ("resources=VCPU:1&required=HW_CPU_X86_SSE", False),
            ("resources=VCPU:1&required=!HW_CPU_X86_AVX", False),
            ("resources=VCPU:1&root_required=HW_CPU_X86_AVX", True),
            ("resources=VCPU:1&root_required=!HW_CPU_X86_AVX", False),
            (f"resources=VCPU:1&member_of={RACK}", True),
            (f"resources=VCPU:1&member_of={ELSEWHERE}", False),
            (f"resources=VCPU:1&member_of=!{RACK}", False),
            (f"resources=VCPU:1&member_of=!{ELSEWHERE}", True),
        ],
    )
    @pytest.mark.parametrize("suffix", ["", "_A"])
    def test_each_key_asks_a_provider_by_itself(
        self, db: Database, query: str, found: bool, others: list[dict[str, Any]], suffix: str
    ) -> None:
        """Whether it is the only one or has neighbours of which each lacks something."""
        inventories = {"VCPU": 4}
        put(db, provider(ALONE, inventories=inventories, traits=["HW_CPU_X86_AVX"], aggregates=[RACK]), *others)
        for key in ("resources", "in_tree", "required", "member_of"):
            query = re.sub(f"(^|&){key}=", rf"\1{key}{suffix}=", query)
        in_answers = {
            node.uuid for candidate in find(db, candidate_request(query)).candidates for node in candidate.nodes
        }
        assert (ALONE in in_answers) == found

    @pytest.mark.parametrize(("aggregate", "found"), [(RACK, True), (ELSEWHERE, False)])
    @pytest.mark.parametrize("member", ["host", "child"])
    def test_a_provider_shares_with_trees_of_its_aggregates(
        self, db: Database, aggregate: str, found: bool, member: str
    ) -> None:
        host = provider("host", inventories={"VCPU": 4})
        child = provider("child", "host", inventories={"VGPU": 1})
        (host if member == "host" else child)["aggregates"] = [RACK]
        traits = ["MISC_SHARES_VIA_AGGREGATE"]
        put(db, host, child, provider("store", inventories={"DISK_GB": 9}, traits=traits, aggregates=[aggregate]))
        answer = find(db, candidate_request("resources=VCPU:1,DISK_GB:1")).candidates
        both = {"host": {"VCPU": 1}, "store": {"DISK_GB": 1}}
        assert [candidate.allocations() for candidate in answer] == ([both] if found else [])

    @pytest.mark.parametrize(
        ("query", "said"),
        [
            ("resources=MCPU:1", "Invalid resource class in resources parameter: .*MCPU"),
            ("resources=VCPU:1&required=CUSTOM_X", r"No such trait\(s\): CUSTOM_X"),
            ("resources=VCPU:1&required=!CUSTOM_X", r"No such trait\(s\): CUSTOM_X"),
            ("resources=VCPU:1&root_required=CUSTOM_X", r"No such trait\(s\): CUSTOM_X"),
        ],
    )
    def test_an_unknown_class_or_trait_is_an_error(self, db: Database, query: str, said: str) -> None:
        with pytest.raises(BadRequest, match=said):
            find(db, candidate_request(query))

    def test_what_no_inventory_can_hold_and_a_tree_that_is_not_there_find_no_provider(self, db: Database) -> None:
        put(db, provider("a", inventories={"VCPU": 4}))
        nowhere = "aaaaaaaa-0000-4000-8000-000000000000"
        for query in (f"resources=VCPU:{10**30}", f"resources=VCPU:1&in_tree={nowhere}"):
            assert find(db, candidate_request(query)) == ([], [])

    def test_a_root_of_an_older_service_that_knows_not_its_own_root_is_found(self, db: Database) -> None:
        put(db, provider("a", inventories={"VCPU": 4}), provider("b", "a", inventories={"VGPU": 1}))
        with db.write() as session:
            session.connection().exec_driver_sql(
                "UPDATE resource_providers SET root_provider_id = NULL WHERE uuid = 'a'"
            )
        assert len(find(db, candidate_request("resources=VCPU:1,VGPU:1")).candidates) == 1

    def test_the_answer_takes_the_shape_of_each_microversion(self, db: Database) -> None:
        put(db, provider("a", inventories={"VCPU": 4, "DISK_GB": 9}, traits=["HW_CPU_X86_AVX"]), provider("b", "a"))

        def answer(minor: int) -> Any:
            request = candidate_request("resources=VCPU:1", (1, minor))
            return body(find(db, request), request, (1, minor))

        in_list = {"resource_provider": {"uuid": "a"}, "resources": {"VCPU": 1}}
        in_dict = {"a": {"resources": {"VCPU": 1}}}
        vcpu, disk = {"VCPU": {"capacity": 4, "used": 0}}, {"DISK_GB": {"capacity": 9, "used": 0}}
        traits = {"traits": ["HW_CPU_X86_AVX"]}
        of_a = {"parent_provider_uuid": None, "root_provider_uuid": "a"}
        of_b = {"resources": {}, "traits": [], "parent_provider_uuid": "a", "root_provider_uuid": "a"}
        assert answer(11)["allocation_requests"] == [{"allocations": [in_list]}]
        assert answer(12)["allocation_requests"] == [{"allocations": in_dict}]
        assert answer(34)["allocation_requests"] == [{"allocations": in_dict, "mappings": {"": ["a"]}}]
        assert answer(16)["provider_summaries"] == {"a": {"resources": vcpu}}
        assert answer(17)["provider_summaries"] == {"a": {"resources": vcpu} | traits}
        assert answer(27)["provider_summaries"] == {"a": {"resources": vcpu | disk} | traits}
        assert answer(29)["provider_summaries"] == {"a": {"resources": vcpu | disk} | traits | of_a, "b": of_b}
