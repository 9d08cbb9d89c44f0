"""Gives functions that exist the code of a broken copy of their module: nothing is imported again."""

import gc
from collections.abc import Iterator, Mapping
from types import CodeType, FunctionType


def functions_of(file: str) -> list[FunctionType]:
    """All functions whose code stands in the file. What pytest collected is hidden from gc.get_objects() until gc.unfreeze()."""
    return [
        function
        for function in gc.get_objects()
        if type(function) is FunctionType and function.__code__.co_filename == file
    ]


def changed_codes(sound: str, broken: str, file: str) -> dict[CodeType, CodeType]:
    """The code of each function that differs, before and after."""
    pairs = _pairs(compile(sound, file, "exec"), compile(broken, file, "exec"))
    return {before: after for before, after in pairs if before != after}


def swap(functions: list[FunctionType], codes: Mapping[CodeType, CodeType]) -> int:
    """Returns how many functions have new code."""
    swapped = [function for function in functions if function.__code__ in codes]
    for swapped_function in swapped:
        swapped_function.__code__ = codes[swapped_function.__code__]
    return len(swapped)


def _pairs(before: CodeType, after: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    """Code inside other code is among its constants, in the same order. A change may leave such code out, which then has no pair."""
    inner = [[constant for constant in code.co_consts if isinstance(constant, CodeType)] for code in (before, after)]
    if len(inner[0]) == len(inner[1]):
        for inner_code, other in zip(*inner, strict=True):
            yield inner_code, other
            yield from _pairs(inner_code, other)
