"""Processes of 16 threads each that decode every type of minova at its first use: `python -m tests.functional.first_decode N`.

The types are imported once; each process is a fork of that one, so it has decoded nothing yet. With `--unprepared` nothing is
built at import, as it was before minova.codecs: then a few of a hundred processes die of a segmentation fault.

Prints how many processes died, and of which signal or exit status. Imports no test library, to be quick.
"""

import importlib
import json
import os
import pkgutil
import re
import sys
import threading
from collections import Counter
from typing import Any

import msgspec
from msgspec import inspect

THREADS = 16
UUID = "d5e6a7b7-80e5-4166-85a3-cd6115201082"
# One for each pattern.
TEXTS = (
    "7",
    UUID,
    "VCPU",
    "HW_CPU_X86_AVX",
    "127.0.0.1",
    "52:54:00:00:00:01",
    64 * "7",
    "0000:00:05.0",
    "qcow2",
    "name",
    "/name",
)
# Values of structs that check their fields themselves.
CHECKED: dict[str, dict[str, Any]] = {
    "NUMAPages": {"size_kb": 4},
    "RebootArguments": {"type": "SOFT"},
    "NewEvent": {"server_uuid": UUID},
}
WRONG = 3  # exit status of a process in which a value was not decoded


def sample(kind: inspect.Type, depth: int = 0) -> Any:
    """Plain data of a type, with one item in each collection, and every field of a struct."""
    if isinstance(kind, inspect.StructType):
        fields = [field for field in kind.fields if field.required or depth < 6]
        values = {field.encode_name: sample(field.type, depth + 1) for field in fields}
        tag = {kind.tag_field: kind.tag} if kind.tag_field is not None else {}
        return tag | values | CHECKED.get(kind.cls.__name__, {})
    if isinstance(kind, inspect.UnionType):
        return sample(next(each for each in kind.types if not isinstance(each, inspect.NoneType)), depth)
    if isinstance(kind, inspect.TupleType):
        return [sample(each, depth) for each in kind.item_types]
    if isinstance(kind, inspect.VarTupleType | inspect.ListType | inspect.SetType | inspect.FrozenSetType):
        return [sample(kind.item_type, depth)]
    if isinstance(kind, inspect.DictType):
        return {str(sample(kind.key_type, depth)): sample(kind.value_type, depth)}
    if isinstance(kind, inspect.EnumType):
        return next(iter(kind.cls)).value
    if isinstance(kind, inspect.LiteralType):
        return kind.values[0]
    if isinstance(kind, inspect.IntType):
        return max(7, kind.ge or 7)
    if isinstance(kind, inspect.StrType) and kind.pattern is not None:
        return next(text for text in TEXTS if re.search(kind.pattern, text))
    return _scalar(kind)


def _scalar(kind: inspect.Type) -> Any:
    scalars: dict[type, Any] = {
        inspect.FloatType: 7.5,
        inspect.BoolType: True,
        inspect.DateTimeType: "2026-01-02T03:04:05",
        inspect.NoneType: None,
        inspect.AnyType: "any",
    }
    return scalars.get(type(kind), "7")


def import_all() -> None:
    """Every module of minova; libvirt's binding is optional."""
    minova = importlib.import_module("minova")
    for module in pkgutil.walk_packages(minova.__path__, "minova."):
        if "migrations" not in module.name:
            try:
                importlib.import_module(module.name)
            except ModuleNotFoundError as error:
                if error.name != "libvirt":
                    raise


def leave_unprepared() -> None:
    """Nothing is built at import, which is how minova was before."""
    codecs = importlib.import_module("minova.codecs")

    def remember(self: Any, kind: Any, *, strict: bool = True) -> None:
        self.kind, self._strict = kind, strict
        codecs._PREPARED.append(kind)

    codecs.Decoder.__init__ = remember
    codecs.Decoder.from_json = lambda self, text: msgspec.json.decode(text, type=self.kind, strict=self._strict)


def texts() -> list[tuple[Any, bytes]]:
    """Samples are found in another process, because finding them reads the types."""
    reading, writing = os.pipe()
    child = os.fork()
    codecs = importlib.import_module("minova.codecs")
    kinds = list(codecs.prepared())
    if child == 0:
        os.close(reading)
        with os.fdopen(writing, "w") as pipe:
            json.dump([sample(inspect.type_info(kind)) for kind in kinds], pipe)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        samples = json.load(pipe)
    os.waitpid(child, 0)
    return [(kind, json.dumps(each).encode()) for kind, each in zip(kinds, samples, strict=True)]


def decode_all(values: list[tuple[Any, bytes]]) -> int:
    """The exit status of one process: its threads decode the same types at the same time."""
    together, wrong = threading.Barrier(THREADS), []

    def work() -> None:
        together.wait()
        for kind, text in values:
            try:
                msgspec.json.decode(text, type=kind, strict=False)
                msgspec.convert(json.loads(text), kind, strict=False)
            except msgspec.ValidationError as error:
                wrong.append(f"{kind}: {error}")

    threads = [threading.Thread(target=work) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for line in sorted(set(wrong)):
        print(line, file=sys.stderr)
    return WRONG if wrong else 0


def ends(processes: int, values: list[tuple[Any, bytes]]) -> Counter[int]:
    """How many processes ended with each exit status; a negative one is a signal."""
    counts_by_code: Counter[int] = Counter()
    for _ in range(processes):
        child = os.fork()
        if child == 0:
            os._exit(decode_all(values))
        counts_by_code[os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])] += 1
    return counts_by_code


def main() -> None:
    arguments = [each for each in sys.argv[1:] if each != "--unprepared"]
    if "--unprepared" in sys.argv:
        leave_unprepared()
    import_all()
    values = texts()
    counts_by_code = ends(int(arguments[0]) if arguments else 100, values)
    print(json.dumps({"types": len(values), "ends": dict(sorted(counts_by_code.items()))}))


if __name__ == "__main__":
    main()
