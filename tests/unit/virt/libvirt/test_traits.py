from minova.objects.numa import NUMACell, NUMATopology
from minova.virt.libvirt.traits import ALWAYS, traits_of

SMT = NUMATopology((NUMACell(id=0, memory=1, siblings=(frozenset({0, 1}),)),))


def test_features_have_standard_names_or_none() -> None:
    found = set(traits_of("x86_64", ["vmx", "avx512-vnni", "sse4.2", "nonsense"], None)) - set(ALWAYS)
    assert found == {
        "HW_ARCH_X86_64",
        "HW_CPU_X86_VMX",
        "HW_CPU_X86_INTEL_VMX",
        "HW_CPU_X86_AVX512VNNI",
        "HW_CPU_X86_SSE42",
    }


def test_a_machine_with_two_threads_on_a_core_says_so() -> None:
    assert "HW_CPU_HYPERTHREADING" in traits_of("aarch64", [], SMT)
    assert "HW_CPU_HYPERTHREADING" not in traits_of("aarch64", [], None)


def test_an_architecture_that_nobody_named_is_left_out() -> None:
    assert set(traits_of("vax", [], None)) == set(ALWAYS)
