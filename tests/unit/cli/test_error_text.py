"""What is read out of answers."""

import errno
import json

import pytest

from minova.cli.error_text import error_message, innermost_reason, next_marker, redact_body


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b'{"itemNotFound": {"code": 404, "message": "Flavor 9 could not be found."}}', "Flavor 9 could not be found."),
        (b'{"error": {"code": 409, "message": "taken", "title": "Conflict"}}', "taken"),
        (b'{"title": "400 Bad Request", "description": "No body"}', "No body"),
        (b'{"title": "413 Too Large"}', "413 Too Large"),
        (b"plain words\nsecond line", "plain words"),
        (b"<html><h1>502</h1></html>", ""),
        (b"[]", ""),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b"", ""),
    ],
)
def test_the_text_of_an_error_in_every_form(data: bytes, message: str) -> None:
    assert error_message(data) == message


@pytest.mark.parametrize(
    ("page", "marker"),
    [
        ({"servers_links": [{"rel": "next", "href": "http://h/v2.1/servers?limit=2&marker=abc"}]}, "abc"),
        ({"servers_links": [{"rel": "self", "href": "http://h/v2.1/servers?marker=abc"}]}, None),
        ({"next": "/v2/images?marker=x%20y"}, "x y"),
        ({"next": "/v2/images"}, None),
        ({}, None),
    ],
)
def test_where_the_next_page_begins(page: dict[str, object], marker: str | None) -> None:
    assert next_marker(page, "servers") == marker


def test_the_reason_is_the_systems_word_however_deep() -> None:
    wrapped = RuntimeError("<object at 0x7f>: it failed")
    wrapped.__cause__ = OSError(errno.ECONNREFUSED, "Connection refused")
    assert innermost_reason(wrapped) == "Connection refused"


def test_secrets_are_not_shown() -> None:
    body = {"server": {"name": "web", "user_data": "c2VjcmV0", "adminPass": "x"}}
    assert json.loads(redact_body(body)) == {"server": {"name": "web", "user_data": "***", "adminPass": "***"}}
