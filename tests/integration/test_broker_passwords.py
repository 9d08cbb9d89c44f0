"""The commands that `minova-manage broker permissions` prints, executed on a real RabbitMQ."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from minova.cmd import manage
from tests.servers.rabbitmq import SecureRabbitMQ

pytestmark = pytest.mark.timeout(300)

# Of no other test: the broker is shared.
HOST = "passwords"


def test_bug_user_that_exists_kept_its_old_password(
    secure_rabbitmq: SecureRabbitMQ, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    conf = tmp_path / "manage.conf"
    conf.write_text("")
    script = tmp_path / "rabbitmqctl"
    script.write_text(f'#!/bin/sh\nexec {shlex.join(secure_rabbitmq.ctl_command())} "$@"\n')
    script.chmod(0o755)
    environment = secure_rabbitmq.ctl_environment()
    environment["PATH"] = f"{tmp_path}:{environment['PATH']}"
    passwords = []
    for _ in ("made", "exists"):
        assert manage.run(["--config-file", str(conf), "broker", "permissions", HOST]) == 0
        printed = capsys.readouterr().out
        done = subprocess.run(["sh", "-e", "-c", printed], env=environment, capture_output=True, text=True, timeout=120)
        assert (done.returncode, done.stderr) == (0, ""), printed
        url_match = re.search(rf"rabbit://compute\.{HOST}:([^@]+)@", printed)
        assert url_match is not None
        passwords.append(url_match[1])
        secure_rabbitmq.ctl("authenticate_user", f"compute.{HOST}", url_match[1])
    assert passwords[0] != passwords[1]
