"""Lines of owners: places that all share, and what becomes of the messages of an owner that has too many."""

from minova.concurrency.owner_lines import LineEntry, OwnerLines


def test_an_owner_with_all_its_places_waits_and_others_do_not() -> None:
    lines: OwnerLines[int] = OwnerLines(places=2, most_waiting=2)
    assert [lines.enter("a", number) for number in range(5)] == [
        LineEntry.NOW,
        LineEntry.NOW,
        LineEntry.WAITS,
        LineEntry.LAST,
        LineEntry.DROPPED,
    ]
    assert lines.enter("b", 0) is LineEntry.NOW
    assert [lines.leave("a") for _ in range(4)] == [2, 3, None, None]
    assert lines.enter("a", 9) is LineEntry.NOW


def test_bug_a_steady_flood_says_so_at_each_message() -> None:
    lines: OwnerLines[int] = OwnerLines(places=1, most_waiting=2)
    seen = [lines.enter("a", number) for number in range(3)]
    for number in range(100):
        lines.leave("a")
        seen.append(lines.enter("a", number))
    assert seen.count(LineEntry.LAST) == 1
    while lines.leave("a") is not None:
        pass
    assert [lines.enter("a", number) for number in range(3)][-1] is LineEntry.LAST
