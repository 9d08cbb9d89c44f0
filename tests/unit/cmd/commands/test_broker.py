"""What `minova-manage broker` prints, by this cloud's own configuration."""

from pathlib import Path

import pytest

from minova.cmd import manage


def printed(folder: Path, capsys: pytest.CaptureFixture[str], conf: str, *words: str) -> list[str]:
    file = folder / "minova.conf"
    file.write_text(conf)
    assert manage.run(["--config-file", str(file), "broker", *words]) == 0
    return capsys.readouterr().out.splitlines()


def url_in(lines: list[str]) -> str:
    (line,) = [line for line in lines if "transport_url" in line]
    return line.partition(" = ")[2]


@pytest.mark.parametrize(
    ("own", "tls", "expected"),
    [
        ("rabbit://u:p@ctl1.example:5673/cloud", False, "rabbit://compute.hv1:PASSWORD@ctl1.example:5673/cloud"),
        (
            "rabbit://u:p@ctl1,u:p@ctl2/",
            False,
            "rabbit://compute.hv1:PASSWORD@ctl1:5672,compute.hv1:PASSWORD@ctl2:5672/",
        ),
        ("rabbit://u:p@ctl1/", True, "rabbit://compute.hv1:PASSWORD@ctl1:5671/"),
        ("rabbit://u:p@[2001:db8::1]:5671/a%2Fb", True, "rabbit://compute.hv1:PASSWORD@[2001:db8::1]:5671/a%2Fb"),
        ("rabbit://", True, "rabbit://compute.hv1:PASSWORD@BROKER:5671/"),
        ("kombu+memory://", False, "rabbit://compute.hv1:PASSWORD@BROKER:5672/"),
    ],
)
def test_line_for_a_host_has_the_broker_of_this_cloud(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], own: str, tls: bool, expected: str
) -> None:
    conf = f"[DEFAULT]\ntransport_url = {own}\n[oslo_messaging_rabbit]\nssl = {tls}\nssl_ca_file = /etc/minova/ca.crt\n"
    lines = printed(tmp_path, capsys, conf, "permissions", "hv1", "--existing")
    assert url_in(lines) == expected
    shown = ["# [oslo_messaging_rabbit]", "# ssl = true", "# ssl_ca_file = /etc/minova/ca.crt"]
    assert lines[-3:] == shown if tls else not set(shown) & set(lines)


def test_virtual_host_is_that_of_this_cloud_unless_another_one_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    conf = "[DEFAULT]\ntransport_url = rabbit://u:p@ctl1/cloud\n"
    for words, vhost in ((("permissions", "hv1"), "cloud"), (("policies", "--vhost", "other"), "other")):
        commands = [line for line in printed(tmp_path, capsys, conf, *words) if "-p" in line]
        assert commands
        assert all(f" -p {vhost} " in line for line in commands)


def test_malformed_url_names_its_option(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "minova.conf"
    file.write_text("[DEFAULT]\ntransport_url = nonsense\n")
    assert manage.run(["--config-file", str(file), "broker", "permissions", "hv1"]) != 0
    assert "transport_url" in capsys.readouterr().err
