"""Short descriptions of users' objects, without their contents and without calling their ``__repr__``."""

import functools
import inspect
import linecache
import re
import sys
from collections.abc import Callable, Iterator
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    MethodDescriptorType,
    MethodWrapperType,
    WrapperDescriptorType,
)
from typing import Any

# Limit for chains of callables, such as an object whose class has another callable object as __call__.
_MAX_LAYERS = 32


def layers_of(op: object) -> Iterator[object]:
    """Yield what is called when ``op`` is called, from the outside in: partials, methods, ``__call__`` of objects.

    Decorators are not unwrapped: the wrapper is what runs.
    """
    for _ in range(_MAX_LAYERS):
        yield op
        if isinstance(op, functools.partial | functools.partialmethod):
            op = op.func
        elif inspect.ismethod(op) or isinstance(op, staticmethod | classmethod):
            op = op.__func__
        elif isinstance(op, FunctionType | BuiltinFunctionType | MethodWrapperType | type):
            return
        else:
            call = inspect.getattr_static(type(op), "__call__", None)
            if call is None or isinstance(call, WrapperDescriptorType | MethodDescriptorType):
                return  # implemented in C
            op = call


def describe_object(obj: object) -> str:
    """Return class and address, like the default ``repr``."""
    return f"<{type(obj).__name__} object at {id(obj):#x}>"


def describe_source(source: object) -> str:
    """Return ``<Cls at file:line>`` if the location of the class is known, else class and address."""
    place = _place_of_class(type(source))
    return describe_object(source) if place is None else f"<{type(source).__name__} at {place}>"


def describe_callable(op: Callable[..., Any]) -> str:
    """Return where ``op`` is defined: ``module.func at file:line``. For callable objects, where their class is defined.

    Unwraps partials and decorators made with :func:`functools.wraps`. Without source, only the name is returned.
    """
    while isinstance(op, functools.partial):
        op = op.func
    if inspect.ismethod(op):
        op = op.__func__
    for _ in range(_MAX_LAYERS):
        wrapped = inspect.getattr_static(op, "__wrapped__", None)
        if not callable(wrapped):
            break
        op = wrapped
    if isinstance(op, BuiltinFunctionType | MethodWrapperType):
        owner = op.__self__
        if owner is None or inspect.ismodule(owner):
            return _qualified(op)
        return f"{_qualified(owner if isinstance(owner, type) else type(owner))}.{op.__name__}"
    # Checked on the type: functions, Python or compiled, have it there. Attribute access on other objects may raise.
    code = getattr(op, "__code__", None) if hasattr(type(op), "__code__") else None
    if isinstance(code, CodeType):
        return f"{_qualified(op)} at {code.co_filename}:{code.co_firstlineno}"
    if inspect.isroutine(op):
        return _qualified(op)
    cls = op if isinstance(op, type) else type(op)
    place = _place_of_class(cls)
    return _qualified(cls) if place is None else f"{_qualified(cls)} at {place}"


def indent(text: str, prefix: str) -> str:
    """Prefix each line with ``prefix``."""
    return "\n".join(prefix + line for line in text.split("\n"))


def _qualified(obj: Any) -> str:
    name = getattr(obj, "__qualname__", None) or getattr(obj, "__name__", None) or type(obj).__qualname__
    module = getattr(obj, "__module__", None)
    return f"{module}.{name}" if module and module not in ("__main__", "builtins") else str(name)


def _place_of_class(cls: type) -> str | None:
    """Return ``file:line`` of a class statement, without parsing the file as :func:`inspect.getsourcelines` does."""
    codes = [value.__code__ for value in vars(cls).values() if isinstance(value, FunctionType)]
    filename = getattr(sys.modules.get(cls.__module__), "__file__", None)
    # Generated methods (dataclass) have the file "<string>"; a class made in a function has the file of its module.
    first = min((code.co_firstlineno for code in codes if code.co_filename == filename), default=None)
    line = vars(cls).get("__firstlineno__")  # Python 3.13+
    if filename is None:
        return None
    if line is None:
        statement = re.compile(rf"\s*class\s+{re.escape(cls.__name__)}\b")
        lines = linecache.getlines(filename)[:first]
        # The last match before the first method is right even if an inner or redefined class has the same name.
        line = next((n for n in range(len(lines), 0, -1) if statement.match(lines[n - 1])), None)
    return None if line is None else f"{filename}:{line}"
