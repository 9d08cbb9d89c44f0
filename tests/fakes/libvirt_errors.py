"""Errors as libvirt raises them, for fakes of its connections and domains."""

import libvirt


def libvirt_error(text: str, code: int = libvirt.VIR_ERR_INTERNAL_ERROR) -> libvirt.libvirtError:
    """An error with this text and this code.

    The class itself takes text and code of the last error of this thread, if an earlier test has left one, and its argument
    only if there is none.
    """
    libvirt.virResetLastError()
    error = libvirt.libvirtError(text)
    error.err = (code, libvirt.VIR_FROM_NONE, text, libvirt.VIR_ERR_ERROR, text, None, None, -1, -1)
    return error
