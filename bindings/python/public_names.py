# SPDX-License-Identifier: Apache-2.0
"""The public names of the package that this Python has, as JSON: a row for each name, method, field, and each argument by itself, as one more that may be left
out is an addition."""
import collections.abc
import dataclasses
import enum
import importlib
import inspect
import json

MODULES = ("quarry", "quarry.errors", "quarry.onnx_backend")
PROMISED = (dict, int, tuple, collections.abc.Sequence)
rows = {}


def arguments(name, function):
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return
    place = 0
    for parameter in parameters:
        if parameter.name in ("self", "cls"):
            continue
        place += parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        how = {parameter.POSITIONAL_ONLY: f"{place}, without its name", parameter.POSITIONAL_OR_KEYWORD: str(place), parameter.KEYWORD_ONLY: "by name",
               parameter.VAR_POSITIONAL: "any more", parameter.VAR_KEYWORD: "any others by name"}[parameter.kind]
        wanted = parameter.default is parameter.empty and "any" not in how
        rows[f"{name}({parameter.name})"] = how + (", wanted" if wanted else "")


def of_class(name, kind):
    bases = [base.__name__ for base in kind.__mro__[1:] if base in PROMISED or (issubclass(kind, Exception) and base not in (object, BaseException, Exception))]
    rows[name] = "class" + (f" of {', '.join(bases)}" if bases else "")
    if hasattr(kind, "close"):  # others are made by the library alone
        arguments(name, kind)
    for field in dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ():
        rows[f"{name}.{field.name}"] = "field"
    own = {member: value for base in reversed(kind.__mro__) if base.__module__.split(".")[0] == "quarry" for member, value in vars(base).items()}
    for member, value in own.items():
        if member.startswith("_") and member not in ("__call__", "__enter__", "__exit__", "__iter__", "__len__", "__getitem__", "__await__"):
            continue
        row = f"{name}.{member}"
        if isinstance(value, (staticmethod, classmethod)):
            rows[row] = type(value).__name__
            arguments(row, value.__func__)
        elif inspect.isfunction(value):
            rows[row] = "async method" if inspect.iscoroutinefunction(value) else "method"
            if not member.startswith("__") or member == "__call__":
                arguments(row, value)
        elif row not in rows:
            rows[row] = "property" if isinstance(value, property) else f"member {value.value}" if isinstance(value, kind) and issubclass(kind, enum.Enum) else "member"


for module_name in MODULES:
    module = importlib.import_module(module_name)
    for name in getattr(module, "__all__", None) or [n for n, v in vars(module).items() if getattr(v, "__module__", "") == module_name and not n.startswith("_")]:
        value, row = getattr(module, name), f"{module_name}.{name}"
        if module_name == "quarry.errors" and not (inspect.isclass(value) and issubclass(value, Exception)):
            continue
        if inspect.isclass(value):
            of_class(row, value)
        elif callable(value):
            rows[row] = "function"
            arguments(row, value)
        else:
            rows[row] = "value"
print(json.dumps(rows))
