"""How many rules of its host a port may cost."""

from minova.objects.network.vif import MAX_RANGES, VifRule, within_bound


def rule(ranges: int | None, number: int = 1) -> VifRule:
    remotes = None if ranges is None else tuple(f"10.{block >> 8}.{block & 255}.0/32" for block in range(ranges))
    return VifRule(direction="ingress", ip_version=4, protocol="tcp", port_min=number, port_max=number, remotes=remotes)


def test_rules_stay_as_they_are_up_to_the_bound() -> None:
    every = (rule(MAX_RANGES - 1), rule(None), rule(0))
    assert within_bound(every) == every


def test_beyond_it_the_rules_with_the_most_ranges_go() -> None:
    plain, small = rule(None), rule(3)
    huge = [rule(MAX_RANGES // 2, number) for number in (1, 2, 3)]
    kept = within_bound((*huge, plain, small))
    assert kept == (plain, small, huge[0])
    assert within_bound([rule(MAX_RANGES + 1)]) == ()
    assert len(within_bound([rule(None, number) for number in range(MAX_RANGES + 5)])) == MAX_RANGES
