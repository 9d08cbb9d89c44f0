"""Broken copies of a module, each with one change that cosmic-ray makes: a comparison turned, a condition negated, a number one off, a
loop or a call left out.

Of cosmic-ray's replacements each operator has those that a person would mistype: all of them would be ten times as many.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import parso
import parso.python.tree
from cosmic_ray import plugins
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators import boolean_replacer

_COMPARISONS = (
    "Eq_NotEq",
    "NotEq_Eq",
    "Lt_LtE",
    "Lt_GtE",
    "LtE_Lt",
    "LtE_Gt",
    "Gt_GtE",
    "Gt_LtE",
    "GtE_Gt",
    "GtE_Lt",
    "Is_IsNot",
    "IsNot_Is",
)
_ARITHMETIC = (
    "Add_Sub",
    "Sub_Add",
    "Mul_Add",
    "Div_Mul",
    "FloorDiv_Mul",
    "Mod_Mul",
    "BitOr_BitAnd",
    "BitAnd_BitOr",
    "BitXor_BitOr",
)
_OTHERS = (
    *(
        "AddNot",
        "ReplaceTrueWithFalse",
        "ReplaceFalseWithTrue",
        "ReplaceAndWithOr",
        "ReplaceOrWithAnd",
        "NumberReplacer",
    ),
    *("ReplaceBreakWithContinue", "ReplaceContinueWithBreak", "ZeroIterationForLoop", "ReplaceUnaryOperator_USub_UAdd"),
    "ReplaceUnaryOperator_Delete_Not",
)
NAMES = (
    *(f"core/ReplaceComparisonOperator_{name}" for name in _COMPARISONS),
    *(f"core/ReplaceBinaryOperator_{name}" for name in _ARITHMETIC),
    *(f"core/{name}" for name in _OTHERS),
)


class DropCall:
    """Leaves out a statement that is only a call. Calls of the log stay."""

    def mutation_positions(self, node: Any) -> Iterator[tuple[Any, Any]]:
        if node.type == "simple_stmt" and node.children[0].type in {"atom_expr", "power"}:
            text = node.children[0].get_code(include_prefix=False)
            if text.endswith(")") and not text.startswith("LOG."):
                yield node.children[0].start_pos, node.children[0].end_pos

    def mutate(self, node: Any, index: int) -> Any:
        call = node.children[0]
        node.children[0] = parso.python.tree.Keyword("pass", call.start_pos, prefix=call.get_first_leaf().prefix)
        return node


class AddNot(boolean_replacer.AddNot):  # type: ignore[misc]
    """Negates a condition. One that is an assignment, `if name := value`, needs brackets then."""

    def mutate(self, node: Any, index: int) -> Any:
        place = 2 if node.type == "test" else 1
        condition = node.children[place]
        if condition.type != "namedexpr_test":
            return super().mutate(node, index)
        parse: Any = parso.parse
        node.children[place] = parse(f" not ({condition.get_code(include_prefix=False)})")
        return node


class Mutant(NamedTuple):
    """`line`: of the module, where the change begins; `text`: of that line. `nth`: of the mutants of one kind on lines with this text."""

    path: str
    kind: str
    line: int
    text: str
    nth: int
    occurrence: int

    @property
    def key(self) -> tuple[str, str, str, int]:
        """Stays the same when other lines of the module change."""
        return self.path, self.kind, self.text, self.nth


def operators() -> dict[str, Any]:
    """Each kind of change with what makes it."""
    return {name.removeprefix("core/"): plugins.get_operator(name)() for name in NAMES} | {
        "AddNot": AddNot(),
        "DropCall": DropCall(),
    }


def mutants_of(path: Path, root: Path) -> Iterator[Mutant]:
    code = path.read_text()
    lines, tree, types = code.splitlines(), get_ast(code), _annotations(code)
    for kind, operator in operators().items():
        seen: dict[str, int] = {}
        positions = (begin for node in ast_nodes(tree) for begin, _ in operator.mutation_positions(node))
        for occurrence, begin in enumerate(positions):
            text = lines[begin[0] - 1].strip()
            nth = seen[text] = seen.get(text, 0) + 1
            # `frozen` and `kw_only` of structs are for type checkers.
            if text.startswith("class ") or text == "@dataclass":
                continue
            if not any(first <= begin < last for first, last in types):
                yield Mutant(str(path.relative_to(root)), kind, begin[0], text, nth, occurrence)


def code_of(mutant: Mutant, root: Path) -> str:
    changed = mutate_code((root / mutant.path).read_text(), operators()[mutant.kind], mutant.occurrence)
    assert changed is not None, mutant
    return str(changed)


def _annotations(code: str) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Where types stand: a change of them has no effect."""
    expressions: list[ast.expr] = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.AnnAssign):
            expressions.append(node.annotation)
            if isinstance(node.annotation, ast.Name) and node.annotation.id == "TypeAlias" and node.value is not None:
                expressions.append(node.value)
        elif isinstance(node, ast.arg) and node.annotation is not None:
            expressions.append(node.annotation)
        elif isinstance(node, ast.FunctionDef) and node.returns is not None:
            expressions.append(node.returns)
    return [
        ((expression.lineno, expression.col_offset), (expression.end_lineno or 0, expression.end_col_offset or 0))
        for expression in expressions
    ]
