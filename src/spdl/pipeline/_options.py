"""The options of a build: the type, default, check and text of each, once.

``build_pipeline``, ``PipelineBuilder.build``, ``run_pipeline_in_subprocess`` and ``DataLoader`` take them as
``**options: Unpack[BuildOptions]``, which type checkers check. :func:`shows_options` puts them into what
``inspect.signature`` and ``help()`` show; :func:`checked` checks them and adds the defaults.
"""

import inspect
import re
import textwrap
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final, TypedDict, TypeVar, cast

from spdl._numbers import as_finite, as_int, as_path, as_timeout, check_callable

from .defs import validate_max_failures

if TYPE_CHECKING:
    from collections.abc import Sequence
    from os import PathLike
    from typing import Literal

    from ._failed_items import FailureEvent
    from ._info import StageInfo
    from ._observe._background import BackgroundTaskFactory
    from ._observe._queues import AsyncQueue
    from ._observe._task_hooks import TaskHook
    from .defs import MaxFailures

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class _Option:
    """What there is to say about an option beside its name and type."""

    default: Any
    check: Callable[[str, Any], Any]  #: ``check(name, value)`` returns the value to use, or raises
    text: str
    is_for_regions: bool = False  #: whether the pipelines in the workers of regions have it too


def _as_given(name: str, value: Any) -> Any:
    return value


def _as_function(name: str, value: Any) -> Any:
    check_callable(name, value)
    return value


def as_tasks(name: str, value: Any) -> "list[BackgroundTaskFactory] | None":
    """Return the factories of background tasks."""
    if value is None:
        return None
    if not isinstance(value, Iterable):
        raise TypeError(f"{name} must be a list or None, got an object of type {type(value).__qualname__}")
    tasks = list(value)
    for position, factory in enumerate(tasks):
        if not callable(factory):
            raise TypeError(
                f"the background task factories in {name} must be callable, got an object of type "
                f"{type(factory).__qualname__} at position {position}"
            )
    return tasks


def _as_resumable(name: str, value: Any) -> Any:
    if not isinstance(value, bool) and value != "best-effort":
        raise ValueError(f'{name} must be True, False or "best-effort", got {value!r}')
    return value


def _as_stall_action(name: str, value: Any) -> Any:
    if value not in ("log", "raise"):
        raise ValueError(f'{name} must be "log" or "raise", got {value!r}')
    return value


def _as_listener(name: str, value: Any) -> Any:
    if value is not None and not callable(value):
        raise TypeError(f"{name} must be a function of a FailureEvent, got {value!r}")
    if inspect.iscoroutinefunction(value):
        raise TypeError(f"{name} must not be an async function: nothing would await it")
    return value


def _as_path_or_none(name: str, value: Any) -> Any:
    return None if value is None else as_path(name, value)


class BuildOptions(TypedDict, total=False):
    """The options of a build. Adding one here adds it to all that take them."""

    num_threads: Annotated[
        "int | None",
        _Option(
            None,
            lambda name, value: None if value is None else as_int(name, value, 1),
            """Number of worker threads shared by all sync ops. ``None``: derived from the number of CPUs that the
            process of the pipeline may use.""",
            is_for_regions=True,
        ),
    ]
    max_failures: Annotated[
        "MaxFailures",
        _Option(
            -1,
            lambda _, value: validate_max_failures(value),
            """Maximum number of failed items, summed over all stages, or the maximum share of failed calls as a
            :class:`~fractions.Fraction` (checked from the 100th call on), or the maximum share of the newest calls of
            each stage as a :class:`~spdl.pipeline.Rate`. Negative: no limit. With any limit, a stage whose calls have
            all failed fails at the end of the stream or of an epoch.""",
            is_for_regions=True,
        ),
    ]
    report_stats_interval: Annotated[
        "float",
        _Option(
            -1,
            as_finite,
            """Seconds between reports in the log: one table of all stages, as ``str(stats())``, for the default hook
            and queue. ``-1``: only at the end.""",
            is_for_regions=True,
        ),
    ]
    queue_class: Annotated[
        "Callable[..., AsyncQueue] | None",
        _Option(
            None,
            _as_function,
            """Function called with ``(info, buffer_size=n)`` for every stage. The queue that it returns observes the
            stage's output.""",
        ),
    ]
    task_hook_factory: Annotated[
        "Callable[[StageInfo], list[TaskHook]] | None",
        _Option(
            None,
            _as_function,
            """Function called with the :class:`~spdl.pipeline.StageInfo` of every stage. Returns the stage's hooks.""",
        ),
    ]
    stage_id: Annotated["int", _Option(0, as_int, "Number of the first stage.")]
    background_tasks: Annotated[
        "Sequence[BackgroundTaskFactory] | None",
        _Option(
            None,
            as_tasks,
            """Factories of the tasks that run on the event loop beside the pipeline, after those set by
            ``config.set_default_background_tasks``.""",
        ),
    ]
    use_thread_output_queue: Annotated[
        "bool", _Option(False, _as_given, "Ignored: the sink can always be read from any thread.")
    ]
    resumable: Annotated[
        'bool | Literal["best-effort"]',
        _Option(
            False,
            _as_resumable,
            """Whether there is a state, so that another run can continue exactly where this one was: ``state_dict``
            and ``load_state_dict``, as those of :class:`~spdl.pipeline.Pipeline`. ``True`` raises if something cannot
            be resumed exactly. ``"best-effort"`` accepts it, and the state lists what is approximate.""",
        ),
    ]
    seed: Annotated[
        "int",
        _Option(
            0,
            as_int,
            """Seed of the random numbers of stages with ``rng``. The default is a fixed number, so that a run without
            a seed can be repeated and resumed too. Give each run its own seed if runs should differ.""",
            is_for_regions=True,
        ),
    ]
    provenance: Annotated[
        "str | PathLike[str] | None",
        _Option(
            None,
            _as_path_or_none,
            """File to which a line is appended for each output that is read: its number and where its items come from.
            :func:`spdl.resume.replay` makes an output again from this line. A failed write is logged and ends the
            provenance log, not the pipeline.""",
        ),
    ]
    stall_timeout: Annotated[
        "float | None",
        _Option(
            None,
            partial(as_timeout, positive=True),
            """Maximum time in seconds without progress while the consumer waits: no call ends, and nothing is emitted
            or read. When it is exceeded, a report shows the graph with its buffers, the calls in flight with item and
            age, and the stacks of all threads and child processes. Time when the consumer does not read, or the
            process is stopped, does not count. If native code holds the GIL, only the stacks are written, to stderr.
            ``None``: no stall detection.""",
        ),
    ]
    stall_action: Annotated[
        'Literal["log", "raise"]',
        _Option(
            "log",
            _as_stall_action,
            """``"log"``: the report is logged, once for each stall, and the pipeline continues. ``"raise"``: the
            pipeline is stopped, and reads raise :class:`~spdl.pipeline.StallError` with the report; running calls are
            abandoned.""",
        ),
    ]
    on_failure: Annotated[
        "Callable[[FailureEvent], Any] | None",
        _Option(
            None,
            _as_listener,
            """Function that is called with a :class:`~spdl.pipeline.FailureEvent` for each failed item, on the thread
            that handles the failure (the event loop for async ops), so it must be thread-safe and fast. If it raises,
            the exception is logged once and has no other effect.""",
        ),
    ]
    quarantine: Annotated[
        "str | PathLike[str] | None",
        _Option(
            None,
            _as_path_or_none,
            """File to which a line is appended for each failed item, as JSON: which item (``key``, ``position``,
            ``item``), where and how it failed. Several processes may append to one file. A failed write is logged once
            and has no other effect. ``spdl quarantine`` shows the file, and ``add_source(exclude=...)`` leaves its
            items out.""",
        ),
    ]


OPTIONS: Final[dict[str, _Option]] = {name: each.__metadata__[0] for name, each in BuildOptions.__annotations__.items()}


def checked(function: str, options: BuildOptions, others: Iterable[str] = ()) -> BuildOptions:
    """Return all options, as the build uses them. Those that are not given have their defaults.

    Args:
        function: Name of the function that was called, for messages.
        options: The options, and the arguments that the function does not have.
        others: Names of the function's other arguments.

    Raises:
        TypeError: There is no such option, or its value has the wrong type.
        ValueError: A value is out of range.
    """
    for name in options:
        if name not in OPTIONS:
            text = f"{function}() got an unexpected keyword argument {name!r}"
            from difflib import get_close_matches  # imported late: for errors only

            near = get_close_matches(name, [*OPTIONS, *others], n=1)
            raise TypeError(f"{text}; did you mean {near[0]}?" if near else text)
    values = {name: option.check(name, options.get(name, option.default)) for name, option in OPTIONS.items()}
    return cast(BuildOptions, values)  # the table is made from the type


def for_regions(options: BuildOptions) -> BuildOptions:
    """Return the options of the pipelines in the workers of regions."""
    return cast(BuildOptions, {name: value for name, value in options.items() if OPTIONS[name].is_for_regions})


def shows_options(**defaults: Any) -> Callable[[F], F]:
    """Show the options in the signature and docstring of a function, or of a class, which takes them as ``**options``.

    The docstring has an argument ``**options``, which the text of all options replaces. ``defaults`` are those of the
    function where it has others.
    """

    def show(shown: F) -> F:
        function: Any = shown.__init__ if inspect.isclass(shown) else shown
        function.__signature__ = _signature_with_options(inspect.signature(function), defaults)
        if shown.__doc__ is not None:  # with -OO there are none
            shown.__doc__ = re.sub(r"(?m)^( *)\*\*options: .*\n(?:\1 +\S.*\n)*", _texts, shown.__doc__)
        return shown

    return show


def _signature_with_options(signature: inspect.Signature, defaults: Mapping[str, Any]) -> inspect.Signature:
    parameters = [each for each in signature.parameters.values() if each.name != "options"]
    rest = [parameters.pop()] if parameters[-1].kind is inspect.Parameter.VAR_KEYWORD else []
    options = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=defaults.get(name, option.default),
            annotation=BuildOptions.__annotations__[name].__origin__.__forward_arg__,
        )
        for name, option in OPTIONS.items()
    ]
    rest = [each.replace(annotation="Any") for each in rest]  # of the options and others
    return signature.replace(parameters=[*parameters, *options, *rest])


def _texts(found: re.Match[str]) -> str:
    indent = found[1]
    lines = []
    for name, option in OPTIONS.items():
        text = f"{indent}{name}: {' '.join(option.text.split())}"
        lines += textwrap.wrap(text, 120, subsequent_indent=f"{indent}    ", break_on_hyphens=False)
    return "".join(f"{line}\n" for line in lines)
