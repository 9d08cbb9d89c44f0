"""Whether a guest's file system fills its disk: stored and shown."""

import pytest

from minova.objects.catalogue.disk_config import changed, default_of, of_image, of_metadata, to_metadata


def test_a_choice_is_kept_and_can_change() -> None:
    assert of_metadata(to_metadata("AUTO")) == "AUTO"
    assert [of_metadata(to_metadata(choice)) for choice in ("MANUAL", None)] == ["MANUAL", "MANUAL"]
    assert changed({"a": "b", "auto_disk_config": "True"}, "MANUAL") == {"a": "b"}
    assert of_metadata(changed({"a": "b"}, "AUTO")) == "AUTO"
    assert changed({"a": "b"}, "AUTO")["a"] == "b"


@pytest.mark.parametrize(
    ("properties", "value", "default"),
    [
        ({}, "", "MANUAL"),
        ({"hw_auto_disk_config": "True"}, "True", "AUTO"),
        ({"auto_disk_config": "yes"}, "yes", "AUTO"),
        ({"hw_auto_disk_config": "disabled", "auto_disk_config": "True"}, "disabled", "MANUAL"),
    ],
)
def test_an_image_sets_the_default(properties: dict[str, str], value: str, default: str) -> None:
    assert (of_image(properties), default_of(properties)) == (value, default)
