"""The functions of the helper process of `root_files`. Only `root_files` imports this module, in processes that have a
helper.
"""

import os
import re
import signal
import stat
import uuid
import warnings

with warnings.catch_warnings():
    # Warnings of eventlet, which oslo.privsep imports to check whether it is in use.
    warnings.simplefilter("ignore")
    from oslo_privsep import capabilities, priv_context

_NAME = re.compile(r"disk(\.\w+)?|kernel|ramdisk|snapshot\.overlay|console\.log(\.\d+)?")
context = priv_context.PrivContext(
    "minova",
    cfg_section="privsep_guest_files",
    pypath=f"{__name__}.context",
    capabilities=[int(capabilities.CAP_CHOWN)],
    timeout=10.0,
)


def start() -> None:
    """Fork the helper, and drop all capabilities in this process."""
    # Drop them between the fork and the first thread, which reads the helper's answers: a thread keeps the capabilities
    # with which it started.
    os.register_at_fork(after_in_parent=_give_up, after_in_child=_ignore_signals)
    context.start(priv_context.Method.FORK)


def _give_up() -> None:
    capabilities.drop_all_caps_except([], [], [])


def _ignore_signals() -> None:
    """Ignore signals, so that the helper ends together with the service, not before."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


@context.entrypoint
def take_back(instances: str, instance_uuid: str, name: str) -> None:
    """Give a file of root to the owner and the group of the guest's folder. Raises ValueError or OSError if it is not
    such a file.

    No argument may lead to another file: this function runs with a right that the caller lacks.
    """
    if _NAME.fullmatch(name) is None:
        raise ValueError(f"{name!r} is no file of a guest")
    folder = os.open(f"{instances}/{uuid.UUID(instance_uuid)}", os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        handle = os.open(name, os.O_PATH | os.O_NOFOLLOW, dir_fd=folder)
    except BaseException:
        os.close(folder)
        raise
    try:
        owner, status = os.fstat(folder), os.fstat(handle)
        # A file with a second link could be any file of root on this file system.
        if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1 or status.st_uid != 0:
            raise ValueError(f"{name!r} of instance {instance_uuid} is no plain file of root")
        os.chown(f"/proc/self/fd/{handle}", owner.st_uid, owner.st_gid)
    finally:
        os.close(handle)
        os.close(folder)
