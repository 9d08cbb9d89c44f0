"""User data, files, password and config drive of a new server."""

import base64
import uuid
from typing import Any

import pytest

from minova.api.compute.servers.guest_data import PASSWORD_LENGTH, new_password
from minova.db import models
from minova.objects.requests.build_extras import GuestFile
from tests.functional.api.conftest import Cloud

FILE = {"path": "/etc/motd", "contents": "aGk="}
PATH = "/v2.1/servers"


def test_all_that_is_asked_goes_to_the_conductor(stocked: Cloud) -> None:
    data = base64.encodebytes(b"#!/bin/sh\n" * 20).decode()  # in lines
    server = stocked.make_server(user_data=data, config_drive=True, personality=[FILE], adminPass="s3cret")
    (request,) = stocked.conductor.requests
    assert (request.user_data, request.config_drive) == (data, True)
    assert (request.injected_files, request.admin_password) == ((GuestFile(**FILE),), "s3cret")
    assert server["adminPass"] == "s3cret"
    shown = stocked.get(f"{PATH}/{server['id']}")["server"]
    assert shown["config_drive"] == "True"
    assert "adminPass" not in shown


@pytest.mark.parametrize("asked", [True, "true", "True", "1", 1])
def test_a_config_drive_comes_with_a_password_of_its_own(stocked: Cloud, asked: Any) -> None:
    server = stocked.make_server(config_drive=asked)
    assert stocked.conductor.requests[0].admin_password == server["adminPass"]
    assert len(server["adminPass"]) == PASSWORD_LENGTH


def test_without_a_config_drive_there_is_no_password(stocked: Cloud) -> None:
    server = stocked.make_server(user_data="aGk=", config_drive=False, personality=[])
    (request,) = stocked.conductor.requests
    assert (request.user_data, request.config_drive, request.admin_password) == ("aGk=", False, None)
    assert "adminPass" not in server
    assert stocked.get(f"{PATH}/{server['id']}")["server"]["config_drive"] == ""


def test_bug_password_and_files_without_a_drive_were_refused(stocked: Cloud) -> None:
    """Horizon's form sends a password with each server."""
    headers = {"X-Minova-Request-UUID": str(uuid.uuid4())}
    for _ in range(2):
        server = stocked.make_server(personality=[FILE], adminPass="s3cret", headers=headers)
        assert server["adminPass"] == "s3cret"
    (request,) = stocked.conductor.requests
    assert (request.config_drive, request.injected_files) == (False, ())


@pytest.mark.parametrize(("given", "sent"), [({}, None), ({"adminPass": "x"}, "x")])
def test_answers_have_no_password_where_the_option_says_so(stocked: Cloud, given: Any, sent: str | None) -> None:
    stocked.conf.set_override("enable_instance_password", False, group="api")
    assert "adminPass" not in stocked.make_server(config_drive=True, **given)
    assert stocked.conductor.requests[0].admin_password == sent


def test_the_option_and_the_image_make_every_server_have_a_drive(stocked: Cloud) -> None:
    stocked.conf.set_override("force_config_drive", True)
    stocked.make_server(config_drive=False)
    stocked.conf.clear_override("force_config_drive")
    stocked.make_server()
    with stocked.db.write() as session:
        row = session.query(models.Image).one()
        row.value = type(row.value)(**{**_fields(row.value), "properties": {"img_config_drive": "mandatory"}})
    stocked.make_server()
    assert [request.config_drive for request in stocked.conductor.requests] == [True, False, True]


def _fields(image: Any) -> dict[str, Any]:
    return {name: getattr(image, name) for name in image.__struct_fields__}


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ([FILE] * 6, "Personality file limit exceeded."),
        ([FILE | {"path": "é" * 128}], "Personality file path exceeds maximum 255."),
        ([FILE, FILE | {"contents": "YWFh" * 3414}], "Personality file content exceeds maximum 10240."),
    ],
)
def test_more_than_novas_defaults_is_forbidden(stocked: Cloud, files: list[dict[str, str]], why: str) -> None:
    limits = {"injected_files": 5, "injected_file_content_bytes": 10240, "injected_file_path_bytes": 255}
    assert stocked.ask("PUT", "/v2.1/os-quota-sets/admin", {"quota_set": limits})[0] == 200
    server_body = {**stocked.server, "config_drive": True, "personality": files}
    status, answer = stocked.ask("POST", PATH, {"server": server_body})
    assert (status, answer["forbidden"]["message"]) == (403, why)
    assert stocked.conductor.requests == []
    stocked.make_server(config_drive=True, personality=[FILE | {"path": "x" * 255, "contents": "YWFh" * 3413}] * 5)


def test_limits_of_files_are_the_projects(stocked: Cloud) -> None:
    limits = {"injected_files": 6, "injected_file_content_bytes": 1, "injected_file_path_bytes": -1}
    assert stocked.ask("PUT", "/v2.1/os-quota-sets/admin", {"quota_set": limits})[0] == 200
    long = {"path": "/" + "x" * 300, "contents": "YQ=="}
    stocked.make_server(config_drive=True, personality=[long] * 6)
    server_body = {**stocked.server, "config_drive": True, "personality": [FILE]}
    status, answer = stocked.ask("POST", PATH, {"server": server_body})
    assert (status, answer["forbidden"]["message"]) == (403, "Personality file content exceeds maximum 1.")


def test_a_repeated_request_is_answered_with_the_same_password_while_it_is_kept(stocked: Cloud) -> None:
    headers = {"X-Minova-Request-UUID": str(uuid.uuid4())}
    first = stocked.make_server(config_drive=True, headers=headers)
    assert stocked.make_server(config_drive=True, headers=headers)["adminPass"] == first["adminPass"]
    with stocked.db.write() as session:
        session.query(models.RequestSecrets).delete()
    assert "adminPass" not in stocked.make_server(config_drive=True, headers=headers)


def test_passwords_differ_and_have_a_letter_of_each_kind() -> None:
    passwords = {new_password() for _ in range(200)}
    assert len(passwords) == 200
    for password in passwords:
        assert any(letter.isdigit() for letter in password)
        assert any(letter.islower() for letter in password)
        assert any(letter.isupper() for letter in password)
