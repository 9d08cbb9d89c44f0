"""A fake error of libvirt had the text of the last real one, so that a test failed by what had run before it in its process."""

import libvirt
import pytest

from tests.fakes.libvirt_errors import libvirt_error


def test_a_fake_error_has_its_own_text_after_a_real_one() -> None:
    with pytest.raises(libvirt.libvirtError, match="/nonexistent"):
        libvirt.open("qemu+unix:///system?socket=/nonexistent")
    error = libvirt_error("no such network", libvirt.VIR_ERR_NO_NETWORK)
    assert (str(error), error.get_error_code()) == ("no such network", libvirt.VIR_ERR_NO_NETWORK)
