"""A cloud as README sets it up: HTTPS, users with passwords, and a compute that has none and fetches a private image."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import bcrypt
import pytest

from tests.integration.deployment import Deployment
from tests.waiting import wait_for

pytestmark = pytest.mark.timeout(300)

HOST = "hv-tls"
PASSWORDS = {"admin": "of the admin", "alice": "of alice", "bob": "of bob"}


def certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate that vouches for itself, and its key: the command of README."""
    crt, key = folder / "controller.crt", folder / "controller.key"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=controller"]
    alternative = ["-addext", "subjectAltName=DNS:controller,IP:127.0.0.1"]
    subprocess.run([*command, *alternative, "-keyout", key, "-out", crt], check=True, capture_output=True)
    return crt, key


def htpasswd(path: Path) -> Path:
    lines = (f"{user}:{bcrypt.hashpw(word.encode(), bcrypt.gensalt(4)).decode()}\n" for user, word in PASSWORDS.items())
    path.write_text("".join(lines))
    return path


def log_in(cloud: Deployment, user: str, password: str | None = None) -> None:
    cloud.environment |= {"MINOVA_USERNAME": user, "MINOVA_PASSWORD": password or PASSWORDS[user]}


@pytest.fixture(scope="module")
def running(
    tmp_path_factory: pytest.TempPathFactory,
    fresh_rabbit_url: Callable[[], str],
    fresh_postgresql_url: Callable[[], str],
    libvirt_uri: str,
) -> Iterator[Deployment]:
    folder = tmp_path_factory.mktemp("tls")
    crt, key = certificate(folder)
    api = {
        "auth_strategy": "http_basic",
        "http_basic_auth_user_file": htpasswd(folder / "htpasswd"),
        "admin_users": "admin",
        "ssl_cert_file": crt,
        "ssl_key_file": key,
        "osapi_compute_listen": "0.0.0.0",
    }
    with Deployment(folder, fresh_rabbit_url(), fresh_postgresql_url(), api=api) as deployment:
        deployment.compute(HOST, glance={"cafile": crt}, libvirt={"connection_uri": libvirt_uri, "virt_type": "qemu"})
        deployment.environment["MINOVA_CACERT"] = str(crt)
        log_in(deployment, "admin")
        deployment.manage("db", "upgrade")
        deployment.start()
        deployment.wait_up()
        deployment.cli("flavor", "create", "tiny", "--ram", "128", "--disk", "1", "--vcpus", "1")
        yield deployment


@pytest.fixture
def cloud(running: Deployment) -> Iterator[Deployment]:
    environment = dict(running.environment)
    yield running
    running.environment = environment


def test_a_compute_fetches_a_users_private_image_over_https(cloud: Deployment, guest_image: Path) -> None:
    log_in(cloud, "alice")
    cloud.cli("image", "create", "mine", "--file", str(guest_image), "--disk-format", "qcow2")
    cloud.cli("server", "create", "hers", "--flavor", "tiny", "--image", "mine", "--wait")
    wait_for("READY", lambda: "MINOVA-GUEST READY" in cloud.cli("server", "console", "log", "hers"))

    log_in(cloud, "bob")
    assert "hers" not in cloud.cli("server", "list")
    output = cloud.cli("server", "create", "his", "--flavor", "tiny", "--image", "mine", check=False)
    assert "There is no image" in output

    log_in(cloud, "admin")
    assert "hers" in cloud.cli("server", "list", "--all-projects")

    log_in(cloud, "alice")
    cloud.cli("server", "delete", "--wait", "hers")
    cloud.cli("image", "delete", "mine")


def test_a_wrong_password_an_unknown_certificate_and_no_user_are_refused(cloud: Deployment) -> None:
    log_in(cloud, "admin", "a guess")
    assert "refused user admin" in cloud.cli("server", "list", check=False)
    del cloud.environment["MINOVA_USERNAME"]
    assert "MINOVA_USERNAME" in cloud.cli("server", "list", check=False)
    log_in(cloud, "admin")
    del cloud.environment["MINOVA_CACERT"]
    assert "Cannot speak TLS" in cloud.cli("server", "list", check=False)


def test_users_who_are_no_administrators_may_not_look_at_hypervisors(cloud: Deployment) -> None:
    log_in(cloud, "alice")
    output = cloud.cli("hypervisor", "list", check=False)
    assert output.startswith("minova: Policy doesn't allow")
    assert HOST not in output
