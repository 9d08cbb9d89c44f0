"""minova-manage: the operator's tool for the database. A command's module is imported when it runs, because most of a
short command's time is imports.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from oslo_config import cfg

from minova import conf as configuration
from minova import errors, log, private_files
from minova.concurrency import threads

PROG = "minova-manage"
STATE_DIR = cfg.StrOpt(
    "state-dir", help="Folder of a minova-standalone that runs with this option, in place of state_path."
)
BEFORE_COMMANDS = ("--config-file", "--config-dir", "--state-dir")
SERVICES = ("api", "compute", "conductor", "consoleproxy", "metadata", "metadataproxy", "scheduler")


def db_upgrade(conf: cfg.ConfigOpts) -> None:
    """Make or update the tables; print their new revision."""
    from minova.db.connections.tls import connection_url  # noqa: PLC0415 - see the module's first line
    from minova.db.upgrade import upgrade  # noqa: PLC0415 - the same

    print(upgrade(connection_url(conf.database)))


def db_version(conf: cfg.ConfigOpts) -> None:
    """Print the revision of the tables. It is an error if there are none."""
    from minova.db import schema  # noqa: PLC0415 - see the module's first line
    from minova.db.connections.tls import connection_url  # noqa: PLC0415 - the same
    from minova.db.engine import Database  # noqa: PLC0415 - the same

    database = Database(connection_url(conf.database))
    try:
        revision = schema.version(database)
        if revision is None:
            raise schema.no_tables(database)
    finally:
        database.close()
    print(revision)


COMMANDS = {
    "db": {
        "help": "Tables of the database.",
        "upgrade": (db_upgrade, "Make the tables, or bring them up to date; data are kept."),
        "version": (db_version, "Print the revision of the tables."),
    }
}


def simulate_scenario(conf: cfg.ConfigOpts) -> None:
    """Print what the scheduler would answer to the requests of a scenario file."""
    from minova.cmd import simulate  # noqa: PLC0415 - see the module's first line

    simulate.run(conf.command.scenario, pretty=conf.command.pretty)


def print_openapi(conf: cfg.ConfigOpts) -> None:
    """Print the description of the APIs."""
    import json  # noqa: PLC0415 - see the module's first line

    from minova.api.openapi import describe  # noqa: PLC0415 - the same

    print(json.dumps(describe(), indent=2, sort_keys=True))


def _in_module(name: str, function: str) -> Callable[[cfg.ConfigOpts], object]:
    """Returns a command that imports a module of `minova.cmd` when it is called, and calls the function there. A result
    of True means that a check has failed; a number is the exit code.
    """

    def call(conf: cfg.ConfigOpts) -> object:
        return getattr(import_module(f"minova.cmd.{name}"), function)(conf)

    return call


def sizes(text: str) -> list[int]:
    """Parses a command argument such as `100,1000`."""
    return [at_least_one(part) for part in text.split(",")]


def at_least_one(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is less than 1")
    return number


def _add_commands(subparsers: "argparse._SubParsersAction[Any]") -> None:
    subparsers.metavar = "COMMAND"
    subparsers._prog_prefix = PROG  # else the usage of a command begins with the whole usage of minova-manage
    _add_nouns(subparsers)
    _add_bootstrap(subparsers)
    _add_bench(subparsers)
    _add_placement(subparsers)
    _add_host(subparsers)
    _add_config(subparsers)
    _add_machine_type(subparsers)
    _add_unexpected(subparsers)
    _add_recovery(subparsers)
    _add_doctor(subparsers)
    _add_policies(subparsers)
    _add_broker(subparsers)
    text = "What the scheduler would answer to a scenario: hosts, a configuration and requests in one file."
    parser = subparsers.add_parser("simulate", help=text, description=text)
    parser.add_argument("scenario", metavar="SCENARIO.json", help="may be gzipped; - reads the standard input")
    parser.add_argument("--pretty", action="store_true", help="indent the answer")
    parser.set_defaults(work=simulate_scenario)
    text = "Print the OpenAPI description of the Compute, Image and Placement APIs."
    parser = subparsers.add_parser("openapi", help=text, description=text)
    parser.set_defaults(work=print_openapi)


def _add_bootstrap(subparsers: "argparse._SubParsersAction[Any]") -> None:
    text = (
        "Make the usual flavors (m1.nano to m1.xlarge) and a first network in the tables of a new cloud, and print what to do next. What is "
        "there already stays as it is. Services need not run."
    )
    parser = subparsers.add_parser("bootstrap", help="Make the usual flavors and a first network.", description=text)
    parser.add_argument("--no-flavors", action="store_true", help="make the network alone")
    parser.add_argument(
        "--range",
        default="172.30.0.0/24",
        metavar="CIDR",
        help="addresses of the network; none: no network. Default: 172.30.0.0/24",
    )
    parser.add_argument(
        "--project",
        default="admin",
        metavar="PROJECT",
        help="the owner of the network, with Keystone its id. Default: admin",
    )
    parser.set_defaults(work=_in_module("commands.bootstrap", "run"))


def _add_bench(subparsers: "argparse._SubParsersAction[Any]") -> None:
    parser = subparsers.add_parser("bench", help="Measure this machine.")
    below = parser.add_subparsers(dest="verb", metavar="COMMAND", required=True)
    text = "How long the scheduler takes to decide, with the configured chain and with Nova's twelve classic filters."
    command = below.add_parser("scheduler", help=text, description=text)
    command.add_argument("--hosts", type=sizes, default="100,1000,10000", help="numbers of hosts")
    command.add_argument("--runs", type=at_least_one, default=9, help="decisions of each kind")
    command.add_argument("--json", action="store_true", help="rows as JSON")
    command.set_defaults(work=_in_module("bench", "scheduler"))


def _add_placement(subparsers: "argparse._SubParsersAction[Any]") -> None:
    parser = subparsers.add_parser("placement", help="What Placement counts.")
    below = parser.add_subparsers(dest="verb", metavar="COMMAND", required=True)
    text = "Find allocations, counts and providers that do not agree with the instances. Changes nothing without --fix."
    command = below.add_parser("audit", help=text, description=text)
    command.add_argument("--fix", action="store_true", help="put right what can be; instances are never touched")
    command.add_argument("--json", action="store_true", help="the findings as JSON")
    command.set_defaults(work=_in_module("commands.placement_audit", "run"))


def _add_host(subparsers: "argparse._SubParsersAction[Any]") -> None:
    parser = subparsers.add_parser("host", help="Compute hosts.")
    below = parser.add_subparsers(dest="verb", metavar="COMMAND", required=True)
    text = (
        "Give a compute host another name, with its nodes, instances, migrations and aggregates. Stop its minova-compute first; "
        "then set [DEFAULT] host and start it again."
    )
    command = below.add_parser("rename", help="Give a compute host, or its node, another name.", description=text)
    command.add_argument("old", metavar="OLD", help="the host's name in the service list")
    command.add_argument(
        "new", metavar="NEW", help="its [DEFAULT] host from now on; OLD again, if only the node's name changes"
    )
    command.add_argument(
        "--node",
        metavar="NAME",
        help="what the hypervisor calls itself from now on; without it a node that was named as its host follows it",
    )
    command.set_defaults(work=_in_module("commands.host_rename", "run"))
    text = (
        "Say where a compute host serves the consoles of its guests. The first addresses that a host names are recorded, and "
        "minova-consoleproxy connects to no other ones: a host that was taken over cannot lead it elsewhere."
    )
    command = below.add_parser("console-addresses", help="Say where a compute host serves consoles.", description=text)
    command.add_argument("compute_host", metavar="HOST", help="the host's name in the service list")
    command.add_argument(
        "addresses",
        metavar="ADDRESS",
        nargs="+",
        help="its [vnc] server_proxyclient_address, and its [serial_console] proxyclient_address if that is another one",
    )
    command.set_defaults(work=_in_module("commands.host_console_addresses", "run"))


def _add_config(subparsers: "argparse._SubParsersAction[Any]") -> None:
    parser = subparsers.add_parser("config", help="Configuration files.")
    below = parser.add_subparsers(dest="verb", metavar="COMMAND", required=True)
    text = (
        "Say what each option of a nova.conf or minova.conf does here: it is used; it has another name; it has no effect, and why; or it "
        "is unknown, with the most similar name. Nothing is changed. Exit code 1 if one of them is not used."
    )
    command = below.add_parser(
        "check", help="Say what each option of a nova.conf or minova.conf does.", description=text
    )
    command.add_argument("files", metavar="FILE", nargs="+")
    command.set_defaults(work=_in_module("commands.config_check", "run"))


def _add_machine_type(subparsers: "argparse._SubParsersAction[Any]") -> None:
    parser = subparsers.add_parser("machine-type", help="The recorded machine types of servers.")
    below = parser.add_subparsers(dest="verb", metavar="COMMAND", required=True)
    text = (
        "Print the machine type that is recorded for a server, or those of all servers. Exit code 2 if there is no such server, 3 if "
        "none is recorded for it."
    )
    command = below.add_parser("list", help="Print recorded machine types.", description=text)
    command.add_argument("uuid", metavar="SERVER", nargs="?", help="UUID of a server; without it all are printed")
    command.set_defaults(work=_in_module("commands.machine_types", "list_machine_types"))
    text = (
        "Record another machine type for a server, for its next start. The server must be stopped or shelved, and gets no other kind of "
        "machine, nor a version in place of an alias. Exit code 2 if there is no such server, 3 if it is in another state, 4 if it "
        "would get another kind, 5 if the type is not supported."
    )
    command = below.add_parser("update", help="Record another machine type.", description=text)
    command.add_argument("uuid", metavar="SERVER", help="UUID of the server")
    command.add_argument("machine_type", metavar="MACHINE_TYPE", help="such as pc-q35-7.2")
    command.add_argument("--force", action="store_true", help="in any state, and to any type")
    command.set_defaults(work=_in_module("commands.machine_types", "update"))
    text = "Print the servers for which no machine type is recorded. Exit code 3 if there are any."
    command = below.add_parser("list-unset", help="Print servers without a record.", description=text)
    command.set_defaults(work=_in_module("commands.machine_types", "list_unset"))


def _add_unexpected(subparsers: "argparse._SubParsersAction[Any]") -> None:
    parser = subparsers.add_parser("unexpected", help="Guests and images that the database does not know.")
    below = parser.add_subparsers(dest="verb", metavar="COMMAND", required=True)
    text = (
        "List what hosts and image stores hold that has no row, or is newer than its row, as after the restore of a backup. minova "
        "leaves it as it is. Exit code 1 if there is any."
    )
    command = below.add_parser("list", help="List guests and images that the database does not know.", description=text)
    command.add_argument("--json", action="store_true", help="the list as JSON")
    command.set_defaults(work=_in_module("commands.unexpected", "list_unexpected"))
    text = (
        "Make the rows of a guest from what its host keeps of it, or correct them: server, interfaces, allocations, usage of quotas; or "
        "the record of an image. Changes nothing without --apply."
    )
    command = below.add_parser("adopt", help="Make the rows of guests or images.", description=text)
    _add_uuids(command)
    command.add_argument(
        "--take-from",
        metavar="HOST",
        action="append",
        default=[],
        help="adopt the guest although the server is on this other host by its row or task; its guest there is given up; may be repeated",
    )
    command.set_defaults(work=_in_module("commands.unexpected", "adopt"))
    text = "Let the hosts remove a guest with its disks, or the image stores the bytes of an image. Changes nothing without --apply."
    command = below.add_parser("remove", help="Remove guests or images.", description=text)
    _add_uuids(command)
    command.set_defaults(work=_in_module("commands.unexpected", "remove_unexpected"))


def _add_uuids(command: argparse.ArgumentParser) -> None:
    command.add_argument("uuids", metavar="UUID", nargs="+", help="of a guest or an image in the list")
    command.add_argument("--host", dest="on_host", metavar="HOST", help="only the guest on this host")
    command.add_argument("--apply", action="store_true", help="do it; without this option it is only checked")


def _add_recovery(subparsers: "argparse._SubParsersAction[Any]") -> None:
    text = (
        "Show what hosts and image stores hold that the database has lost, as after the restore of a backup or a failover; with "
        "--apply adopt it and end safe mode. Exit code 1 if something is left to do."
    )
    parser = subparsers.add_parser("recovery", help="End safe mode.", description=text)
    parser.add_argument("--apply", action="store_true", help="do it; without this option nothing is changed")
    parser.add_argument(
        "--remove",
        action="append",
        default=[],
        metavar="UUID",
        help="let its host or image store remove this guest or image instead of adopting it; may be repeated",
    )
    parser.add_argument(
        "--without-host",
        dest="without",
        action="append",
        default=[],
        metavar="NAME",
        help="do not wait for the report of this host or image store; may be repeated",
    )
    parser.add_argument(
        "--leave-rest",
        action="store_true",
        help="end safe mode although some cannot be adopted and were not removed; they stay as they are",
    )
    parser.set_defaults(work=_in_module("commands.recovery", "run"))


def _add_doctor(subparsers: "argparse._SubParsersAction[Any]") -> None:
    text = (
        "Look for all that is wrong with the cloud: schema, clocks, services, releases, tasks past their time, guests and servers, "
        "allocations, addresses, images, queues, space; and with this machine: certificates, modes and options of the files that its "
        "services read. Prints each finding with the command that mends it, and nothing if all is well. Changes nothing. Exit code 0 if all "
        "is well, 1 for warnings alone, 2 for errors."
    )
    parser = subparsers.add_parser("doctor", help="Say what is wrong, and which command mends it.", description=text)
    parser.add_argument("--json", action="store_true", help="the findings as JSON")
    parser.set_defaults(work=_in_module("commands.doctor", "run"))


def _add_policies(subparsers: "argparse._SubParsersAction[Any]") -> None:
    parser = subparsers.add_parser("policy", help="What users may do.")
    below = parser.add_subparsers(dest="verb", metavar="COMMAND", required=True)
    text = "Print every policy with its default and its override, in the form of policy.yaml."
    command = below.add_parser("list", help=text, description=text)
    command.add_argument("--overridden", action="store_true", help="only those that policy.yaml changes")
    command.set_defaults(work=_in_module("commands.policies", "list_policies"))
    text = "Whether a policy permits a user something, and why. Exit code 1 if it does not."
    command = below.add_parser("check", help=text, description=text)
    _add_caller(command)
    command.set_defaults(work=_in_module("commands.policies", "check_policy"))


def _add_caller(command: argparse.ArgumentParser) -> None:
    command.add_argument("rule", metavar="POLICY", help="such as os_compute_api:servers:delete")
    command.add_argument("--user", required=True, metavar="USER")
    command.add_argument("--project", metavar="PROJECT", help="the user's; without it the configured one")
    command.add_argument(
        "--role",
        dest="roles",
        action="append",
        metavar="ROLE",
        help="may be repeated; without it the configured roles of the user",
    )
    command.add_argument(
        "--target-project", metavar="PROJECT", help="whose resource it is; without it the user's project"
    )
    command.add_argument("--target-user", metavar="USER", help="who made the resource")
    command.add_argument("--target-visibility", metavar="VISIBILITY", help="of an image: public, shared, ...")


def _add_broker(subparsers: "argparse._SubParsersAction[Any]") -> None:
    parser = subparsers.add_parser("broker", help="Users of services and limits of queues at the message broker.")
    below = parser.add_subparsers(dest="verb", metavar="COMMAND", required=True)
    text = (
        "Make the RabbitMQ user SERVICE.HOST, which may use the queues of that service of that host alone; one that exists gets a new "
        "password. Prints the rabbitmqctl "
        "commands, for a shell on the host of RabbitMQ; with --apply nothing but the line for minova.conf, and RabbitMQ is changed."
    )
    command = below.add_parser("permissions", help="Make the user of a service of a host.", description=text)
    command.add_argument("host_name", metavar="HOST", help="the service's [DEFAULT] host")
    command.add_argument("--service", choices=SERVICES, default="compute")
    command.add_argument("--vhost", help="of the services; default: that of transport_url here")
    command.add_argument("--existing", action="store_true", help="the user is there: only set what it may do")
    _add_rabbitmq(command)
    command.set_defaults(work=_in_module("commands.broker", "run"))
    text = (
        "Limit the queues of hosts: their length, and the time after which an unused one is deleted. Prints the rabbitmqctl commands, for "
        "a shell on the host of RabbitMQ; with --apply RabbitMQ is changed."
    )
    command = below.add_parser("policies", help="Limit the queues of hosts.", description=text)
    command.add_argument("--vhost", help="of the services; default: that of transport_url here")
    _add_rabbitmq(command)
    command.set_defaults(work=_in_module("commands.broker", "set_policies"))


def _add_rabbitmq(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--apply",
        metavar="URL",
        help="RabbitMQ's management API, such as https://admin@broker:15671; a password that is not in it is asked for",
    )
    text = "certificates (PEM) to check an https URL against; default: [oslo_messaging_rabbit] ssl_ca_file, else the system's"
    command.add_argument("--cafile", help=text)


def _add_nouns(subparsers: "argparse._SubParsersAction[Any]") -> None:
    for noun, verbs in COMMANDS.items():
        parser = subparsers.add_parser(noun, help=str(verbs["help"]))
        below = parser.add_subparsers(dest="verb", metavar="COMMAND", required=True)
        for verb, command in verbs.items():
            if isinstance(command, tuple):
                work, text = command
                below.add_parser(verb, help=text, description=text).set_defaults(work=work)


def _loaded(arguments: Sequence[str], command: cfg.SubCommandOpt) -> cfg.ConfigOpts:
    try:
        conf = configuration.load(arguments, PROG, cli=[command, STATE_DIR], usage=f"{PROG} [options] COMMAND ...")
    except SystemExit as end:
        misplaced = [word for word in map(_option, arguments[1:]) if word in BEFORE_COMMANDS]
        if end.code == 2 and misplaced and not arguments[0].startswith("-"):
            print(
                f"{misplaced[0]} stands before the command: {PROG} {misplaced[0]} ... {arguments[0]}", file=sys.stderr
            )
        raise
    if conf.state_dir is not None:
        conf.set_override("state_path", str(Path(conf.state_dir).absolute()))
    return conf


def _option(word: str) -> str:
    return word.partition("=")[0]


def run(arguments: Sequence[str]) -> int:
    """Returns the exit code: 0, or 1 if the command fails (with the reason on standard error) or if its check has
    failed, or the command's own code.
    """
    command = cfg.SubCommandOpt("command", title="commands", handler=_add_commands)
    try:
        conf = _loaded(arguments, command)
        # Logs go to standard error; standard output is only for the command's result.
        conf.set_default("use_stderr", True)
        log.setup(conf)
        failed = conf.command.work(conf)
    except errors.MinovaError as error:
        print(f"{PROG}: {errors.explained(error)}", file=sys.stderr)
        return 1
    return int(failed) if isinstance(failed, int) else 0


def main() -> None:
    private_files.set_umask()
    threads.report_crashes()
    sys.exit(run(sys.argv[1:]))
