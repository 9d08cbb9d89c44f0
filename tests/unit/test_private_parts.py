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
# Where a library is subclassed or reached into.
ROOMS = ("minova/messaging", "minova/api/listener")
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
    "uvicorn.protocols.http.httptools_impl": ["_start_asgi_task", "_unset_keepalive_if_required"],
    "uvicorn.server": ["_wait_tasks_to_complete"],
}


@pytest.mark.parametrize("module", PARTS)
def test_the_libraries_have_these_parts(module: str) -> None:
    source = inspect.getsource(import_module(module))
    assert [name for name in PARTS[module] if not re.search(rf"\b{name}\b", source)] == []


def test_the_list_is_complete() -> None:
    named = {name for names in PARTS.values() for name in names}
    assert {name for room in ROOMS for name in _foreign(ROOT / room)} - named == set()


def test_these_libraries_have_upper_bounds() -> None:
    setup = ConfigParser()
    setup.read(ROOT / "setup.cfg")
    lines = (setup["options"]["install_requires"] + setup["options.extras_require"]["api"]).splitlines()
    bounded = {line.partition(">=")[0] for line in lines if "<" in line}
    assert bounded >= {"oslo.messaging", "kombu", "amqp", "uvicorn"}


def _foreign(room: Path) -> set[str]:
    """Private names that the modules of a room use, and that none of them defines."""
    used: set[str] = set()
    inherited: set[str] = set()
    defined: set[str] = set()
    for path in room.rglob("*.py"):
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
