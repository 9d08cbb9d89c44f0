"""Filters of the image list."""

from minova.api.image.filters import any_of


def test_filters_take_one_value_or_several() -> None:
    assert any_of(None) is None
    assert any_of("a") == ("a",)
    assert any_of('in:a,"b, c"') == ("a", "b, c")
    assert any_of("in:") == ()
