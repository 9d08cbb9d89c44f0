"""The private parts of libraries that minova uses. setup.cfg bounds these libraries, and this file says what a newer release may break.

Two processes on a real broker, or a slow client, would find it as well: tests/integration and tests/security do.
"""

import ast
import inspect
import re
from configparser import ConfigParser
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# A name that one room defines is another's of a library. The listener knows servers that the rest of the API does not.
ROOMS = {
    "modules": [*(ROOT / "minova").glob("*.py")],
    "listener": [*(ROOT / "minova/api/listener").rglob("*.py")],
    **{room.name: [*room.rglob("*.py")] for room in (ROOT / "minova").iterdir() if room.is_dir()},
}
# Documented in spite of their names, of named tuples and of SQLAlchemy; and argparse's, which changes with Python alone.
PUBLIC = {"_asdict", "_fields", "_make", "_mapping", "_replace"}
OF_PYTHON = {"_actions", "_option_string_actions", "_prog_prefix"}
PARTS = {
    "oslo_messaging.server": ["_on_incoming", "_pool_opts", "_process_incoming", "_work_executor"],
    "oslo_messaging.transport": ["_driver"],
    "oslo_messaging._drivers.base": ["_url"],
    "oslo_messaging._drivers.common": ["_REMOTE_POSTFIX"],
    "oslo_messaging._drivers.amqpdriver": [
        "_cache",
        "_connection_pool",
        "_get_connection",
        "_lock",
        "_obsolete_reply_queues",
        "_queues",
        "_send_reply",
        "_shutoff",
        "_waiter",
    ],
    "oslo_messaging._drivers.impl_rabbit": [
        "_connection_lock",
        "_consumers",
        "_declared_exchanges",
        "_declared_queues",
        "_ensure_publishing",
        "_fetch_ssl_params",
        "_get_reply_queue_name",
        "_new_tags",
        "_producer",
        "_publish",
        "_publish_and_creates_default_queue",
        "_publish_and_raises_on_missing_exchange",
        "_raw_message",
        "_set_current_channel",
        "_set_qos",
    ],
    "oslo_messaging._metrics.client": [],
    "oslo_messaging._tracing.client": [],
    "kombu.connection": ["_connection", "_default_channel"],
    "kombu.transport.memory": ["_put", "_put_fanout"],
    "kombu.transport.virtual.base": ["_deliver"],
    "amqp.channel": ["_basic_publish"],
    "cliff._argparse": [],
    "cliff.columns": ["_value"],
    "cliff.command": ["_epilog"],
    "cliff.commandmanager": ["_get_last_possible_command_index"],
    "cliff.display": [
        "_compress_iterable",
        "_formatter_plugins",
        "_generate_columns_and_selector",
        "_load_formatter_plugins",
        "_normalize_column_name",
    ],
    "oslo_config.cfg": ["_groups", "_opts"],
    "oslo_context.context": ["_request_store"],
    "oslo_log.formatters": ["_get_error_summary"],
    "sqlalchemy.sql.selectable": ["_for_update_arg"],
    "uvicorn.protocols.http.httptools_impl": ["_start_asgi_task", "_unset_keepalive_if_required"],
    "uvicorn.server": ["_wait_tasks_to_complete"],
    "websockify.websocket": ["_partial_msg", "_recv_buffer"],
}


@pytest.mark.parametrize("module", PARTS)
def test_the_libraries_have_these_parts(module: str) -> None:
    source = inspect.getsource(import_module(module))
    assert [name for name in PARTS[module] if not re.search(rf"\b{name}\b", source)] == []


def test_the_list_is_complete() -> None:
    named = {name for names in PARTS.values() for name in names} | PUBLIC | OF_PYTHON
    assert {name for files in ROOMS.values() for name in _foreign(files)} - named == set()


def test_these_libraries_have_upper_bounds() -> None:
    setup = ConfigParser()
    setup.read(ROOT / "setup.cfg")
    extras = setup["options.extras_require"]
    lines = "".join(
        (setup["options"]["install_requires"], extras["api"], extras["cli"], extras["consoleproxy"])
    ).splitlines()
    bounded = {line.partition(">=")[0].lower() for line in lines if "<" in line}
    assert bounded >= {module.partition(".")[0].replace("_", ".") for module in PARTS}


def _foreign(files: list[Path]) -> set[str]:
    """Private names that these modules use, and that none of them defines."""
    used: set[str] = set()
    inherited: set[str] = set()
    defined: set[str] = set()
    for path in files:
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Attribute(value=ast.Call(func=ast.Name(id="super")), attr=name):
                    inherited.add(name)
                case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()):
                    defined.add(name)
                case ast.Attribute(attr=name):
                    used.add(name)
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                    defined.add(name)
                case ast.Name(id=name, ctx=ast.Store()):
                    defined.add(name)
    return {name for name in inherited | (used - defined) if re.match("_[^_]", name)}
