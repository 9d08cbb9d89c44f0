from pathlib import Path

import pytest

from minova.cmd.manage import run
from minova.db import schema


@pytest.fixture
def conf_file(tmp_path: Path) -> str:
    path = tmp_path / "minova.conf"
    path.write_text(f"[database]\nconnection = sqlite:///{tmp_path}/new/minova.sqlite\n")
    return str(path)


def manage(conf_file: str, *words: str) -> int:
    return run(["--config-file", conf_file, *words])


def test_upgrade_makes_the_tables_and_version_tells_them(conf_file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert manage(conf_file, "db", "upgrade") == 0
    assert manage(conf_file, "db", "upgrade") == 0
    assert manage(conf_file, "db", "version") == 0
    assert capsys.readouterr().out.split() == [schema.head()] * 3


def test_without_tables_version_says_which_command_makes_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "minova.conf"
    path.write_text(f"[database]\nconnection = sqlite:///{tmp_path}/minova.sqlite\n")
    assert manage(str(path), "db", "version") == 1
    assert "Run: minova-manage db upgrade" in capsys.readouterr().err


@pytest.mark.parametrize("words", [[], ["db"], ["db", "sideways"], ["dance"]])
def test_a_wrong_command_is_a_usage_error(conf_file: str, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exited:
        manage(conf_file, *words)
    assert exited.value.code == 2
    usage, error = capsys.readouterr().err.splitlines()
    assert usage.startswith("usage: minova-manage")
    assert "COMMAND" in error


def test_the_usage_of_a_command_has_no_options_of_logs(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run(["db", "--help"])
    assert capsys.readouterr().out.startswith("usage: minova-manage db [-h] COMMAND ...\n")


@pytest.mark.parametrize("words", [["--config-file", "a.conf"], ["--config-file=a.conf"]])
def test_options_of_all_commands_stand_before_the_command(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run(["doctor", *words])
    assert capsys.readouterr().err.endswith(
        "--config-file stands before the command: minova-manage --config-file ... doctor\n"
    )


def test_a_configuration_file_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert manage(str(tmp_path / "none.conf"), "db", "version") == 1
    assert "none.conf" in capsys.readouterr().err


def test_a_url_that_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "minova.conf"
    for url in ("nonsense", "oracle://x", "sqlite:////proc/none/minova.sqlite"):
        path.write_text(f"[database]\nconnection = {url}\n")
        assert manage(str(path), "db", "upgrade") == 1
        assert capsys.readouterr().err.startswith("minova-manage: ")


# -- policies ------------------------------------------------------------------------------------------------------------

DELETE = "os_compute_api:servers:delete"


@pytest.fixture
def policy_conf(tmp_path: Path) -> str:
    path = tmp_path / "minova.conf"
    (tmp_path / "policy.yaml").write_text('"get_images": "role:auditor"\n')
    options = "admin_users = root\nuser_roles = rita:demo:reader,bob:demo:member\n"
    path.write_text(f"[api]\n{options}[oslo_policy]\npolicy_file = {tmp_path}/policy.yaml\n")
    return str(path)


def test_policies_are_listed_with_defaults_and_overrides(policy_conf: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert manage(policy_conf, "policy", "list") == 0
    lines = capsys.readouterr().out.splitlines()
    assert f'"{DELETE}": "rule:project_member_or_admin"' in lines
    assert '"get_images": "role:auditor"  # override' in lines
    assert manage(policy_conf, "policy", "list", "--overridden") == 0
    assert [line.partition(":")[0] for line in capsys.readouterr().out.splitlines()] == [
        "# List images.",
        '# "get_images"',
        '"get_images"',
    ]


@pytest.mark.parametrize(
    ("words", "permitted", "reason"),
    [
        (["--user", "bob"], True, "yes role:member  (roles: member, reader)"),
        (["--user", "rita"], False, "no  role:member  (roles: reader)"),
        (["--user", "rita", "--role", "member"], True, "yes role:member"),
        (["--user", "bob", "--target-project", "other"], False, "the caller's is demo, the target's other"),
        (["--user", "bob", "--project", "other", "--target-project", "other"], True, "the target's other"),
        (["--user", "root", "--target-project", "other"], True, "yes role:admin"),
    ],
)
def test_check_says_whether_a_policy_permits_it_and_why(
    policy_conf: str, words: list[str], permitted: bool, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert manage(policy_conf, "policy", "check", DELETE, *words) == (0 if permitted else 1)
    printed = capsys.readouterr().out
    assert printed.startswith("permitted: " if permitted else "denied: ")
    assert reason in printed


def test_check_of_an_image_takes_its_visibility(policy_conf: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["policy", "check", "get_image", "--user", "rita", "--target-project", "other"]
    assert manage(policy_conf, *words) == 1
    assert manage(policy_conf, *words, "--target-visibility", "public") == 0
    assert manage(policy_conf, "policy", "check", "get_images", "--user", "rita") == 1
    assert '"get_images": "role:auditor"  (override)' in capsys.readouterr().out


def test_check_of_an_unknown_policy_is_an_error(policy_conf: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert manage(policy_conf, "policy", "check", "servers:dance", "--user", "rita") == 1
    assert "There is no policy servers:dance" in capsys.readouterr().err
