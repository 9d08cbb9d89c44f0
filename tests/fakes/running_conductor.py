"""A conductor in this process. Its methods are called as over the bus: through the checks of its contract."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, cast

import msgspec
import oslo_messaging

from minova.cmd.conductor import implementation
from minova.conductor.manager import ConductorCollaborators, ConductorManager
from minova.conductor.tasks.worker import TaskWorker
from minova.context import RequestContext
from minova.contracts.base import Method, methods_of
from minova.contracts.conductor import ConductorApi
from minova.messaging.dispatch import Endpoint
from minova.safe_mode import SafeMode
from minova.service import PeriodicTask


class RunningConductor(ConductorApi, Protocol):
    """What `running` returns: the methods of the contract, and the life of the service."""

    host: str
    worker: TaskWorker
    safe_mode: SafeMode
    collaborators: ConductorCollaborators

    def init_host(self) -> None: ...
    def pre_start_hook(self) -> None: ...
    def post_start_hook(self) -> None: ...
    def periodic_tasks(self) -> Sequence[PeriodicTask]: ...
    def broker_is_back(self) -> None: ...
    def stop(self) -> None: ...


def running(manager: ConductorManager) -> RunningConductor:
    return cast(RunningConductor, _Running(manager))


class _Running:
    def __init__(self, manager: ConductorManager) -> None:
        endpoint = Endpoint(implementation(manager), ConductorApi)
        self._manager = manager
        for name, method in methods_of(ConductorApi).items():
            setattr(self, name, _called(getattr(endpoint, name), method))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._manager, name)


def _called(handle: Callable[..., Any], method: Method) -> Callable[..., Any]:
    def call(ctx: RequestContext, **arguments: Any) -> Any:
        sent = {method.encoded.get(name, name): msgspec.to_builtins(value) for name, value in arguments.items()}
        try:
            answer = handle(ctx, **sent)
        except oslo_messaging.ExpectedException as expected:
            raise expected.exc_info[1] from None
        return method.answer.from_builtins(msgspec.to_builtins(answer))

    return call
