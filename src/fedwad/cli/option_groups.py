"""Groups of options that commands share; a command receives each group as one object."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Sequence
from dataclasses import MISSING, Field, dataclass, fields
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, get_type_hints

import typer

from fedwad._options import Method
from fedwad.cli.console import command_line, print_path
from fedwad.errors import InputError

__all__ = [
    "CORE_PANEL",
    "FILE_TYPES",
    "Affinity",
    "ClassCovariance",
    "ImageShape",
    "Json",
    "Labels",
    "MethodOptions",
    "Neighbors",
    "NumberOfClusters",
    "OptionGroup",
    "Order",
    "Output",
    "Report",
    "Save",
    "Seed",
    "Sources",
    "check_clusters",
    "check_ending",
    "expand_option_groups",
    "keyword_parameter",
    "parse_image_shape",
    "parse_number_of_clusters",
]

CORE_PANEL = "Method"

#: The field of one option in each method that has it, by the name of the method.
MethodFields = dict[str, Field[Any]]

#: Files of data that commands read, for help texts.
FILE_TYPES = ".npy, .npz, .csv, .tsv, .txt, .parquet or .xlsx"
Sources = Annotated[
    list[str],
    typer.Argument(
        help=f"Files ({FILE_TYPES}), folders of them, or patterns; names of sites with --connect.",
        show_default=False,
    ),
]
Order = Annotated[float, typer.Option("--p", help="Order of the distance, at least 1.")]
Labels = Annotated[
    bool,
    typer.Option(
        "--labels", help="Dataset distance: compare classes too. Needs labels in the data."
    ),
]
ClassCovariance = Annotated[
    Literal["diag", "full"],
    typer.Option(
        help="Class statistics compared besides the means: standard deviations (diag) or"
        " covariances (full)."
    ),
]
Seed = Annotated[
    int, typer.Option(help="Seed of the random numbers; the same seed gives the same result.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")]
Report = Annotated[Path | None, typer.Option(help="Write an HTML report to this file.")]
Save = Annotated[
    Path | None, typer.Option("--save", "--out", help="Write the result to this .json file.")
]
NumberOfClusters = Annotated[
    str | None, typer.Option("--k", help="Number of clusters, or 'auto'.", metavar="K|auto")
]
Affinity = Annotated[
    Literal["kernel", "linear", "knn"],
    typer.Option(
        help="Affinity between sites: a Gaussian kernel, the paper's 1 - D^2/max (linear), or"
        " that between nearest neighbours only (knn)."
    ),
]
ImageShape = Annotated[
    str | None,
    typer.Option(
        "--shape", help="Shape of the images in the rows, like 28x28 or 32x32x3.", metavar="HxW"
    ),
]
Neighbors = Annotated[int, typer.Option(help="Neighbours of each site in the graph (knn).")]


class OptionGroup:
    """Options that belong together.

    A subclass is a dataclass with a field for each option, or has its own `parameters`.
    """

    @classmethod
    def parameters(cls) -> list[inspect.Parameter]:
        """The parameters of a command from which typer makes the options of this group."""
        hints = get_type_hints(cls, include_extras=True)
        return [
            keyword_parameter(field.name, hints[field.name], _get_default(field))
            for field in fields(cls)  # type: ignore[arg-type]
        ]


def _get_default(field: Field[Any]) -> Any:
    return inspect.Parameter.empty if field.default is MISSING else field.default


def keyword_parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    """Return a parameter of a command, from which typer makes an option."""
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=default, annotation=annotation)


def expand_option_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Replace each parameter whose type is an OptionGroup by the options of that group."""
    parameters: list[inspect.Parameter] = []
    groups: dict[str, tuple[type[OptionGroup], list[str]]] = {}
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        group = parameter.annotation
        if isinstance(group, type) and issubclass(group, OptionGroup):
            members = group.parameters()
            groups[parameter.name] = group, [member.name for member in members]
            parameters += members
        else:
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))

    @functools.wraps(command)
    def wrapper(**values: Any) -> None:
        objects = {
            name: group(**{option: values.pop(option) for option in options})
            for name, (group, options) in groups.items()
        }
        command(**values, **objects)

    wrapper.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return wrapper


class MethodOptions(OptionGroup):
    """--method, and each option that some method of the command has.

    `given` are the options that the user gave. Others are None here, and the method has defaults.
    """

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
        option = typer.Option(help=f"Choose {text}.", rich_help_panel=CORE_PANEL)
        choice = Annotated[Literal[names], option]  # type: ignore[valid-type]
        fields_by_option: dict[str, MethodFields] = {}
        for method in cls.methods:
            for field in fields(method):
                if field.metadata["kind"].annotation is not None:
                    fields_by_option.setdefault(field.name, {})[method.name] = field
        options = [
            _build_option(name, method_fields, len(method_fields) < len(cls.methods))
            for name, method_fields in fields_by_option.items()
        ]
        return [keyword_parameter("method", choice, names[0]), *options]


def _build_option(name: str, method_fields: MethodFields, names_methods: bool) -> inspect.Parameter:
    """The parameter for one option of some methods; its help names them if `names_methods`."""
    first = next(iter(method_fields.values()))
    text = first.metadata["help"] + (f" ({', '.join(method_fields)})" if names_methods else "")
    flag = f"--{name.replace('_', '-')}"
    option = typer.Option(
        flag, help=text, show_default=_format_defaults(method_fields), rich_help_panel=CORE_PANEL
    )
    annotation: Any = first.metadata["kind"].annotation
    return keyword_parameter(name, Annotated[annotation | None, option], None)


def _format_defaults(method_fields: MethodFields) -> str | bool:
    """The default for the help, or that of each method if they differ; False if there is none."""
    values = {
        method: field.default
        for method, field in method_fields.items()
        if field.default is not None
    }
    if len(set(values.values())) == 1:
        return str(next(iter(values.values())))
    return ", ".join(f"{value} for {method}" for method, value in values.items()) or False


@dataclass(frozen=True)
class Output(OptionGroup):
    """Where a result goes besides the screen."""

    save: Save = None
    report: Report = None
    as_json: Json = False

    def check(self, sources: Sequence[str] = ()) -> None:
        """Raise InputError for a file that should not be written."""
        check_ending(self.save, ".json", "--save")
        check_ending(self.report, ".html", "--report")
        if self.save is not None and str(self.save) in sources:
            raise InputError(f"--save is {self.save}, which is an input; name another file.")

    def write(self, result: Any, **page: Any) -> None:
        """Write the files that were asked for; `page` are keywords of `write_report`."""
        if self.save is not None:
            result.save(self.save)
        if self.report is not None:
            from fedwad.report import write_report

            write_report(result, self.report, command=command_line(), **page)

    def print_report(self) -> None:
        """Say where the report is, if there is one."""
        print_path("Report", self.report)


def parse_image_shape(shape: str | None) -> tuple[int, ...] | None:
    """Return what --shape means; InputError unless it is two or three integers."""
    if shape is None:
        return None
    parts = shape.lower().split("x")
    if len(parts) not in (2, 3) or not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise InputError(
            f"--shape is {shape!r}; give rows and columns like 28x28, or 32x32x3 for colours."
        )
    return tuple(map(int, parts))


def check_ending(path: Path | None, ending: str, option: str) -> None:
    """Raise InputError unless the file that an option names has this ending."""
    if path is not None and path.suffix != ending:
        raise InputError(f"{option} is {path}; give the name of a {ending} file.")


def check_clusters(k: int | str | None, names: Collection[str]) -> None:
    """Raise InputError for more clusters than there are sites, before the sites are asked."""
    if isinstance(k, int) and k > len(names):
        raise InputError(
            f"{k} clusters were asked for among {len(names)} sites; ask for at most as many."
        )


def parse_number_of_clusters(k: str | None) -> int | Literal["auto"] | None:
    """Return what --k means; InputError unless it is an integer or 'auto'."""
    if k is None or k == "auto":
        return "auto" if k == "auto" else None
    if not k.isdecimal() or int(k) < 1:
        raise InputError(f"--k is {k!r}; give a positive integer or 'auto'.")
    return int(k)
