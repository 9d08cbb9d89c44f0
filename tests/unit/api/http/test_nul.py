from typing import Any

import pytest

from minova import errors
from minova.api.http.body import check_json
from minova.api.http.nul import check_document


@pytest.mark.parametrize(
    ("document", "place"),
    [
        ("\0", "$"),
        ({"a": {"b": ["x", "y\0"]}}, "$.a.b[1]"),
        ({"a": {"\0": 1}}, r"$.a.\u0000"),
        ([[], [{"c": "\0"}]], "$[1][0].c"),
    ],
)
def test_place_is_named(document: Any, place: str) -> None:
    with pytest.raises(errors.BadRequest) as refused:
        check_document(document)
    assert str(refused.value) == f"Invalid input: {place} has a NUL character."


def test_text_of_a_long_key_is_cut() -> None:
    with pytest.raises(errors.BadRequest) as refused:
        check_document({"x" * 10_000: "\0"})
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize("raw", [rb'"\u0000"', rb'"\\\u0000"', rb'{"\\\\\u0000": 1}'])
def test_escape_in_the_raw_body_is_found(raw: bytes) -> None:
    with pytest.raises(errors.BadRequest, match="NUL"):
        check_json(raw)


@pytest.mark.parametrize("raw", [rb'"\\u0000"', rb'"\u0001"', b'"u0000"'])
def test_what_only_looks_like_it_passes(raw: bytes) -> None:
    check_json(raw)
