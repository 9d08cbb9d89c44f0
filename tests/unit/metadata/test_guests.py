"""Whose metadata a request may read."""

import hashlib
import hmac
from typing import Any, cast

import pytest

from minova import errors
from minova.metadata.guests import NETWORK_ID, LocalGuest, LocalGuests, ProxiedGuest, ProxiedGuests

CONDUCTOR = cast(Any, None)
UUID, PROJECT, SECRET = "0b8a5c5e-58a3-4a52-9e56-3a9a4f0f2f11", "demo", "shared"


def sign(uuid: str, secret: str = SECRET) -> str:
    return hmac.new(secret.encode(), uuid.encode(), hashlib.sha256).hexdigest()


def proxied(**changed: str) -> dict[str, str]:
    headers = {"INSTANCE_ID": UUID, "TENANT_ID": PROJECT, "INSTANCE_ID_SIGNATURE": sign(UUID)} | changed
    return {f"HTTP_X_{name}": value for name, value in headers.items() if value} | {"REMOTE_ADDR": "192.0.2.9"}


def test_local_guest_is_its_network_and_address() -> None:
    """Headers, which come as HTTP_..., choose neither."""
    environ = {"REMOTE_ADDR": "10.0.0.5", "HTTP_HOST": "10.0.0.6", "HTTP_MINOVA_NETWORK_ID": "n2"}
    caller = LocalGuests(CONDUCTOR, "hv1").caller(environ | {NETWORK_ID: "n1"})
    assert caller == LocalGuest("n1", "10.0.0.5")


@pytest.mark.parametrize("header", ["HTTP_X_FORWARDED_FOR", "HTTP_FORWARDED"])
def test_request_that_a_proxy_hands_on_is_refused(header: str) -> None:
    with pytest.raises(errors.Forbidden, match="proxies"):
        LocalGuests(CONDUCTOR, "hv1").caller({"REMOTE_ADDR": "10.0.0.5", header: "10.0.0.6"})


def test_local_guest_cannot_name_another_one() -> None:
    with pytest.raises(errors.BadRequest, match="X-Instance-ID"):
        LocalGuests(CONDUCTOR, "hv1").caller(proxied())


def test_proxy_names_a_guest_and_signs_that() -> None:
    guests = ProxiedGuests(CONDUCTOR, SECRET)
    assert guests.caller(proxied() | {"HTTP_X_FORWARDED_FOR": "10.0.0.5"}) == ProxiedGuest(UUID, PROJECT)


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"INSTANCE_ID_SIGNATURE": ""}, errors.Forbidden),
        ({"INSTANCE_ID_SIGNATURE": sign(UUID, "guess")}, errors.Forbidden),
        ({"INSTANCE_ID_SIGNATURE": sign(UUID, "")}, errors.Forbidden),
        ({"INSTANCE_ID_SIGNATURE": sign(UUID)[:-1]}, errors.Forbidden),
        ({"INSTANCE_ID_SIGNATURE": "ü"}, errors.Forbidden),
        ({"INSTANCE_ID": "another"}, errors.Forbidden),
        ({"INSTANCE_ID": ""}, errors.BadRequest),
        ({"TENANT_ID": ""}, errors.BadRequest),
        ({"INSTANCE_ID": f"{UUID},another"}, errors.BadRequest),
        ({"TENANT_ID": "demo,other"}, errors.BadRequest),
    ],
)
def test_request_without_its_signature_is_refused(changed: dict[str, str], error: type[Exception]) -> None:
    with pytest.raises(error):
        ProxiedGuests(CONDUCTOR, SECRET).caller(proxied(**changed))
