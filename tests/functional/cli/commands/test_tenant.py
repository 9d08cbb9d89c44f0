"""What a user who is no administrator sees: the own project's limits, usage and zones, and nothing of others."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import bcrypt
import pytest

from minova.api.server import ApiService
from tests.functional.api.conftest import Cloud
from tests.functional.cli.conftest import Cli, json_output

JSON = ("-f", "json")


@pytest.fixture
def alice(cloud: Cloud, cli_without_api: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cli]:
    """Runs `minova` for a member of project `alice`, in a cloud with one server of hers and one of project `admin`."""
    cloud.with_catalogue().make_server("of-admin")
    cloud.make_image("open", visibility="public")
    file = tmp_path / "htpasswd"
    file.write_text(f"alice:{bcrypt.hashpw(b'secret', bcrypt.gensalt(4)).decode()}\n")
    users = Cloud(
        tmp_path, auth_strategy="http_basic", http_basic_auth_user_file=str(file), osapi_compute_listen_port=0
    )
    service = ApiService(users.conf, users.app)
    service.start()
    monkeypatch.setenv("MINOVA_PASSWORD", "secret")
    url = f"http://127.0.0.1:{service.port}"
    yield lambda *words: cli_without_api("--url", url, "--username", "alice", *words)
    service.stop()
    users.close()


def test_tenant_sees_limits_usage_and_zones_of_the_own_project(cloud: Cloud, alice: Cli) -> None:
    server = json_output(
        alice("server", "create", "web", "--flavor", "tiny", "--image", "open", "--nic", "none", *JSON)
    )
    hour_ago = datetime.now(UTC).replace(tzinfo=None) - timedelta(hours=1)
    cloud.conductor.edit(server["id"], vm_state="active", task_state=None, launched_at=hour_ago)
    limits = {row["Name"]: row["Value"] for row in json_output(alice("limits", "show", "--absolute", *JSON))}
    assert limits["totalInstancesUsed"] == 1
    shown = json_output(alice("quota", "show", "--usage", *JSON))
    assert (shown["id"], shown["instances"]["in_use"], shown["networks"]["used"]) == ("alice", 1, 0)
    assert json_output(alice("quota", "show", *JSON))["id"] == "alice"
    assert json_output(alice("quota", "show", "--default", *JSON)).keys() > {"instances", "networks"}
    usage = json_output(alice("usage", "show", *JSON))
    assert (usage["Project"], len(usage["Servers"])) == ("alice", 1)
    zones = json_output(alice("availability", "zone", "list", *JSON))
    assert all(row.keys() == {"Zone Name", "Zone Status"} for row in zones), zones


@pytest.mark.parametrize(
    "words", [("quota", "show", "admin"), ("usage", "show", "--project", "admin"), ("usage", "list")]
)
def test_tenant_sees_nothing_of_another_project(alice: Cli, words: tuple[str, ...]) -> None:
    result = alice(*words)
    assert (result.code, result.out) == (1, "")
    assert "admin" not in result.err.lower().replace("administrator", "")
