"""From functions to commands: their arguments, their options, and options that several share.

The positional parameters of a command's function are arguments, and its other parameters are
options. Its docstring says under "Parameters" what each is for. A parameter whose type is an
`OptionGroup` stands for all options of that group, and the function receives them as one object.
"""

from __future__ import annotations

import functools
import inspect
import logging
import re
import tomllib
from collections.abc import Callable, Collection, Mapping, Sequence
from copy import copy
from dataclasses import MISSING, dataclass, fields
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal, get_args, get_origin, get_type_hints

import typer
from typer.models import ParameterInfo

from fedwad._options import Method
from fedwad.cli.console import command_line, exit_on_error, print_text, stderr
from fedwad.compare.clusters import check_count
from fedwad.errors import InputError
from fedwad.federation import Columns
from fedwad.privacy import DP
from fedwad.tables import HELD_ROWS, Schema

#: Files of data that commands read, for help texts.
FILE_TYPES = ".npy, .npz, .csv, .tsv, .txt, .parquet or .xlsx"

#: The settings of the folder in which a command runs.
FILE = Path("fedwad.toml")

# What several commands ask for, with its help.
Sources = Annotated[
    list[str], f"Files ({FILE_TYPES}), folders of them, or patterns; names of sites with --connect."
]
Source = Annotated[str, f"The data of one site: {FILE_TYPES}; the name of the site with --connect."]
Data = Annotated[
    str, f"The data: {FILE_TYPES}, a folder of such files that are one table, or a database."
]
PolicyFile = Annotated[Path, "The policy, a .toml file."]
LedgerFile = Annotated[Path | None, "The site's ledger; next to the policy when left out."]
Seed = Annotated[int, "Seed of the random numbers; the same seed gives the same result."]
Json = Annotated[bool, typer.Option("--json"), "Print one JSON object on standard output."]
Explain = Annotated[bool, "Print each column's contribution to the squared distance."]
NumberOfClusters = Annotated[str | None, "Number of clusters, or 'auto'."]
ImageShape = Annotated[str | None, "Shape of the images in the rows, like 28x28 or 32x32x3."]
Words = list[str] | None  # of an option that may be repeated


def help_of(documented: Any) -> dict[str, str]:
    """What the docstrings of a function, or of a class and its parents, say of each parameter."""
    owners = reversed(documented.__mro__) if isinstance(documented, type) else [documented]
    texts: dict[str, str] = {}
    for owner in owners:
        paragraphs = re.findall(
            r"^(\w[\w, ]*) : (.+(?:\n {4}.+)*)", inspect.getdoc(owner) or "", re.MULTILINE
        )
        for names, text in paragraphs:
            line = " ".join(text.split()).rstrip(".")
            texts |= dict.fromkeys(names.split(", "), f"{line[0].upper()}{line[1:]}.")
    return texts


def make_parameter(
    name: str,
    annotation: Any,
    default: Any,
    about: str | None,
    *,
    panel: str | None = None,
    is_argument: bool = False,
) -> inspect.Parameter:
    """Return a parameter from which typer makes an argument or an option.

    An annotation may have a help text of its own, typer's settings, and checks of its own.
    """
    hint, *own = get_args(annotation) if get_origin(annotation) is Annotated else (annotation,)
    flags = [f"--{name.replace('_', '-')}"] if hint is bool and default is False else []
    settings = typer.Argument() if is_argument else typer.Option(*flags)
    for one in own:
        if isinstance(one, str):
            about = one
        elif isinstance(one, ParameterInfo):
            settings = copy(one)
    settings.help, settings.rich_help_panel = about, panel
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[hint, settings],
    )


class OptionGroup:
    """Options that belong together: a dataclass with a field for each, under one title in help."""

    panel: ClassVar[str | None] = None

    @classmethod
    def parameters(cls) -> list[inspect.Parameter]:
        """The parameters of a command from which typer makes the options of this group."""
        return parameters_of_fields(cls, cls.panel)


def parameters_of_fields(
    kind: Any, panel: str | None = None, changed: Mapping[str, Any] = MappingProxyType({})
) -> list[inspect.Parameter]:
    """A parameter for each field of a dataclass; `changed` has types for which typer has none."""
    given, about = get_type_hints(kind, include_extras=True) | dict(changed), help_of(kind)
    # Limits of values inside a union are not typer's.
    plain = get_type_hints(kind) | dict(changed)
    hints = {
        name: one if hasattr(one, "__metadata__") else plain[name] for name, one in given.items()
    }
    defaults = {
        one.name: inspect.Parameter.empty if one.default is MISSING else one.default
        for one in fields(kind)
    }
    return [
        make_parameter(name, hints[name], default, about.get(name), panel=panel)
        for name, default in defaults.items()
    ]


def expand_option_groups(command: Callable[..., None]) -> Callable[..., None]:
    """The command as typer reads it, with the options of each group instead of the group."""
    parameters: list[inspect.Parameter] = []
    groups: dict[str, tuple[type[OptionGroup], list[str]]] = {}
    about = help_of(command)
    for name, one in inspect.signature(command, eval_str=True).parameters.items():
        group = one.annotation
        if isinstance(group, type) and issubclass(group, OptionGroup):
            members = group.parameters()
            groups[name] = group, [member.name for member in members]
            parameters += members
        else:
            is_argument = one.kind is not one.KEYWORD_ONLY
            text = about.get(name)
            parameters.append(
                make_parameter(name, group, one.default, text, is_argument=is_argument)
            )

    @functools.wraps(command)
    def wrapper(**values: Any) -> None:
        objects = {
            name: group(**{option: values.pop(option) for option in options})
            for name, (group, options) in groups.items()
        }
        command(**values, **objects)

    wrapper.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    wrapper.__doc__ = (inspect.getdoc(command) or "").partition("\n\nParameters\n")[0]
    return wrapper


class MethodOptions(OptionGroup):
    """--method, and each option that some method of the command has.

    `given` are the options that the user gave. Others are None here, and the method has defaults.
    """

    panel = "Method"
    methods: ClassVar[Sequence[type[Method]]]

    def __init__(self, method: str, **options: Any) -> None:
        self.method = method
        self.given = {name: value for name, value in options.items() if value is not None}

    def keywords(self) -> dict[str, Any]:
        """Return the method's name and the options that were given."""
        return {"method": self.method, **self.given}

    @classmethod
    def parameters(cls) -> list[inspect.Parameter]:
        names = tuple(method.name for method in cls.methods)
        text = ", ".join(f"'{method.name}' ({method.about})" for method in cls.methods)
        choice: Any = Literal[names]
        found = [make_parameter("method", choice, names[0], f"Choose {text}.", panel=cls.panel)]
        for name in dict.fromkeys(name for method in cls.methods for name in method.option_names()):
            having = [method for method in cls.methods if name in method.option_names()]
            text, panel = help_of(having[0])[name], cls.panel
            if len(having) < len(cls.methods):
                only = " or ".join(method.name for method in having)
                panel = f"With --method {only}"
            values = {method.name: getattr(method, name) for method in having}
            known = {key: str(value) for key, value in values.items() if value is not None}
            default = ", ".join(f"{value} for {key}" for key, value in known.items())
            if len({*known.values()}) == 1:
                default = next(iter(known.values()))
            hint: Any = having[0].kinds()[name].annotation | None
            shown = Annotated[hint, typer.Option(show_default=default or False)]
            found.append(make_parameter(name, shown, None, text, panel=panel))
        return found


@dataclass(frozen=True)
class Output(OptionGroup):
    """Where a result goes besides the screen.

    Parameters
    ----------
    report : write an HTML report to this file
    """

    report: Path | None = None
    as_json: Json = False

    def check(self, sources: Sequence[str] = ()) -> None:  # noqa: ARG002
        """Raise InputError for a file that should not be written."""
        check_ending(self.report, ".html", "--report")

    def write(self, result: Any, **page: Any) -> None:
        """Write the files that were asked for; `page` are keywords of `write_report`."""
        if self.report is not None:
            write = import_module("fedwad.report").write_report
            write(result, self.report, command=command_line(), **page)

    def print_report(self) -> None:
        """Say where the report is, if there is one."""
        if self.report is not None:
            print_text(f"Report: {self.report}")


@dataclass(frozen=True)
class SavedOutput(Output):
    """Where a result goes that can be saved.

    Parameters
    ----------
    save : write the result to this .json file
    """

    save: Path | None = None

    def check(self, sources: Sequence[str] = ()) -> None:
        """Raise InputError for a file that should not be written, such as one of the sources."""
        super().check()
        check_ending(self.save, ".json", "--save")
        if self.save is not None and str(self.save) in sources:
            raise InputError(
                f"--save is {self.save}, which is an input; name another file.", "file-exists"
            )

    def write(self, result: Any, **page: Any) -> None:
        """Write the files that were asked for; `page` are keywords of `write_report`."""
        if self.save is not None:
            result.save(self.save)
        super().write(result, **page)


def parse_image_shape(shape: str | None) -> tuple[int, ...] | None:
    """Return what --shape means; InputError unless it is two or three integers."""
    if shape is None:
        return None
    parts = shape.lower().split("x")
    if len(parts) not in (2, 3) or not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise InputError(
            f"--shape is {shape!r}; give rows and columns like 28x28, or 32x32x3 for colours.",
            "bad-option",
        )
    return tuple(map(int, parts))


def check_ending(path: Path | None, ending: str, option: str) -> None:
    """Raise InputError unless the file that an option names has this ending."""
    if path is not None and path.suffix != ending:
        raise InputError(f"{option} is {path}; give the name of a {ending} file.", "bad-option")


def refuse(options: Mapping[str, Any], reason: str) -> None:
    """Raise InputError for an option that was given without the one that it belongs to."""
    for name, value in options.items():
        if value is not None:
            raise InputError(f"{name} {reason}", "missing-option")


def check_clusters(k: int | str | None, names: Collection[str]) -> None:
    """Raise InputError for more clusters than there are sites, before the sites are asked."""
    if isinstance(k, int):
        check_count(k, len(names))


def parse_number_of_clusters(k: str | None, other: str = "") -> int | Literal["auto"] | None:
    """Return what --k means; InputError unless it is an integer or 'auto'."""
    if k is None or k == "auto":
        return "auto" if k == "auto" else None
    if not k.isdecimal() or int(k) < 1:
        raise InputError(
            f"--k is {k!r}; give a positive integer{',' if other else ''} or 'auto'{other}.",
            "bad-option",
        )
    return int(k)


@dataclass(frozen=True)
class ReadingOptions(OptionGroup):
    """How a source is read, which rows count, and what the columns of a table are.

    Parameters
    ----------
    label_column : column that holds the labels; it is not compared as a column
    drop : column to leave out, such as a patient's number; may be repeated
    missing : text that stands for a missing value, in all columns or in one, as in chol=0; may be
        repeated
    unit : column that says which unit, such as a patient, a row belongs to; it is neither compared
        nor sent. 'auto': an identifier that repeats. 'none': each row is a unit
    where : condition that rows must meet, as in age>=18; may be repeated
    keep : column that is compared, and no other; may be repeated
    category : column that is a category, whatever it looks like; may be repeated
    number : column that is a number, whatever it looks like; may be repeated
    query : SELECT statement for databases, or the name of a table in them. If repeated, as
        NAME=SQL, each is a site of one database
    header : whether the first line of a file names the columns; by default it does, and numbers in
        it are refused
    encoding : encoding of text files, such as utf-8 or cp1252; detected when left out
    sheet : sheet of Excel files; the first that holds a table when left out
    max_rows : rows that are held in memory; a table with twice as many is read in batches
    """

    panel = "Tables"

    label_column: str | None = None
    drop: Words = None
    missing: Words = None
    unit: str = "auto"
    where: Words = None
    keep: Words = None
    category: Words = None
    number: Words = None
    query: Words = None
    header: bool | None = None
    encoding: str | None = None
    sheet: str | None = None
    max_rows: int = HELD_ROWS

    def with_schema(self, schema: Schema | str | Path | None) -> Columns:
        """The columns with this schema."""
        own = {field.name: getattr(self, field.name) for field in fields(self)}
        several = len(self.queries) > 1
        if several and not isinstance(self, SplitOptions):
            raise InputError(
                f"--query came {len(self.queries)} times; one site has one query.", "bad-option"
            )
        only = self.query[0] if self.query and not several else None
        return Columns.of(**(own | {"query": only, "schema": schema}))

    @property
    def queries(self) -> tuple[str, ...]:
        """The queries that were given, each of which is a site if they are several."""
        return tuple(self.query or ())


@dataclass(frozen=True)
class SplitOptions(ReadingOptions):
    """How sources are read, and how one table or database is split into sites.

    Parameters
    ----------
    by : column of one table that says to which site a row belongs
    """

    by: str | None = None


@dataclass(frozen=True)
class SiteOptions(ReadingOptions):
    """What the columns of one site's table are.

    Parameters
    ----------
    schema : schema file that says how columns are encoded. 'auto': the sites agree on one. 'none':
        numeric columns unchanged
    """

    schema: str = "auto"

    @property
    def columns(self) -> Columns:
        """The columns with the schema that was given."""
        return self.with_schema(self.schema)


@dataclass(frozen=True)
class PairOptions(SiteOptions):
    """What the columns of two sites' tables are, whose rows may have weights.

    Parameters
    ----------
    weights : column with the weight of each row, such as that of a survey; no test is made then
    """

    weights: str | None = None


@dataclass(frozen=True)
class TableOptions(SiteOptions, SplitOptions):
    """What the columns of tables are, and how one table or database is split into sites."""


@dataclass(frozen=True)
class WeightedTableOptions(PairOptions, TableOptions):
    """The same, for rows with weights."""


@dataclass(frozen=True)
class PrivacyOptions(OptionGroup):
    """The guarantee to ask for.

    Parameters
    ----------
    epsilon : ask each site for one release under differential privacy with this epsilon
    delta : delta of the guarantee, well below one over the number of samples; 1e-05 when left out
    clip_norm : largest distance of a sample from --centre, from public knowledge; samples beyond it
        are clipped
    centre : public point around which samples are clipped: a number for all features, or one for
        each, separated by commas; 0, or that of the schema file, when left out
    """

    panel = "Differential privacy"

    epsilon: float | None = None
    delta: float | None = None
    clip_norm: float | None = None
    centre: str | None = None

    def keywords(self, schema: Any = None) -> dict[str, Any]:
        """Return the keyword `privacy` of a distance or matrix; no keyword without --epsilon.

        A schema that was read from a file counts as public. It gives the clip norm and the centre
        where they are left out.
        """
        public_schema = schema if isinstance(schema, Schema) else None
        if self.epsilon is None:
            values = {"--clip-norm": self.clip_norm, "--delta": self.delta, "--centre": self.centre}
            refuse(values, "belongs to differential privacy; add --epsilon.")
            return {}
        if self.clip_norm is None and public_schema is None:
            raise InputError(
                "--epsilon needs --clip-norm, the largest distance of a sample from --centre, or a"
                " --schema file that gives one; choose it from public knowledge.",
                "missing-option",
            )
        delta = 1e-5 if self.delta is None else self.delta
        centre: float | list[float] | None = None
        if self.centre is not None:
            try:
                numbers = [float(word) for word in self.centre.split(",")]
            except ValueError:
                raise InputError(
                    f"--centre is {self.centre!r}; give a number, or one for each feature,"
                    " separated by commas.",
                    "bad-option",
                ) from None
            centre = numbers[0] if len(numbers) == 1 else numbers
        guarantee = DP(self.epsilon, delta=delta, clip_norm=self.clip_norm, centre=centre)
        return {"privacy": guarantee.completed(public_schema).to_dict()}


@exit_on_error
def read_settings(
    command: str, options: Collection[str], commands: Collection[str]
) -> dict[str, Any]:
    """The options that the file gives to this command, by their names.

    An option at the top of the file is for every command that has it; one in the section of a
    command, such as [matrix], is for that alone. What is typed comes before both.
    """
    try:
        content = tomllib.loads(FILE.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        raise InputError(
            f"{FILE} is not TOML; write lines such as unit = 'patient_id'.", "bad-toml"
        ) from None
    shared = {key: value for key, value in content.items() if not isinstance(value, Mapping)}
    known = {
        field.name
        for group in (WeightedTableOptions, SavedOutput, PrivacyOptions)
        for field in fields(group)
    }
    _refuse_unknown(shared, {*options, *known, "seed"}, "fedwad")
    _refuse_unknown({k: v for k, v in content.items() if k not in shared}, commands, "fedwad")
    own = content.get(command, {})
    _refuse_unknown(own, options, f"fedwad {command}")
    found: dict[str, Any] = {k: v for k, v in shared.items() if k in options} | own
    if found:
        stderr.print(f"Settings of {FILE}: {', '.join(found)}", soft_wrap=True, markup=False)
    return found


def _refuse_unknown(given: Mapping[str, Any], known: Collection[str], command: str) -> None:
    for name in given:
        if name not in known:
            raise InputError(
                f"{FILE} has '{name}', which `{command}` does not know; write options with _ for -"
                " as --help lists them, and sections named after commands.",
                "unknown-option",
            )


def show_log() -> None:
    """Print what the library logs to standard error, line by line (--verbose)."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(name)s: %(message)s", "%H:%M:%S"))
    logger = logging.getLogger("fedwad")
    logger.handlers = [handler]
    logger.setLevel(logging.INFO)
