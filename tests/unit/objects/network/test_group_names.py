"""Texts that are the name or the id of a security group."""

from minova.objects.network.group_names import ids_by_text


def test_an_id_wins_over_names() -> None:
    groups = [("u1", "web"), ("u2", "u1"), ("u3", "twin"), ("u4", "twin")]
    assert ids_by_text(groups) == {
        "u1": ["u1"],
        "u2": ["u2"],
        "u3": ["u3"],
        "u4": ["u4"],
        "web": ["u1"],
        "twin": ["u3", "u4"],
    }
