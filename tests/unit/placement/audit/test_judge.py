import msgspec
import pytest

from minova.placement.audit.judge import (
    Consumer,
    Holding,
    Instance,
    Kind,
    Provider,
    UsedAmount,
    judge,
    judge_provider,
    judge_used,
)

ON_A = Instance(
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
        (None, [holding_of("a")], False, Kind.WITHOUT_INSTANCE, {}),
        (NOWHERE, [holding_of("a")], False, Kind.WITHOUT_INSTANCE, {}),
        (ON_A, [], False, Kind.WITHOUT_ALLOCATION, {"a": {"VCPU": 2}}),
        (
            ON_A,
            [holding_of("store", node=False)],
            False,
            Kind.WITHOUT_ALLOCATION,
            {"store": {"VCPU": 2}, "a": {"VCPU": 2}},
        ),
        (ON_A, [holding_of("b", VCPU=3)], False, Kind.WRONG_PROVIDER, {"a": {"VCPU": 3}}),
        (ON_A, [holding_of("b"), holding_of("c")], False, Kind.WRONG_PROVIDER, {"a": {"VCPU": 4}}),
        (ON_A, [holding_of("a"), holding_of("b")], False, Kind.WRONG_PROVIDER, {"a": {"VCPU": 2}}),
        (ON_A, [holding_of("numa0", "a"), holding_of("b")], False, Kind.WRONG_PROVIDER, {"numa0": {"VCPU": 2}}),
    ],
)
def test_what_a_consumer_should_hold(
    instance: Instance | None,
    holdings: list[Holding],
    busy: bool,
    kind: Kind | None,
    should_hold: dict[str, dict[str, int]] | None,
) -> None:
    verdict = judge(Consumer(uuid="i", holdings=holdings, instance=instance, busy=busy))
    assert (verdict and verdict.finding.kind) == kind
    assert (verdict and verdict.allocations) == should_hold


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
    assert judge_provider(Provider(uuid="a", name="a", consumers=0)).remedy == "delete the provider"
    held = judge_provider(Provider(uuid="a", name="a", consumers=2))
    assert held.remedy == "delete the provider, once nothing of it is held"
    assert held.detail.endswith("and 2 consumers hold something of it")
