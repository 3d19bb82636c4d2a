"""The sites that a command asks: files on this machine, or the sites of an engine."""

from __future__ import annotations

import glob
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import typer

import fedwad
from fedwad._files import write_atomically
from fedwad._words import to_printable
from fedwad.cli.console import Bar, progress_bar, stderr, use_option_names
from fedwad.cli.options import OptionGroup, Output, SiteOptions, refuse
from fedwad.compare import Progress as Step
from fedwad.errors import InputError
from fedwad.federation import (
    Columns,
    Journal,
    LocalFederation,
    Policy,
    RawTable,
    read_raw,
    read_sites,
)
from fedwad.federation.in_process import federate, with_missing_values
from fedwad.site.reading import FORMATS, holder_notes, is_readable
from fedwad.tables import Schema, check_file, database_name, files_by_site, is_database, table_files

T = TypeVar("T")
_ALL = Columns()  # every column, and every file is a site


#: A file, a folder whose files are one table, the address of a database, or a table already read.
Source = Path | str | RawTable


def find_files(
    sources: Sequence[str], columns: Columns = _ALL, queries: Sequence[str] = ()
) -> dict[str, Source]:
    """Return sources by the name of their site.

    A source is a file, a folder of readable files, a pattern, or a database. A site is named after
    its file without ending; files of the same name are named by their paths. A folder of folders
    has a site for each of these. With `columns.by` one source is split into sites, and with several
    `queries` each of them is a site of one database.
    """
    named = [_database_of(source) for source in sources]
    databases = {name: address for name, address in named if address}
    if queries and not databases:
        raise InputError("--query is for a database, and no address of one came.", "bad-option")
    if columns.by is not None:
        if len(sources) != 1:
            raise InputError(
                f"--by splits one table into sites, and {len(sources)} came; give one.",
                "too-many-files",
            )
        with progress_bar("Reading the table"):
            return _tables(read_sites(named[0][1] or sources[0], columns))
    if len(databases) < sum(1 for _, address in named if address):
        raise InputError(
            "Two databases have the same name; write NAME=ADDRESS for each.", "repeated-site"
        )
    if len(queries) > 1:
        if len(sources) != 1:
            raise InputError(
                "Several --query are sites of one database; give its address alone.",
                "conflicting-options",
            )
        (address,) = databases.values()
        return _sites_of_queries(address, columns, queries)
    files = [source for source, (_, address) in zip(sources, named, strict=True) if not address]
    paths = [path for source in files for path in _files_of(source)]
    distinct = list({path.resolve(): path for path in paths}.values())
    return {**files_by_site(distinct), **databases}


def _database_of(source: str) -> tuple[str, str]:
    """The name of a site and the address of its database, from NAME=ADDRESS or ADDRESS; '' if it is
    none."""
    name, _, address = source.partition("=")
    if is_database(address) and "://" not in name:
        return name, address
    return (database_name(source), source) if is_database(source) else ("", "")


def _sites_of_queries(address: str, columns: Columns, queries: Sequence[str]) -> dict[str, Source]:
    """The answers of one database to several queries, NAME=SQL or the names of tables."""
    own: dict[str, str] = {}
    for query in queries:
        name, _, statement = query.partition("=")
        named = bool(statement) and not any(map(str.isspace, name.strip()))
        title = name.strip() if named else query.strip()
        if title in own:
            raise InputError(
                f"Two queries are named '{title}'; give each its own name.", "repeated-site"
            )
        own[title] = statement if named else query
    with progress_bar("Reading the answers of the database"):
        return _tables(read_sites(dict.fromkeys(own, address), columns, own))


def _tables(sites: Mapping[str, Any]) -> dict[str, Source]:
    return {name: data for name, data in sites.items() if isinstance(data, RawTable)}


def find_several(sources: Sequence[str], purpose: str, tables: SiteOptions) -> dict[str, Source]:
    """Return sources by the name of their site; InputError unless they are at least two.

    `purpose` is what needs several sites, such as "a matrix", for that error.
    """
    files = find_files(sources, tables.columns, tables.queries)
    if len(files) < 2:
        (path,) = files.values()
        if not isinstance(path, Path):
            raise InputError(f"Only one site came; {purpose} needs at least two.", "too-few-sites")
        check_file(path, FORMATS)
        raise InputError(
            f"Only {path} came; {purpose} needs at least two different files, one for each site.",
            "too-few-sites",
        )
    return files


def find_one_file(source: str) -> tuple[str, Path | str]:
    """Return the name of a site and its file, folder or database.

    A folder of several files is one table. InputError if a pattern matches several files.
    """
    name, address = _database_of(source)
    if address:
        return name, address
    files = files_by_site(_files_of(source))
    if len(files) == 1:
        return next(iter(files.items()))
    if Path(source).is_dir():
        return Path(source).resolve().name, Path(source)
    raise InputError(f"{source} holds {len(files)} files; give one file.", "too-many-files")


def _files_of(source: str) -> list[Path]:
    """The files of a source: those of a folder, or its folders that hold tables."""
    path, is_pattern = Path(source), any(sign in source for sign in "*?[")
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if is_readable(file) and file.is_file())
        files = files or sorted(one for one in path.iterdir() if one.is_dir() and table_files(one))
        if not files:
            raise InputError(
                f"The folder {path} has no files that end in {' '.join(FORMATS)}.", "no-such-file"
            )
        return files
    if path.exists() or (is_readable(path) and not is_pattern):
        return [path]
    if is_pattern:
        matches = sorted(Path(match) for match in glob.glob(source, recursive=True))  # noqa: PTH207
        if not matches:
            raise InputError(f"No file matches {source}; check the pattern.", "no-such-file")
        return matches
    may_be_site = not path.suffix and source == path.name
    hint = ", or add --engine and --connect if it is a site" if may_be_site else ""
    raise InputError(f"There is no file or folder {source}; check the path{hint}.", "no-such-file")


def open_sites(
    files: Mapping[str, Source], columns: Columns, policy: Policy, bar: Bar
) -> LocalFederation:
    """Return a federation of these sources, encoded by one schema if they are tables.

    The function prints to standard error: a schema that the sites agree on, its conflicts, and a
    warning where a table does not fit a given schema. All sites have the policy. The bar shows
    which table is read: a second one inside it would be an error of some versions of rich.
    """
    columns = replace(columns, elementwise=policy.is_private)
    raw: dict[str, Any] = {}
    for name, path in files.items():
        bar.progress(Step(f"reading {to_printable(name)}", len(raw), len(files)))
        raw[name] = read_raw(path, columns=columns)
    read = [note for one in raw.values() if isinstance(one, RawTable) for note in one.table.notes]
    federation = federate(raw, columns, policy)
    federation.notes = holder_notes(raw.values())
    for note in (*read, *federation.notes):
        note = use_option_names(to_printable(note))
        stderr.print(f"Warning: {note}", soft_wrap=True, markup=False)
    if federation.schema is not None:
        if columns.schema == "auto":
            federation.schema = with_missing_values(federation.schema, columns)
            show_schema(federation.schema)
        else:
            show_conflicts(federation.schema)
    return federation


def show_schema(schema: Schema) -> None:
    """Print what a schema does in a few lines, and a warning for each conflict."""
    for line in schema.description_lines():
        stderr.print(to_printable(line), soft_wrap=True, markup=False)
    show_conflicts(schema)


def schema_warnings(schema: Schema | None) -> list[str]:
    """Return a sentence for each column on which sites disagree; it names command line options."""
    conflicts = () if schema is None else schema.conflicts
    return [use_option_names(to_printable(conflict.sentence)) for conflict in conflicts]


def warnings_of(federation: LocalFederation) -> list[str]:
    """Return what is printed as warnings: conflicts, and notes for the holder of tables."""
    return [*schema_warnings(federation.schema), *map(use_option_names, federation.notes)]


def show_conflicts(schema: Schema) -> None:
    """Print a warning for each conflict, for at most ten of them."""
    sentences = schema_warnings(schema)
    for sentence in sentences[:10]:
        stderr.print(f"Warning: {sentence}", soft_wrap=True, markup=False)
    if len(sentences) > 10:
        stderr.print(f"Warning: {len(sentences) - 10} more conflicts.")


def page_of_sites(
    federation: LocalFederation, fed: Any, result: Any, policy: Path | None, most: int = 24
) -> dict[str, Any]:
    """What a page shows of sites in this process besides a result.

    That is how their tables are encoded, what left each site, by its own ledger, under which
    policy, and of at most `most` sites that are compared without private releases Table 1. Sites
    answer what they were asked before. The test of columns needs the message of a summary, so it
    runs only with a method that asked for it.
    """
    content: dict[str, Any] = {"schema": federation.schema, "warnings": warnings_of(federation)}
    test = isinstance(result, fedwad.PermutationTestResult)
    compared = test
    if isinstance(result, fedwad.DistanceResult | fedwad.MatrixResult):
        compared = result.privacy is None
        test = result.method == "summary" and result.class_covariance is None and result.p == 2
    if compared and 1 < len(federation) <= most:
        content["columns"] = fedwad.columns(fed, seed=result.seed, test=test)
    ledgers = {name: ledger.entries for name, ledger in federation.ledgers.items()}
    rules = "none" if policy is None else str(policy)
    return content | {"ledgers": ledgers, "policies": dict.fromkeys(ledgers, rules)}


@dataclass(frozen=True)
class EngineOptions(OptionGroup):
    """Where a command runs: in this process, in an engine's simulation, or on real sites.

    Parameters
    ----------
    engine : run on Flower or NVIDIA FLARE: on the sites of a deployment with --connect, in the
        engine's simulation on this machine without it
    connect : address of the deployment: the SuperLink's host:port (flower), or the folder of the
        analyst's startup kit (flare). Name sites instead of files then
    ca : CA certificate of the SuperLink (flower)
    timeout : seconds to wait for the result; the run is then stopped. 3600 when left out
    round_timeout : seconds that a site may take for one reply; a site that was away may return in
        this time. 600 when left out
    """

    panel = "Engines"

    engine: Literal["flower", "flare"] | None = None
    connect: str | None = None
    ca: Path | None = None
    timeout: Annotated[float | None, typer.Option(min=0.0)] = None
    round_timeout: Annotated[float | None, typer.Option(min=0.0)] = None

    @property
    def uses_engine(self) -> bool:
        """Whether the command runs on an engine; InputError for an option that needs one."""
        if self.engine is not None or self.connect is not None:
            return True
        given = {"--ca": self.ca, "--timeout": self.timeout, "--round-timeout": self.round_timeout}
        refuse(given, "is for runs on an engine; add --engine, or leave it out.")
        return False

    def run(
        self,
        algorithm: str,
        sources: Sequence[str],
        options: Mapping[str, Any],
        columns: Columns,
        on_progress: Callable[[str], None],
        *,
        names: Sequence[str] = (),
        resume: bool = False,
    ) -> dict[str, Any]:
        """Run an algorithm on the engine and return its result as the dict that `from_dict` takes.

        `sources` are names of sites, or files for a simulation. `options` are those of a `Job`.
        `names` are the sites that take part, if not all of them. If the sites agree on a schema,
        it is printed.
        """
        if self.engine is None:
            raise InputError(
                "--connect needs an engine; add --engine flower or --engine flare.",
                "missing-option",
            )
        if columns.by is not None:
            raise InputError(
                "--by is for runs in this process; leave out the engine.", "conflicting-options"
            )
        from fedwad.engines.job import Job

        engine = import_module(f"fedwad.engines.{self.engine}")
        times = {"timeout": self.timeout, "round_timeout": self.round_timeout}
        common: dict[str, Any] = {"on_progress": on_progress}
        common |= {name: seconds for name, seconds in times.items() if seconds is not None}
        content: dict[str, Any]
        policy = getattr(self, "policy", None)  # of commands whose sites may have one
        if self.connect is None:
            if resume or self.ca is not None:
                raise InputError(
                    "--resume and --ca belong to a deployment; add --connect.", "missing-option"
                )
            files, common = find_files(sources), common | columns.to_options()
            job = Job(algorithm, tuple(names or files), options)
            content = engine.simulate(job, files, policy, **common)
        else:
            given = _given_schema(columns)
            if policy is not None:
                raise InputError(
                    "--policy is for sites on this machine; each site of a deployment has its own.",
                    "conflicting-options",
                )
            if self.engine == "flower":
                common["root_certificates"] = self.ca
            elif self.ca is not None:
                raise InputError(
                    "--ca is for flower; FLARE's startup kit holds its certificates.",
                    "conflicting-options",
                )
            job = Job(algorithm, tuple(names or sources), {**options, **given})
            agreement = self._agreement(job.clients) if job.needs_agreement else None
            if agreement is not None and agreement.is_file():
                given = {"agreed": Schema.load(agreement).to_toml()}
                job = replace(job, options={**options, **given})
            content = engine.submit(job, connect=self.connect, resume=resume, **common)
            if agreement is not None and "agreed_schema" in content:
                self._keep(agreement, content, "agreed" in given, job.clients)
        schema = content.pop("agreed_schema", None)
        if schema is not None:
            show_schema(Schema.from_dict(schema))
        content.pop("kind", None)
        return content

    def _agreement(self, names: Sequence[str]) -> Path:
        """The file that keeps the schema on which these and other sites of a deployment agreed.

        The deployment is known by its address and its certificate. Another one may come to have
        both, so a file is for sites that were asked by it before, or begin with some of them.
        """
        kit = Path(self.connect or "").expanduser()
        authority = kit / "startup" / "rootCA.pem" if self.engine == "flare" else self.ca
        place = str(kit.resolve()) if self.engine == "flare" else str(self.connect)
        own = authority.read_bytes() if authority is not None and authority.is_file() else b""
        digest = hashlib.sha256(place.encode() + b"\n" + own).hexdigest()[:12]
        folder = state_folder() / f"{self.engine}-{digest}"
        for path in sorted(folder.glob("*.schema.toml")):
            sites = _sites_of(path)
            if sites is None or set(names) & set(sites):  # one that is damaged is named when read
                return path
        first = hashlib.sha256("\n".join(sorted(names)).encode()).hexdigest()[:12]
        return folder / f"{first}.schema.toml"

    def _keep(
        self, path: Path, content: dict[str, Any], reused: bool, names: Sequence[str]
    ) -> None:
        """Keep the schema on which sites agreed for later questions, and say so."""
        if reused:
            del content["agreed_schema"]
            told = f"Tables are encoded by the schema of an earlier agreement, {path}."
            text = path.read_text(encoding="utf-8").partition("\n")[2]
            sites = _sites_of(path) or []
        else:
            told = f"Later questions to these sites bring the same schema, {path}."
            text, sites = Schema.from_dict(content["agreed_schema"]).to_toml(), []
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_atomically(path, f"# {json.dumps(sorted({*sites, *names}))}\n{text}")
            path.chmod(0o600)
        except (OSError, InputError):
            told = (
                f"The schema cannot be kept in {path}; get it by `fedwad schema`, and give"
                " it to later questions by --schema, or sites may refuse these."
            )
        stderr.print(to_printable(told), soft_wrap=True, markup=False)


def _sites_of(path: Path) -> list[str] | None:
    """The sites that were asked by a kept schema, by its first line; None if that has none."""
    try:
        names = json.loads(path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("#"))
    except (OSError, ValueError):
        return None
    return [str(name) for name in names] if isinstance(names, list) else None


def state_folder() -> Path:
    """The folder in which commands keep what later ones need, by the XDG specification."""
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "fedwad"


def _given_schema(columns: Columns) -> dict[str, str]:
    """The option "schema" of a job on real sites; InputError for options that are for files."""
    if columns.to_options().keys() - {"schema"} or columns.schema is None:
        raise InputError(
            "--label-column, --drop, --missing, --schema none and other options of tables are for"
            " files; a site's own settings say what its columns are.",
            "conflicting-options",
        )
    return {"schema": columns.schema.to_toml()} if isinstance(columns.schema, Schema) else {}


@dataclass(frozen=True)
class PreviewEngineOptions(EngineOptions):
    """Where a command runs, and what sites on this machine answer.

    Parameters
    ----------
    policy : policy of all sites, in this process or in a simulation: shows what a deployment would
        answer; without it everything is answered
    """

    policy: Path | None = None

    def find(
        self, sources: Sequence[str], tables: SiteOptions, purpose: str = ""
    ) -> dict[str, Source]:
        """The sources by the names of their sites; none if the sites of a deployment are asked.

        InputError unless they are at least two, if there is a `purpose` that needs several.
        """
        if self.connect is not None:
            return {}
        if purpose:
            return find_several(sources, purpose, tables)
        return find_files(sources, tables.columns, tables.queries)

    @property
    def site_policy(self) -> Policy:
        """The policy of the sites in this process."""
        return Policy.open() if self.policy is None else Policy.load(self.policy)


@dataclass(frozen=True)
class ResumableEngineOptions(PreviewEngineOptions):
    """Where a command runs, and how an interrupted run continues.

    Parameters
    ----------
    checkpoint : keep every reply in this file; --resume continues with it
    resume : continue an interrupted run
    """

    checkpoint: Path | None = None
    resume: bool = False

    def run(self, *arguments: Any, **keywords: Any) -> dict[str, Any]:
        """Run an algorithm as `EngineOptions.run` does; --resume continues an interrupted run."""
        if self.checkpoint is not None:
            raise InputError(
                "--checkpoint is for runs in this process; a deployment keeps its own.",
                "conflicting-options",
            )
        return super().run(*arguments, resume=self.resume, **keywords)

    def ask(
        self,
        algorithm: str,
        sources: Sequence[str],
        keywords: Mapping[str, Any],
        tables: SiteOptions,
        files: Mapping[str, Source],
        kind: type[T],
        here: Callable[[LocalFederation, Any, Bar], T],
        output: Output | None = None,
    ) -> tuple[T, dict[str, Any]]:
        """The result of an algorithm on an engine, or of `here` for sites in this process.

        `here` receives the federation of the files, the same with a journal for --checkpoint, and a
        bar to show its progress. `kind` is the class of the result. What the page of `output` shows
        of sites in this process comes with the result.
        """
        with progress_bar("Asking the sites") as bar:
            if self.uses_engine:
                content = self.run(algorithm, sources, keywords, tables.columns, bar.line)
                return kind.from_dict(content), {}  # type: ignore[attr-defined]
            federation = open_sites(files, tables.columns, self.site_policy, bar)
            with self.local(federation) as fed:
                found = here(federation, fed, bar)
                if output is None or output.report is None:
                    return found, {"warnings": warnings_of(federation)}
                return found, page_of_sites(federation, fed, found, self.policy)

    @contextmanager
    def local(self, federation: LocalFederation) -> Iterator[LocalFederation | Journal]:
        """Provide a federation in this process, with a journal for --checkpoint."""
        if self.checkpoint is None:
            if self.resume:
                raise InputError(
                    "--resume needs the file of the interrupted run; add --checkpoint FILE.",
                    "missing-option",
                )
            yield federation
            return
        with Journal(federation, self.checkpoint, self.resume) as journal:
            try:
                yield journal
            except KeyboardInterrupt:
                stderr.print(
                    f"Replies are kept in {self.checkpoint};"
                    " the same command with --resume continues."
                )
                raise
