"""A token of a conductor downloads the bytes of one image, and does nothing else: where each user needs a password, and where none does."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import bcrypt
import msgspec
import pytest
from sqlalchemy import delete

from minova import metrics
from minova.context import service_context
from minova.db.api_queries import images
from minova.db.catalogue import image_token_keys
from minova.db.models import ImageTokenKey
from minova.image_tokens import LIFETIME, Keys, Right, sign
from tests.functional.api.conftest import Cloud
from tests.waiting import wait_for

DATA = bytes(range(256)) * 16
BASIC = {"Authorization": "Basic YWxpY2U6aGVycw=="}  # alice:hers


class TokenCloud(Cloud):
    """`mine` is an image of alice's, and `other` another one."""

    def prepare(self, credentials: dict[str, str]) -> None:
        self.client._default_headers = {"Host": "localhost", **credentials}
        self.mine, self.other = (self.make_image(name, DATA, visibility="private")["id"] for name in ("mine", "other"))
        self.client._default_headers = {"Host": "localhost"}
        self.keys: Keys = image_token_keys.ensure(self.db)

    def token(self, later: float = 0.0) -> str:
        return sign(self.keys.accepted[-1], self.mine, self.keys.now + later)

    def bearer(self, method: str, path: str, token: str, **more: Any) -> tuple[int, bytes]:
        headers = {"Authorization": f"Bearer {token}", **more.pop("headers", {})}
        result = self.client.simulate_request(method, path, headers=headers, **more)
        return result.status_code, result.content


def refused(reason: str) -> float:
    return metrics.REGISTRY.get_sample_value("minova_image_tokens_refused_total", {"reason": reason}) or 0.0


@pytest.fixture(params=["http_basic", "noauth"])
def tokens(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[TokenCloud]:
    htpasswd = tmp_path / "htpasswd"
    htpasswd.write_text(f"alice:{bcrypt.hashpw(b'hers', bcrypt.gensalt(4)).decode()}\n")
    cloud = TokenCloud(tmp_path, auth_strategy=request.param, http_basic_auth_user_file=str(htpasswd))
    cloud.prepare(BASIC if request.param == "http_basic" else {})
    yield cloud
    cloud.close()


def test_token_downloads_a_private_image_without_a_password(tokens: TokenCloud) -> None:
    path = f"/v2/images/{tokens.mine}/file"
    assert tokens.bearer("GET", path, tokens.token()) == (200, DATA)
    assert tokens.bearer("GET", f"/image{path}", tokens.token()) == (200, DATA)
    assert tokens.bearer("GET", path, tokens.token(), headers={"Range": "bytes=1-3"}) == (206, DATA[1:4])


def test_token_is_no_way_around_a_deactivated_image(tokens: TokenCloud) -> None:
    with tokens.readonly.read() as session:
        image = images.image(session, tokens.mine)
    assert image is not None
    tokens.conductor.change_image(
        service_context(), expected=image, image=msgspec.structs.replace(image, status="deactivated")
    )
    status, content = tokens.bearer("GET", f"/v2/images/{tokens.mine}/file", tokens.token())
    assert status == 403
    assert b"has been deactivated" in content


def test_token_is_for_no_other_image(tokens: TokenCloud, caplog: pytest.LogCaptureFixture) -> None:
    before = refused("other_request")
    status, content = tokens.bearer("GET", f"/v2/images/{tokens.other}/file", tokens.token())
    assert status == 401
    assert DATA not in content
    assert refused("other_request") == before + 1
    assert "A token for an image was refused from 127.0.0.1: other_request" in caplog.text


@pytest.mark.parametrize("later", [-LIFETIME, -86400.0, 60.0])
def test_token_of_another_time_is_refused(tokens: TokenCloud, later: float) -> None:
    before = refused("expired")
    assert tokens.bearer("GET", f"/v2/images/{tokens.mine}/file", tokens.token(later))[0] == 401
    assert refused("expired") == before + 1


@pytest.mark.parametrize(
    "change", [lambda token: token[:-4] + "AAAA", lambda token: token[1:], lambda token: "x" * 4000]
)
def test_changed_token_is_refused(tokens: TokenCloud, change: Any) -> None:
    before = refused("invalid")
    assert tokens.bearer("GET", f"/v2/images/{tokens.mine}/file", change(tokens.token()))[0] == 401
    assert refused("invalid") == before + 1


def test_token_does_nothing_else(tokens: TokenCloud) -> None:
    file = f"/v2/images/{tokens.mine}/file"
    requests = [(method, file) for method in ("PUT", "POST", "DELETE", "PATCH", "OPTIONS", "HEAD")]
    requests += [("GET", path) for path in ("/v2/images", f"/v2/images/{tokens.mine}", "/v2/schemas/image", "/v2")]
    requests += [("DELETE", f"/v2/images/{tokens.mine}"), ("POST", "/v2/images")]
    # `/` and `..` in other spellings.
    requests += [
        ("GET", f"{file}/../../{tokens.other}/file"),
        ("GET", f"/v2/images/{tokens.mine}%2f..%2f{tokens.other}/file"),
    ]
    for method, path in requests:
        body = {"body": b"new", "headers": {"Content-Type": "application/octet-stream"}} if method == "PUT" else {}
        status, content = tokens.bearer(method, path, tokens.token(), **body)
        assert status in {401, 404, 405}, (method, path, status)
        assert DATA not in content
    assert tokens.bearer("GET", file, tokens.token()) == (200, DATA)


def test_token_is_none_for_the_compute_api(tokens: TokenCloud) -> None:
    anonymous = tokens.client.simulate_get("/v2.1/servers").status_code
    assert tokens.bearer("GET", "/v2.1/servers", tokens.token())[0] == anonymous


def test_token_of_a_deleted_image_finds_nothing(tokens: TokenCloud) -> None:
    tokens.conductor.delete_image(service_context(), image_id=tokens.mine)
    assert tokens.bearer("GET", f"/v2/images/{tokens.mine}/file", tokens.token())[0] == 404


def test_image_without_bytes_is_empty(tokens: TokenCloud) -> None:
    (tokens.images / tokens.mine).unlink()
    assert tokens.bearer("GET", f"/v2/images/{tokens.mine}/file", tokens.token())[0] == 404


def test_new_key_is_accepted_at_once_and_an_old_one_is_not(tmp_path: Path) -> None:
    """The API keeps keys for seconds; a signature that it does not know makes it look again."""
    cloud = TokenCloud(tmp_path)
    cloud.prepare({})
    path = f"/v2/images/{cloud.mine}/file"
    assert cloud.bearer("GET", path, cloud.token())[0] == 200
    with cloud.db.write() as session:
        session.execute(delete(ImageTokenKey))
    old = cloud.token()
    cloud.keys = image_token_keys.ensure(cloud.db)
    wait_for("the new key is read", lambda: cloud.bearer("GET", path, cloud.token())[0] == 200)
    assert cloud.bearer("GET", path, old)[0] == 401
    cloud.close()


def test_no_token_is_logged(tokens: TokenCloud, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        token = tokens.token()
        tokens.bearer("GET", f"/v2/images/{tokens.mine}/file", token)
        tokens.bearer("GET", f"/v2/images/{tokens.other}/file", token)
    assert caplog.text
    assert token not in caplog.text
    assert token.rpartition(".")[2] not in caplog.text


class UploadCloud(TokenCloud):
    """`coming` is an image of alice's without bytes."""

    def prepare(self, credentials: dict[str, str]) -> None:
        super().prepare(credentials)
        self.client._default_headers = {"Host": "localhost", **credentials}
        fields = {"name": "shot", "disk_format": "raw", "container_format": "bare"}
        self.coming = self.ask("POST", "/v2/images", fields)[1]["id"]
        self.client._default_headers = {"Host": "localhost"}

    def put(self, image_id: str, right: Right, signed: str | None = None) -> int:
        token = sign(self.keys.accepted[-1], signed or image_id, self.keys.now, right)
        headers = {"Content-Type": "application/octet-stream"}
        return self.bearer("PUT", f"/v2/images/{image_id}/file", token, body=DATA, headers=headers)[0]

    def status(self, image_id: str) -> str:
        with self.db.read() as session:
            image = images.image(session, image_id)
        return "" if image is None else image.status


@pytest.fixture
def uploads(tmp_path: Path) -> Iterator[UploadCloud]:
    cloud = UploadCloud(tmp_path)
    cloud.prepare({})
    yield cloud
    cloud.close()


def test_token_for_an_upload_fills_its_image_once(uploads: UploadCloud) -> None:
    assert uploads.put(uploads.coming, Right.UPLOAD) == 204
    assert uploads.status(uploads.coming) == "active"
    # The bytes of an image never change, with any token.
    assert uploads.put(uploads.coming, Right.UPLOAD) == 409
    assert uploads.bearer("GET", f"/v2/images/{uploads.coming}/file", uploads.token())[0] == 401


def test_one_right_is_not_the_other(uploads: UploadCloud) -> None:
    assert uploads.put(uploads.coming, Right.DOWNLOAD) == 401
    assert uploads.put(uploads.coming, Right.UPLOAD, signed=uploads.mine) == 401
    token = sign(uploads.keys.accepted[-1], uploads.mine, uploads.keys.now, Right.UPLOAD)
    assert uploads.bearer("GET", f"/v2/images/{uploads.mine}/file", token)[0] == 401
    for method in ("DELETE", "PATCH", "POST"):
        assert uploads.bearer(method, f"/v2/images/{uploads.mine}/file", token)[0] in {401, 405}
    assert uploads.status(uploads.coming) == "queued"


def test_token_for_an_upload_of_a_deleted_image_finds_none(uploads: UploadCloud) -> None:
    uploads.ask("DELETE", f"/v2/images/{uploads.coming}")
    assert uploads.put(uploads.coming, Right.UPLOAD) == 404
