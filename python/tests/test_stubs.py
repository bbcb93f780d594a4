"""The type stubs name what the package has, with the same parameters."""

import ast
import inspect
from pathlib import Path

import nitro_lab as nl

STUBS = ast.parse((Path(__file__).resolve().parents[1] / "nitro_lab" / "__init__.pyi").read_text())
PUBLIC = {node.name: node for node in STUBS.body if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_")}


def parameters(node):
    """Names with their defaults as they are written."""
    arguments = node.args
    names = [argument.arg for argument in arguments.posonlyargs + arguments.args]
    defaults = [None] * (len(names) - len(arguments.defaults)) + [ast.literal_eval(default) for default in arguments.defaults]
    found = [(name, default) for name, default in zip(names, defaults)]
    found += [("*" + arguments.vararg.arg, None)] if arguments.vararg else []
    found += [(argument.arg, default and ast.literal_eval(default)) for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults)]
    return found + ([("**" + arguments.kwarg.arg, None)] if arguments.kwarg else [])


def real(function):
    marks = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    return [
        (marks.get(one.kind, "") + one.name, None if one.default is inspect.Parameter.empty else one.default)
        for one in inspect.signature(function).parameters.values()
    ]


def test_the_same_names():
    assert sorted(PUBLIC) == sorted(nl.__all__)


def test_the_same_parameters():
    for name, node in PUBLIC.items():
        if isinstance(node, ast.FunctionDef):
            assert parameters(node) == real(getattr(nl, name)), name
            continue
        for method in node.body:
            if isinstance(method, ast.FunctionDef) and not any(isinstance(one, ast.Name) for one in method.decorator_list):
                assert parameters(method) == real(getattr(getattr(nl, name), method.name)), f"{name}.{method.name}"
            elif isinstance(method, ast.AnnAssign):
                assert hasattr(getattr(nl, name), method.target.id) or name in ("Trace", "Requests"), method.target.id


def test_everything_is_documented():
    for name in nl.__all__:
        assert inspect.getdoc(getattr(nl, name)), name
