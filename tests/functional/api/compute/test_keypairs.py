"""Key pairs: OpenStack's shapes, whose they are, and servers that are given their key."""

import logging
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization

from minova.context import RequestContext
from minova.db import models
from minova.objects.catalogue.key_pair import KeyPair
from tests.functional.api.conftest import Cloud, at
from tests.unit.api.compute.test_public_keys import ED25519, KNOWN

KEYPAIRS = "/v2.1/os-keypairs"


def make(cloud: Cloud, name: str = "mine", **more: Any) -> Any:
    body = {"keypair": {"name": name, "public_key": ED25519, **more}}
    status, answer = cloud.ask("POST", KEYPAIRS, body, **(at("2.10") if "user_id" in more or "type" in more else {}))
    assert status == (201 if "user_id" in more or "type" in more else 200), answer
    return answer["keypair"]


def test_an_imported_key_has_openstacks_shape(cloud: Cloud) -> None:
    created = make(cloud)
    brief = {"name": "mine", "public_key": ED25519, "fingerprint": KNOWN[ED25519]}
    assert created == {**brief, "user_id": "admin"}
    assert cloud.get(KEYPAIRS) == {"keypairs": [{"keypair": brief}]}
    shown = cloud.get(f"{KEYPAIRS}/mine")["keypair"]
    assert shown == {
        **brief,
        "user_id": "admin",
        "id": shown["id"],
        "created_at": shown["created_at"],
        "updated_at": None,
        "deleted": False,
        "deleted_at": None,
    }
    everything = {"headers": {"X-Minova-Fields": "all"}}
    assert cloud.ask("GET", KEYPAIRS, **everything)[1] == {"keypairs": [{"keypair": brief | {"type": "ssh"}}]}
    assert cloud.ask("GET", f"{KEYPAIRS}/mine", **everything)[1] == {"keypair": shown | {"type": "ssh"}}
    assert len(shown["created_at"]) == len("2026-01-31T12:00:00.000000")
    assert cloud.ask("DELETE", f"{KEYPAIRS}/mine") == (202, None)
    for method in ("GET", "DELETE"):
        status, answer = cloud.ask(method, f"{KEYPAIRS}/mine")
        assert status == 404
        assert answer["itemNotFound"]["message"] == "Keypair mine not found for user admin"
    assert cloud.get(KEYPAIRS) == {"keypairs": []}


@pytest.mark.parametrize("given", [f" {ED25519} a comment\n", f"{ED25519}\n", ED25519.replace(" ", "\t")])
def test_a_public_key_is_answered_as_it_was_given(cloud: Cloud, given: str) -> None:
    plain = make(cloud, "plain", public_key=ED25519)
    created = make(cloud, public_key=given)
    assert (created["public_key"], created["fingerprint"]) == (given, plain["fingerprint"])


@pytest.mark.parametrize("kind", ["ssh", "x509"])
def test_a_generated_private_key_is_answered_once_and_kept_nowhere(
    cloud: Cloud, kind: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG)
    sent: list[Any] = []
    create = cloud.conductor.create_key_pair

    def noted(ctx: RequestContext, key_pair: KeyPair) -> Any:
        sent.append(key_pair)
        return create(ctx, key_pair=key_pair)

    monkeypatch.setattr(cloud.conductor, "create_key_pair", noted, raising=False)
    status, answer = cloud.ask("POST", KEYPAIRS, {"keypair": {"name": "new", "type": kind}}, **at("2.2"))
    assert status == 201
    private_key = answer["keypair"].pop("private_key")
    assert serialization.load_pem_private_key(private_key.encode(), None)
    middle = private_key.splitlines()[5]
    with cloud.db.read() as session:
        (row,) = session.query(models.KeyPair).all()
        assert (row.type, row.fingerprint) == (kind, answer["keypair"]["fingerprint"])
        stored = str(vars(row))
    assert "private_key" not in cloud.get(f"{KEYPAIRS}/new")["keypair"]
    for text in (stored, str(sent), caplog.text):
        assert middle not in text
    assert sent


@pytest.mark.parametrize(
    ("keypair", "why"),
    [
        ({}, "name"),
        ({"name": ""}, "between 1 and 255 characters"),
        ({"name": "x" * 256}, "between 1 and 255 characters"),
        ({"name": "a/b"}, "Keypair name contains unsafe characters"),
        ({"name": "a.b"}, "Keypair name contains unsafe characters"),
        ({"name": "clé"}, "Keypair name contains unsafe characters"),
        ({"name": " a"}, "begins or ends with a space"),
        ({"name": "a\n"}, "unsafe characters"),
        ({"name": "a", "public_key": "ssh-rsa"}, "Keypair data is invalid: failed to generate fingerprint"),
        ({"name": "a", "public_key": ""}, "failed to generate fingerprint"),
        ({"name": "a", "public_key": None}, "public_key"),
        ({"name": "a", "public_key": ED25519, "type": "x509"}, "failed to generate X509 fingerprint"),
        ({"name": "a", "type": "pgp"}, "type"),
        ({"name": "a", "colour": "red"}, "colour"),
        (None, "keypair"),
    ],
)
def test_key_pairs_that_cannot_be(cloud: Cloud, keypair: Any, why: str) -> None:
    status, document = cloud.ask("POST", KEYPAIRS, {"keypair": keypair}, **at("2.10"))
    assert status == 400
    assert why in document["badRequest"]["message"]
    assert cloud.get(KEYPAIRS) == {"keypairs": []}


@pytest.mark.parametrize("more", [{"public_key": ED25519}, {}])
def test_a_name_is_taken_once(cloud: Cloud, more: dict[str, str]) -> None:
    make(cloud)
    status, answer = cloud.ask("POST", KEYPAIRS, {"keypair": {"name": "mine", **more}})
    assert (status, answer["conflictingRequest"]["message"]) == (409, "Key pair 'mine' already exists.")
    make(cloud, "Mine")


def test_the_quota_is_of_the_user(cloud: Cloud) -> None:
    cloud.ask("PUT", "/v2.1/os-quota-sets/admin", {"quota_set": {"key_pairs": 2}})
    for name in "ab":
        make(cloud, name)
    status, answer = cloud.ask("POST", KEYPAIRS, {"keypair": {"name": "c", "public_key": ED25519}})
    assert (status, answer["forbidden"]["message"]) == (403, "Quota exceeded, too many key pairs.")
    make(cloud, "c", user_id="alice")
    cloud.ask("DELETE", f"{KEYPAIRS}/a")
    make(cloud, "d")
    cloud.ask("PUT", "/v2.1/os-quota-sets/admin", {"quota_set": {"key_pairs": -1}})
    make(cloud, "e")


def test_pages(cloud: Cloud) -> None:
    for name in "bca":
        make(cloud, name)

    def names(query: str) -> list[str]:
        return [each["keypair"]["name"] for each in cloud.get(KEYPAIRS + query, **at("2.35"))["keypairs"]]

    assert names("") == ["a", "b", "c"]
    assert names("?limit=2") == ["a", "b"]
    assert names("?marker=b") == ["c"]
    assert names("?limit=0") == []
    (link,) = cloud.get(f"{KEYPAIRS}?limit=2", **at("2.35"))["keypairs_links"]
    assert link["rel"] == "next"
    assert link["href"].endswith(f"{KEYPAIRS}?limit=2&marker=b")
    # As in Nova, the parameters are sorted, and a marker that was there keeps its place.
    (link,) = cloud.get(f"{KEYPAIRS}?user_id=admin&marker=a&limit=1", **at("2.35"))["keypairs_links"]
    assert link["href"].endswith(f"{KEYPAIRS}?limit=1&marker=b&user_id=admin")
    status, answer = cloud.ask("GET", f"{KEYPAIRS}?marker=x", **at("2.35"))
    assert (status, answer["badRequest"]["message"]) == (400, "Marker x could not be found.")
    assert cloud.ask("GET", f"{KEYPAIRS}?limit=-1", **at("2.35"))[0] == 400


def test_a_server_keeps_its_key_when_the_key_pair_goes(stocked: Cloud) -> None:
    make(stocked)
    server = stocked.make_server(key_name="mine")
    assert stocked.conductor.requests[0].key_name == "mine"
    (key_pair,) = stocked.conductor.key_pairs
    assert key_pair is not None
    assert (key_pair.public_key, key_pair.type) == (ED25519, "ssh")
    assert stocked.ask("DELETE", f"{KEYPAIRS}/mine")[0] == 202
    assert stocked.get(f"/v2.1/servers/{server['id']}")["server"]["key_name"] == "mine"
    status, answer = stocked.ask("POST", "/v2.1/servers", {"server": {**stocked.server, "key_name": "mine"}})
    assert (status, answer["badRequest"]["message"]) == (400, "Invalid key_name provided.")
