"""What users meet when they mistype, when minova does not answer, and when they ask for help."""

import socket
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from minova.cli.registry import COMMANDS, SPELLINGS
from tests.fakes.faulty_api import FaultyApi
from tests.functional.api.conftest import Cloud
from tests.functional.cli.conftest import Cli
from tests.functional.cli.servers import add_server
from tests.security.identities import with_users


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("srever", "list"), "'srever list' is not a command. Did you mean server list"),
        (("flavor", "crate", "x"), "Did you mean flavor create"),
        (("server", "frobnicate", "x"), "'server frobnicate x' is not a command."),
        (("server",), "'server' is not complete. 'minova help server' lists its "),
        (
            ("server", "console"),
            "'server console' is not complete. Its commands: server console connect, server console log,",
        ),
        (("--ulr", "x", "server", "list"), "unknown option --ulr. Did you mean --url?"),
        (("server", "list", "--lmit", "3"), "unknown option --lmit. Did you mean --limit"),
        (("server", "list", "--url", "foo"), "'foo' is not a URL such as http://127.0.0.1:8774"),
        (("server", "list", "--url", "http://host:99999"), "is not a URL"),
        (("server", "list", "--url", ""), "'' is not a URL"),
        (("server", "list", "-c", "Colour"), "No recognized column names"),
        (("server", "list", "extra"), "unrecognized arguments: extra"),
        (("server", "show"), "the following arguments are required: SERVER"),
        (("server", "list", "-f", "xml"), "invalid choice: 'xml'"),
        (("help", "servre"), "'servre' is not a command. Did you mean"),
    ],
)
def test_wrong_usage_is_told_in_one_line_and_exit_code_2(faulty_cli: Cli, words: tuple[str, ...], message: str) -> None:
    result = faulty_cli(*words)
    assert result.code == 2
    assert message in result.err
    assert len(result.err.splitlines()) <= 2
    assert result.out == ""


def test_an_api_that_is_away_says_where_and_what_to_check(cli_without_api: Cli) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    result = cli_without_api("--url", url, "server", "list")
    assert (result.code, result.err) == (
        1,
        f"minova: Cannot reach minova at {url}: Connection refused; is minova-api running?\n",
    )


def test_an_unknown_host_is_told(cli_without_api: Cli) -> None:
    result = cli_without_api("--url", "http://no-such-host.invalid", "server", "list")
    assert result.code == 1
    assert result.err.startswith("minova: Cannot reach minova at http://no-such-host.invalid: ")


@pytest.fixture
def foreign_server() -> Iterator[str]:
    """A web server that is not minova: it answers every question with a page."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(65536)
                    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\n<html>")

        Thread(target=answer, daemon=True).start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)


def test_a_stranger_on_the_port_is_told(cli_without_api: Cli, foreign_server: str) -> None:
    result = cli_without_api("--url", foreign_server, "server", "list")
    assert (result.code, result.err) == (
        1,
        f"minova: {foreign_server} did not answer as minova does: is it minova-api?\n",
    )


def test_http_where_https_is_asked(faulty_api: FaultyApi, cli_without_api: Cli) -> None:
    result = cli_without_api("--url", faulty_api.url.replace("http:", "https:"), "server", "list")
    assert result.code == 1
    assert "Cannot speak TLS with minova" in result.err


def test_certificates_that_are_not_there(faulty_api: FaultyApi, cli_without_api: Cli) -> None:
    url = faulty_api.url.replace("http:", "https:")
    result = cli_without_api("--url", url, "--cacert", "/nowhere.pem", "server", "list")
    assert result.code == 1
    assert "Cannot read the certificates /nowhere.pem" in result.err


def test_a_busy_api_is_asked_again_and_told_when_it_stays_busy(faulty_api: FaultyApi, faulty_cli: Cli) -> None:
    faulty_api.order("busy", "lost", method="GET")
    assert faulty_cli("flavor", "list").code == 0


def test_a_change_that_may_not_be_repeated_is_made_once(cloud: Cloud, faulty_api: FaultyApi, faulty_cli: Cli) -> None:
    faulty_api.order("lost")
    result = faulty_cli("flavor", "create", "once")
    assert result.code == 1
    assert "The connection to minova" in result.err
    assert [flavor["name"] for flavor in cloud.get("/v2.1/flavors")["flavors"]] == ["once"]


def test_the_url_comes_from_the_environment(
    faulty_api: FaultyApi, cli_without_api: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINOVA_URL", faulty_api.url + "/v2.1/")
    assert cli_without_api("flavor", "list").code == 0


def test_a_cloud_is_not_named_beside_an_address_or_a_user(cli_without_api: Cli) -> None:
    for option in ("--url", "--username"):
        result = cli_without_api("--os-cloud", "mine", option, "http://127.0.0.1:1", "flavor", "list")
        assert (result.code, "give one or the other" in result.err) == (2, True)


class TestHttpBasic:
    @pytest.fixture
    def cloud(self, tmp_path: Path) -> Iterator[Cloud]:
        cloud = with_users(tmp_path, password="s3crét")
        yield cloud
        cloud.close()

    def test_without_a_name_it_says_what_to_give(self, faulty_cli: Cli) -> None:
        result = faulty_cli("flavor", "list")
        assert result.code == 1
        assert "give --username or MINOVA_USERNAME, and MINOVA_PASSWORD" in result.err

    def test_name_and_password_from_the_environment(self, faulty_cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("MINOVA_USERNAME", "alice")
        monkeypatch.setenv("MINOVA_PASSWORD", "s3crét")
        assert faulty_cli("flavor", "list").code == 0

    def test_a_name_on_the_command_line_wins_over_a_cloud_in_the_environment(
        self, faulty_api: FaultyApi, cli_without_api: Cli, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name, value in {"OS_CLOUD": "mine", "MINOVA_PASSWORD": "s3crét", "MINOVA_USERNAME": "bob"}.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr("minova.cli.shell.DEFAULT_URL", faulty_api.url)
        assert cli_without_api("--username", "alice", "flavor", "list").code == 0

    def test_a_wrong_password_is_refused_and_never_shown(
        self, faulty_cli: Cli, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("MINOVA_PASSWORD", "wrong-one")
        result = faulty_cli("--username", "alice", "--debug", "flavor", "list")
        assert result.code == 1
        assert "refused user alice" in result.err
        assert "wrong-one" not in result.err

    def test_a_password_in_the_url_is_neither_taken_nor_shown(self, cli_without_api: Cli) -> None:
        result = cli_without_api("--url", "http://alice:s3cr3t@127.0.0.1:1", "flavor", "list")
        assert result.code == 2
        assert "give it with --username" in result.err
        assert "s3cr3t" not in result.err

    def test_no_password_and_no_terminal_to_ask_at(self, faulty_cli: Cli) -> None:
        result = faulty_cli("--username", "alice", "flavor", "list")
        assert (result.code, result.err) == (1, "minova: No password for user alice: set MINOVA_PASSWORD.\n")


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_command_has_help(cli_without_api: Cli, command: str) -> None:
    result = cli_without_api(*command.split(), "--help")
    assert result.code == 0, result.err
    assert result.out.startswith(f"usage: minova {command}")
    assert cli_without_api("help", *command.split()).out == result.out


@pytest.mark.parametrize("words", [(), ("--help",), ("help",)])
def test_help_lists_every_command(cli_without_api: Cli, words: tuple[str, ...]) -> None:
    result = cli_without_api(*words)
    assert result.code == 0
    assert all(f"  {command} " in result.out for command in COMMANDS if command not in SPELLINGS)


def test_words_of_openstack_are_found_where_they_are_looked_for(cli_without_api: Cli) -> None:
    everything = cli_without_api("--help").out
    assert "compute service list" not in everything
    assert "compute service list" in cli_without_api("help", "compute").out
    assert cli_without_api("help", "server", "console").out.count("console log") == 1
    unfinished = cli_without_api("compute", "service")
    assert "Its commands: compute service delete, compute service list, compute service set." in unfinished.err


def test_help_on_a_noun_lists_its_commands(cli_without_api: Cli) -> None:
    result = cli_without_api("flavor", "--help")
    assert [line.split()[1] for line in result.out.splitlines()[1:]] == [
        "create",
        "delete",
        "list",
        "set",
        "show",
        "unset",
    ]


def test_abbreviated_words_and_global_options_anywhere(
    cloud: Cloud, faulty_api: FaultyApi, cli_without_api: Cli
) -> None:
    cloud.make_flavor("one")
    assert "one" in cli_without_api("fl", "li", "--url", faulty_api.url).out


def test_debug_shows_requests_and_tracebacks(faulty_api: FaultyApi, faulty_cli: Cli) -> None:
    result = faulty_cli("server", "show", "nobody", "--debug")
    assert f"> GET {faulty_api.url}/v2.1/servers/detail?limit=1000&name=%5Enobody%24" in result.err
    assert "< 200 in " in result.err
    assert "Traceback" in result.err


def test_completion_for_bash(cli_without_api: Cli) -> None:
    result = cli_without_api("complete")
    assert result.code == 0
    assert (
        "cmds='address aggregate availability capacity complete compute console flavor help host hypervisor image keypair limits network port quota security server service subnet usage'"
        in result.out
    )


def test_bug_unknown_columns_were_left_out_without_a_word(cloud: Cloud, faulty_cli: Cli) -> None:
    add_server(cloud.with_catalogue(), "web")
    result = faulty_cli("server", "list", "-c", "name", "-c", "Locked", "-c", "Colour", "-f", "value")
    assert (result.code, result.out) == (0, "web\n")
    assert result.err.startswith("No column Locked, Colour among ID, Name, ")
    assert result.err.endswith(" --long has more.\n")
    long = faulty_cli("server", "list", "--long", "-c", "Name", "-c", "Locked", "-f", "value")
    assert (long.code, long.err) == (0, "")
