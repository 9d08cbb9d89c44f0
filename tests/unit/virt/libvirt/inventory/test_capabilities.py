"""What a host is, from the XML that libvirt gives of it."""

import json
import re

import pytest

from minova.objects.hosts.numa import NUMACell, NUMAPages, NUMATopology
from minova.virt.libvirt.inventory import capabilities

TWO_CELLS = """\
<capabilities>
  <host>
    <cpu><arch>x86_64</arch><model>Cascadelake-Server</model><vendor>Intel</vendor>
      <topology sockets='2' dies='1' cores='2' threads='2'/>
      <feature name='vmx'/><feature name='avx512f'/>
    </cpu>
    <topology><cells num='2'>
      <cell id='0'><memory unit='KiB'>8388608</memory>
        <pages unit='KiB' size='4'>2097152</pages><pages unit='KiB' size='2048'>512</pages>
        <cpus num='4'>
          <cpu id='0' socket_id='0' core_id='0' siblings='0,4'/><cpu id='4' socket_id='0' core_id='0' siblings='0,4'/>
          <cpu id='1' socket_id='0' core_id='1' siblings='1,5'/><cpu id='5' socket_id='0' core_id='1' siblings='1,5'/>
        </cpus></cell>
      <cell id='1'><memory unit='KiB'>4194304</memory>
        <cpus num='2'><cpu id='2' siblings='2-3'/><cpu id='3' siblings='2-3'/></cpus></cell>
    </cells></topology>
  </host>
  <guest><os_type>hvm</os_type>
    <arch name='i386'><domain type='qemu'/><domain type='kvm'/></arch></guest>
  <guest><os_type>hvm</os_type>
    <arch name='x86_64'><domain type='qemu'/><domain type='kvm'/></arch></guest>
  <guest><os_type>hvm</os_type><arch name='x86_64'><domain type='qemu'/></arch></guest>
</capabilities>
"""


def test_what_can_run_here_each_said_once() -> None:
    parsed = capabilities.parse(TWO_CELLS)
    assert parsed.supported_instances == (
        ("i686", "qemu", "hvm"),
        ("i686", "kvm", "hvm"),
        ("x86_64", "qemu", "hvm"),
        ("x86_64", "kvm", "hvm"),
    )
    assert parsed.supports("kvm")
    assert not parsed.supports("lxc")


def test_machine_types_of_a_kind_of_guests() -> None:
    guests = """<capabilities><host/>
      <guest><os_type>hvm</os_type><arch name='x86_64'>
        <machine maxCpus='255'>pc-i440fx-7.2</machine><machine canonical='pc-i440fx-7.2' maxCpus='255'>pc</machine>
        <domain type='qemu'/><domain type='kvm'><machine>microvm</machine></domain></arch></guest>
      <guest><os_type>hvm</os_type><arch name='s390x'><domain type='qemu'/></arch></guest>
      <guest><os_type>xen</os_type><arch name='i686'><machine>xenpv</machine><domain type='xen'/></arch></guest>
    </capabilities>"""
    parsed = capabilities.parse(guests)
    assert parsed.machines_of("qemu") == {"x86_64": {"pc", "pc-i440fx-7.2"}, "s390x": set()}
    assert parsed.machines_of("kvm") == {"x86_64": {"pc", "pc-i440fx-7.2", "microvm"}}
    assert parsed.machines_of("xen") == {}


def test_cpu_info_is_novas_json() -> None:
    assert json.loads(capabilities.parse(TWO_CELLS).cpu_info) == {
        "arch": "x86_64",
        "model": "Cascadelake-Server",
        "vendor": "Intel",
        "topology": {"cells": 2, "sockets": 2, "cores": 2, "threads": 2},
        "features": ["avx512f", "vmx"],
    }


def test_cpus_that_are_offline_are_no_guests() -> None:
    """libvirt writes nothing but the number of such a CPU."""
    gone = TWO_CELLS.replace("<cpu id='2' siblings='2-3'/>", "<cpu id='2'/>").replace("siblings='2-3'", "siblings='3'")
    parsed = capabilities.parse(gone)
    assert parsed.cpus == {0, 1, 3, 4, 5}
    assert parsed.numa_topology is not None
    assert parsed.numa_topology.cells[1].cpuset == parsed.numa_topology.cells[1].pcpuset == {3}
    assert parsed.odd == ()


def test_where_no_cpu_tells_its_siblings_all_are_online() -> None:
    without_siblings = re.sub(r" siblings='[^']*'", "", TWO_CELLS)
    assert capabilities.parse(without_siblings).cpus == frozenset(range(6))


def test_numa_cells_with_siblings_and_pages() -> None:
    parsed = capabilities.parse(TWO_CELLS)
    assert parsed.cpus == frozenset(range(6))
    everything = frozenset({0, 1, 4, 5})
    assert parsed.numa_topology == NUMATopology(
        (
            NUMACell(
                id=0,
                cpuset=everything,
                pcpuset=everything,
                memory=8192,
                siblings=(frozenset({0, 4}), frozenset({1, 5})),
                mempages=(NUMAPages(size_kb=4, total=2097152), NUMAPages(size_kb=2048, total=512)),
                socket=0,
            ),
            NUMACell(
                id=1,
                cpuset=frozenset({2, 3}),
                pcpuset=frozenset({2, 3}),
                memory=4096,
                siblings=(frozenset({2, 3}),),
            ),
        )
    )


def test_a_cell_whose_cpus_are_on_two_sockets_has_none() -> None:
    parsed = capabilities.parse(TWO_CELLS.replace("<cpu id='1' socket_id='0'", "<cpu id='1' socket_id='1'"))
    assert parsed.numa_topology is not None
    assert [cell.socket for cell in parsed.numa_topology.cells] == [None, None]


def test_only_the_cpus_set_apart_for_guests_are_in_the_cells() -> None:
    topology = capabilities.parse(TWO_CELLS).numa_topology
    assert topology is not None
    ours = capabilities.with_cpus(topology, frozenset({0, 2}), frozenset({1, 3, 5}))
    assert [cell.cpuset for cell in ours.cells] == [{0}, {2}]
    assert [cell.pcpuset for cell in ours.cells] == [{1, 5}, {3}]
    assert [cell.siblings for cell in ours.cells] == [({0}, {1, 5}), ({2, 3},)]


def test_a_host_that_tells_little_is_a_host_still() -> None:
    parsed = capabilities.parse("<capabilities><host/></capabilities>")
    assert parsed == capabilities.Capabilities(arch="", odd=("the host has no cpu",))


@pytest.mark.parametrize(
    ("good", "bad", "odd"),
    [
        ("<cell id='1'>", "<cell>", "cell with id ''"),
        ("<cell id='1'>", "<cell id='one'>", "cell with id 'one'"),
        ("<memory unit='KiB'>4194304</memory>", "", "cell 1 has no memory"),
        ("<memory unit='KiB'>4194304</memory>", "<memory>much</memory>", "memory 'much' KiB of cell 1"),
        ("unit='KiB'>4194304", "unit='furlong'>4194304", "memory '4194304' furlong of cell 1"),
        ("<cpu id='2' ", "<cpu ", "cpu with id ''"),
        ("siblings='2-3'/></cpus>", "siblings='3-2'/></cpus>", "siblings of cpu 3: '3-2': 3 > 2"),
        ("size='2048'>512<", "size='2048'>-5<", "'-5' pages of size '2048' KiB"),
        ("size='2048'>512<", "size='big'>512<", "pages with size 'big'"),
        ("cores='2'", "cores='two'", "topology with cores 'two'"),
    ],
)
def test_what_is_odd_is_named_and_all_else_is_read(good: str, bad: str, odd: str) -> None:
    assert good in TWO_CELLS
    parsed = capabilities.parse(TWO_CELLS.replace(good, bad))
    assert odd in parsed.odd
    assert parsed.numa_topology is not None
    assert parsed.numa_topology.cells[0].memory == 8192
    assert len(parsed.supported_instances) == 4
    assert "Cascadelake-Server" in parsed.cpu_info


def test_units_are_heeded() -> None:
    parsed = capabilities.parse(TWO_CELLS.replace("unit='KiB'>4194304", "unit='MiB'>4096"))
    assert parsed == capabilities.parse(TWO_CELLS)


def test_the_features_of_the_model_are_in_cpu_info() -> None:
    features = capabilities.with_features(capabilities.parse(TWO_CELLS), ["vmx", "sse2"])
    assert json.loads(features.cpu_info)["features"] == ["avx512f", "sse2", "vmx"]


@pytest.mark.parametrize("xml", ["", "no xml", "<capabilities/>"])
def test_what_is_not_of_a_host_says_so(xml: str) -> None:
    with pytest.raises(ValueError, match="the capabilities"):
        capabilities.parse(xml)
