"""What each owner may hold, whatever others hold."""

from hypothesis import given
from hypothesis import strategies as st

from minova.concurrency.fair_shares import STRETCH, FairShares


def fill(shares: FairShares, owner: str) -> int:
    """Takes all that the owner may have. Returns how many."""
    while shares.fits(owner):
        shares.take(owner)
    return shares.held(owner)


def test_one_owner_may_hold_all_and_others_get_their_share_beyond() -> None:
    shares = FairShares(16)
    assert [fill(shares, owner) for owner in "abcd"] == [16, 8, 5, 4]


def test_even_many_owners_get_one_each_until_there_is_no_more() -> None:
    shares = FairShares(4)
    assert [fill(shares, str(owner)) for owner in range(20)] == [4, 2, *[1] * 10, *[0] * 8]


def test_place_that_is_given_back_is_free_again() -> None:
    shares = FairShares(1)
    shares.take("a")
    assert not shares.fits("a")
    shares.give("a")
    assert shares.fits("a")


@given(st.integers(1, 20), st.lists(st.tuples(st.sampled_from("abcdefgh"), st.booleans()), max_size=300))
def test_no_owner_with_less_than_its_share_waits_for_others(places: int, steps: list[tuple[str, bool]]) -> None:
    shares = FairShares(places)
    for owner, takes in steps:
        if takes and shares.fits(owner):
            shares.take(owner)
        elif not takes and shares.held(owner):
            shares.give(owner)
        held = [shares.held(each) for each in "abcdefgh"]
        assert sum(held) <= places * STRETCH
        for each in "abcdefgh":
            others = sum(map(bool, held)) + (shares.held(each) == 0)
            if shares.held(each) < max(1, places // others) and sum(held) < places * STRETCH:
                assert shares.fits(each)
