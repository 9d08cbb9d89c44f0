"""`minova complete`, tried in the shells themselves."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.functional.cli.conftest import Cli

BASH = """
_get_comp_words_by_ref() { cur=${ASKED[-1]} words=("${ASKED[@]}"); }
source "$SCRIPT"
read -ra ASKED <<<"$LINE"
[[ $LINE == *' ' ]] && ASKED+=('')
COMP_CWORD=$((${#ASKED[@]} - 1))
_minova
printf '%s\\n' "${COMPREPLY[@]}"
"""
# Completion needs a terminal: its two functions are stood in for, and print what they are given.
ZSH = """
compdef() { }
_files() { print FILES }
compadd() { shift; local one; for one in "$@"; do [[ $one == $PREFIX* ]] && print -- $one; done }
source "$SCRIPT"
words=(${=LINE}); [[ $LINE == *' ' ]] && words+=('')
CURRENT=$#words
PREFIX=$words[-1]
_minova
"""
FISH = 'source "$SCRIPT"; complete -C "$LINE" | cut -f1'
SHELLS = {"bash": ["bash", "-c", BASH], "zsh": ["zsh", "-f", "-c", ZSH], "fish": ["fish", "-N", "-c", FISH]}


class Shell:
    def __init__(self, name: str, script: Path) -> None:
        self._command = SHELLS[name]
        self._script = script

    def completes(self, line: str) -> list[str]:
        """What the shell offers at the end of the line."""
        environment = {**os.environ, "SCRIPT": str(self._script), "LINE": line}
        done = subprocess.run(
            self._command, env=environment, cwd=self._script.parent, capture_output=True, text=True, timeout=60
        )
        assert not done.stderr, done.stderr
        return done.stdout.split()


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest, cli_without_api: Cli, tmp_path: Path) -> Shell:
    result = cli_without_api("complete", "--shell", request.param)
    assert result.code == 0, result.err
    script = tmp_path / "script"
    script.write_text(result.out)
    return Shell(request.param, script)


def test_words_of_commands_and_options_are_completed(shell: Shell) -> None:
    assert shell.completes("minova server cr") == ["create"]
    assert {"flavor", "server", "network"} < {*shell.completes("minova ")}
    assert shell.completes("minova server console lo") == ["log"]
    assert shell.completes("minova compute service se") == ["set"]
    assert shell.completes("minova server create --fla") == ["--flavor"]
    assert shell.completes("minova server create --name x --fla") == ["--flavor"]


def test_after_a_command_files_are_offered(shell: Shell) -> None:
    completions = shell.completes("minova image create scr")
    assert completions in (["script"], ["FILES"])


def test_unknown_shell_is_wrong_usage(cli_without_api: Cli) -> None:
    result = cli_without_api("complete", "--shell", "csh")
    assert result.code == 2
    assert "csh" in result.err
