import msgspec
import pytest

from minova.placement.audit.judge import (
    AuditedConsumer,
    AuditedInstance,
    AuditedMove,
    FindingKind,
    Holding,
    Offer,
    ProviderWithoutNode,
    UsedAmount,
    judge,
    judge_move,
    judge_provider,
    judge_used,
)

ON_A = AuditedInstance(
    host="a",
    node="a",
    state="active",
    holds_resources=True,
    provider_uuid="a",
    provider_name="a",
    alternatives=({"VCPU": 2},),
)
NOWHERE = msgspec.structs.replace(ON_A, host=None, state="error", holds_resources=False)
LOST = msgspec.structs.replace(ON_A, provider_uuid=None)


def holding_of(provider: str, root: str = "", *, node: bool = True, **resources: int) -> Holding:
    return Holding(
        provider_uuid=provider,
        provider_name=provider,
        root_uuid=root or provider,
        of_node=node,
        resources=resources or {"VCPU": 2},
    )


@pytest.mark.parametrize(
    ("instance", "holdings", "busy", "kind", "should_hold"),
    [
        (ON_A, [holding_of("a")], False, None, None),
        (ON_A, [holding_of("a"), holding_of("store", node=False)], False, None, None),
        (ON_A, [holding_of("numa0", "a")], False, None, None),
        (LOST, [holding_of("b")], False, None, None),
        (NOWHERE, [], False, None, None),
        (None, [], False, None, None),
        (None, [holding_of("a")], True, None, None),
        (ON_A, [holding_of("b")], True, None, None),
        (ON_A, [], True, None, None),
        (None, [holding_of("a")], False, FindingKind.WITHOUT_INSTANCE, {}),
        (NOWHERE, [holding_of("a")], False, FindingKind.WITHOUT_INSTANCE, {}),
        (ON_A, [], False, FindingKind.WITHOUT_ALLOCATION, {"a": {"VCPU": 2}}),
        (
            ON_A,
            [holding_of("store", node=False)],
            False,
            FindingKind.WITHOUT_ALLOCATION,
            {"store": {"VCPU": 2}, "a": {"VCPU": 2}},
        ),
        (ON_A, [holding_of("b", VCPU=3)], False, FindingKind.WRONG_PROVIDER, {"a": {"VCPU": 3}}),
        (ON_A, [holding_of("b"), holding_of("c")], False, FindingKind.WRONG_PROVIDER, {"a": {"VCPU": 4}}),
        (ON_A, [holding_of("a"), holding_of("b")], False, FindingKind.WRONG_PROVIDER, {"a": {"VCPU": 2}}),
        (ON_A, [holding_of("numa0", "a"), holding_of("b")], False, FindingKind.WRONG_PROVIDER, {"numa0": {"VCPU": 2}}),
    ],
)
def test_what_a_consumer_should_hold(
    instance: AuditedInstance | None,
    holdings: list[Holding],
    busy: bool,
    kind: FindingKind | None,
    should_hold: dict[str, dict[str, int]] | None,
) -> None:
    verdict = judge(AuditedConsumer(uuid="i", holdings=holdings, instance=instance, busy=busy))
    assert (verdict and verdict.finding.kind) == kind
    assert (verdict and verdict.allocations) == should_hold


# The root and two cells.
TREE = [
    Offer(provider_uuid="a", free={"VCPU": 2, "PCPU": 2, "MEMORY_MB": 2}),
    Offer(provider_uuid="numa0", free={"VCPU": 8, "FPGA": 1, "VGPU": 1}),
    Offer(provider_uuid="numa1", free={"VCPU": 9, "FPGA": 2, "VGPU": 1}),
]


@pytest.mark.parametrize(
    ("alternatives", "holdings", "should_hold"),
    [
        pytest.param(
            [{"VCPU": 1, "PCPU": 1}], [holding_of("a", VCPU=1)], {"a": {"VCPU": 1, "PCPU": 1}}, id="one unit is missing"
        ),
        pytest.param(
            [{"VCPU": 1}, {"PCPU": 1}],
            [holding_of("a", VCPU=1, PCPU=1)],
            {"a": {"VCPU": 1}},
            id="one unit too many, of another alternative",
        ),
        pytest.param(
            [{"PCPU": 2}, {"VCPU": 2}],
            [holding_of("a", VCPU=1)],
            {"a": {"VCPU": 2}},
            id="the alternative with the fewest changes, not the preferred one",
        ),
        pytest.param(
            [{"PCPU": 1}, {"VCPU": 1}],
            [holding_of("a", VCPU=2)],
            {"a": {"VCPU": 1}},
            id="a class that it does not hold is a change",
        ),
        pytest.param(
            [{"PCPU": 1}, {"VCPU": 2}],
            [holding_of("a", VCPU=1)],
            {"a": {"VCPU": 2}},
            id="a class that it should not hold is a change",
        ),
        pytest.param(
            [{"PCPU": 1, "MEMORY_MB": 1}, {"VCPU": 1}],
            [holding_of("a", VCPU=2)],
            {"a": {"VCPU": 1}},
            id="a class that it neither holds nor should hold is no change",
        ),
        pytest.param(
            [{"PCPU": 1}, {"VCPU": 2, "MEMORY_MB": 2, "FPGA": 1}],
            [holding_of("a", VCPU=2, MEMORY_MB=2)],
            {"a": {"VCPU": 2, "MEMORY_MB": 2}, "numa1": {"FPGA": 1}},
            id="an amount that is right is no change",
        ),
        pytest.param(
            [{"PCPU": 3}, {"VCPU": 2}], [], {"a": {"VCPU": 2}}, id="the alternative for which there is capacity"
        ),
        pytest.param(
            [{"DISK_GB": 1}, {"VCPU": 1}], [], {"a": {"VCPU": 1}}, id="no provider offers the preferred class"
        ),
        pytest.param(
            [{"PCPU": 3, "VCPU": 1}, {"MEMORY_MB": 4, "VCPU": 1}],
            [holding_of("a", MEMORY_MB=2, PCPU=1)],
            {"a": {"PCPU": 3, "VCPU": 1}},
            id="only what is missing needs capacity",
        ),
        pytest.param([{"VCPU": 2}], [], {"a": {"VCPU": 2}}, id="the root before cells with more room"),
        pytest.param([{"VCPU": 3}], [], {"numa1": {"VCPU": 3}}, id="without room at the root the cell with most"),
        pytest.param([{"VCPU": 9}], [], {"numa1": {"VCPU": 9}}, id="all that is free"),
        pytest.param([{"VCPU": 10}], [], {"a": {"VCPU": 10}}, id="without room anywhere the root"),
        pytest.param([{"FPGA": 1}], [], {"numa1": {"FPGA": 1}}, id="a class that only cells have"),
        pytest.param(
            [{"VCPU": 4, "PCPU": 1}],
            [holding_of("numa0", "a", VCPU=1, PCPU=1), holding_of("numa1", "a", VCPU=2)],
            {"numa0": {"PCPU": 1}, "numa1": {"VCPU": 4}},
            id="the cell that gave most gives all",
        ),
        pytest.param(
            [{"VCPU": 4}],
            [holding_of("numa0", "a", VCPU=1), holding_of("numa1", "a", VCPU=2)],
            {"numa1": {"VCPU": 4}},
            id="a provider that gives nothing is left out",
        ),
        pytest.param(
            [{"VCPU": 1, "PCPU": 3}],
            [holding_of("a", VCPU=1), holding_of("numa0", "a", PCPU=1)],
            {"a": {"VCPU": 1}, "numa0": {"PCPU": 3}},
            id="the provider that gives the class already, not the first",
        ),
    ],
)
def test_amounts_and_providers_of_what_an_instance_should_hold(
    alternatives: list[dict[str, int]], holdings: list[Holding], should_hold: dict[str, dict[str, int]]
) -> None:
    instance = msgspec.structs.replace(ON_A, alternatives=alternatives, tree=TREE)
    verdict = judge(AuditedConsumer(uuid="i", holdings=holdings, instance=instance, busy=False))
    assert verdict is not None
    assert verdict.finding.kind == (FindingKind.WRONG_AMOUNT if holdings else FindingKind.WITHOUT_ALLOCATION)
    assert verdict.allocations == should_hold


@pytest.mark.parametrize("holdings", [[], [holding_of("a")], [holding_of("a", VCPU=7)]])
def test_amounts_of_a_flavor_that_cannot_be_read_are_not_judged(holdings: list[Holding]) -> None:
    instance = msgspec.structs.replace(ON_A, alternatives=())
    assert judge(AuditedConsumer(uuid="i", holdings=holdings, instance=instance, busy=False)) is None


@pytest.mark.parametrize(
    ("holdings", "instance", "detail", "remedy"),
    [
        ([holding_of("a")], None, "holds VCPU=2 on a, but there is no such instance", "release what it holds"),
        (
            [holding_of("a")],
            NOWHERE,
            "holds VCPU=2 on a, but the instance is error and on no host",
            "release what it holds",
        ),
        ([holding_of("b")], ON_A, "holds VCPU=2 on b, but the instance is on a", "move it to a"),
        (
            [holding_of("b"), holding_of("a")],
            ON_A,
            "holds VCPU=2 on b, but the instance is on a",
            "release that part",
        ),
        ([holding_of("a", VCPU=3)], ON_A, "holds VCPU=3 on a, but its flavor takes VCPU=2", "hold VCPU=2"),
        (
            [holding_of("a", VCPU=3), holding_of("numa0", "a", VCPU=1)],
            ON_A,
            "holds VCPU=3 on a, VCPU=1 on numa0, but its flavor takes VCPU=2",
            "hold VCPU=2",
        ),
        (
            [holding_of("b"), holding_of("c")],
            ON_A,
            "holds VCPU=2 on b, VCPU=2 on c, but the instance is on a",
            "move it to a",
        ),
        (
            [holding_of("b"), holding_of("c")],
            None,
            "holds VCPU=2 on b, VCPU=2 on c, but there is no such instance",
            "release what it holds",
        ),
        ([], ON_A, "active on a, of which it holds nothing", "allocate VCPU=2 on a"),
    ],
)
def test_texts_of_a_finding(
    holdings: list[Holding], instance: AuditedInstance | None, detail: str, remedy: str
) -> None:
    verdict = judge(AuditedConsumer(uuid="i", holdings=holdings, instance=instance, busy=False))
    assert verdict is not None
    assert (verdict.finding.detail, verdict.finding.remedy) == (detail, remedy)
    assert verdict.finding.provider_uuid == (holdings[0].provider_uuid if holdings else "a")


@pytest.mark.parametrize(
    ("holdings", "status", "owes", "detail"),
    [
        ([holding_of("a")], None, False, "holds VCPU=2 on a, but there is no such migration"),
        (
            [holding_of("a"), holding_of("b")],
            "confirmed",
            False,
            "holds VCPU=2 on a, VCPU=2 on b, but its migration is confirmed",
        ),
        ([holding_of("a")], "confirmed", True, None),
        ([holding_of("a")], "migrating", False, None),
        ([], "confirmed", False, None),
    ],
)
def test_a_move_that_is_over_holds_nothing(
    holdings: list[Holding], status: str | None, owes: bool, detail: str | None
) -> None:
    finding = judge_move(AuditedMove(uuid="m", holdings=holdings, status=status, owes=owes))
    assert (finding and (finding.detail, finding.provider_uuid)) == (detail and (detail, "a"))


@pytest.mark.parametrize(
    ("used", "allocated", "detail", "remedy"),
    [
        (3, 1, "VCPU of a says 3 are used; the sum of its allocations is 1", "set used to 1"),
        (None, 1, "VCPU of a has no inventory; the sum of its allocations is 1", "add an inventory without room"),
    ],
)
def test_wrong_used(used: int | None, allocated: int, detail: str, remedy: str) -> None:
    books = UsedAmount(provider_uuid="a", provider_name="a", resource_class="VCPU", used=used, allocated=allocated)
    finding = judge_used(books)
    assert finding is not None
    assert (finding.detail, finding.remedy) == (detail, remedy)
    assert judge_used(msgspec.structs.replace(books, used=allocated)) is None


def test_provider_without_node_and_consumers_is_deleted() -> None:
    assert judge_provider(ProviderWithoutNode(uuid="a", name="a", consumers=0)).remedy == "delete the provider"
    held = judge_provider(ProviderWithoutNode(uuid="a", name="a", consumers=2))
    assert held.remedy == "delete the provider, once nothing of it is held"
    assert held.detail.endswith("and 2 consumers hold something of it")
