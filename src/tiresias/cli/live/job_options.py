"""The options of a job as they are given: on the command line, in `#TIR` lines and in job.yaml.

Which options there are, and what may be said of each, is in `tiresias.spec.job`. Here they are text by key.
Options that are not given are absent, so that the command line takes precedence over a file, and the
manager's defaults over nothing.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, Self

from tiresias.cli import declare
from tiresias.cli.errors import Stop
from tiresias.spec.job import BY_KEY
from tiresias.spec.options import Form, Option

Given = str | bool | list[str]  # a value, a switch, the values of a flag that may be repeated


@dataclass(slots=True, frozen=True)
class JobOptions:
    """The options that were given, by key (`ckpt_dir`)."""

    values: Mapping[str, Given] = field(default_factory=dict)

    @classmethod
    def of(cls, **values: Given | None) -> Self:
        """Those that are not None and not False."""
        assert values.keys() <= BY_KEY.keys(), values.keys() - BY_KEY.keys()
        return cls({key: each for key, each in values.items() if each is not None and each is not False})

    def text(self, key: str) -> str | None:
        found = self.values.get(key)
        assert found is None or isinstance(found, str), (key, found)
        return found

    def texts(self, key: str) -> list[str]:
        found = self.values.get(key, [])
        assert isinstance(found, list), (key, found)
        return found

    def is_set(self, key: str) -> bool:
        return self.values.get(key) is True

    def over(self, below: JobOptions) -> JobOptions:
        """These, and from `below` what they leave open. Variables and sweeps of both count."""
        both = {**below.values, **self.values}
        for key in ("env", "sweep"):
            if key in both:
                both[key] = _by_name(below.texts(key), self.texts(key))
        return JobOptions(both)


def _by_name(below: list[str], above: list[str]) -> list[str]:
    """Texts NAME=VALUE; of two with the same name the later counts."""
    return list({text.partition("=")[0]: text for text in [*below, *above]}.values())


def value_of(option: Option, text: str, where: str) -> Any:
    """The value that a text means, or a message that names `where` it was written."""
    try:
        return option.kind.check(option.kind.parse(text, datetime.now()))
    except ValueError as error:
        raise Stop(f"{where} {text!r}: {error}") from None


def takes_job_options(command: Callable[..., None]) -> Callable[..., None]:
    """A command line with every option of a job besides the command's own; it gets them as `job`."""
    own = inspect.signature(command, eval_str=True).parameters
    mine = [each for name, each in own.items() if name != "job"]
    theirs = [_parameter(key, option) for key, option in BY_KEY.items()]
    first = [each for each in mine if each.default is inspect.Parameter.empty]
    rest = [each for each in mine if each.default is not inspect.Parameter.empty]
    parameters = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in [*first, *theirs, *rest]]

    def called(**given: Any) -> None:
        job = JobOptions.of(**{key: given.pop(_argument(key)) for key in BY_KEY})
        command(job=job, **given)

    called.__name__, called.__doc__, called.__module__ = command.__name__, command.__doc__, command.__module__
    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {each.name: each.annotation for each in parameters}
    return called


def _argument(key: str) -> str:
    return f"job_{key}"  # apart from the command's own arguments


def _parameter(key: str, option: Option) -> inspect.Parameter:
    """The option as a parameter of a command."""
    default = f" Default: {option.default.replace('`', '')}." if option.default else ""
    names = [option.flag, *filter(None, [option.short])]
    described = declare.Option(*names, metavar=option.metavar or None, help=option.help + default)
    type_: Any = list[str] | None if option.form is Form.VALUES else str | None
    return inspect.Parameter(
        _argument(key),
        inspect.Parameter.KEYWORD_ONLY,
        default=False if option.is_switch else None,
        annotation=Annotated[bool if option.is_switch else type_, described],
    )
