"""`fedwad distance A B`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.markup import escape
from rich.table import Table

import fedwad
from fedwad.cli.console import bytes_in_words, guarded, print_json, round_progress, screen
from fedwad.errors import CertificateError, InputError
from fedwad.federation import aligned, read

__all__ = ["distance"]

_FEW = 10


@guarded
def distance(
    a: Annotated[Path, typer.Argument(help="One party's data: .npy, .npz, .csv or .parquet.", show_default=False)],
    b: Annotated[Path, typer.Argument(help="The other party's data.", show_default=False)],
    method: Annotated[
        Literal["fedwad", "summary"],
        typer.Option(help="The paper's rounds, or one message from each party."),
    ] = "fedwad",
    support: Annotated[
        int | None, typer.Option(help="Points that travel (100), or cells of a summary (10).", show_default=False)
    ] = None,
    rounds: Annotated[int, typer.Option(help="Most rounds of method fedwad.")] = 20,
    p: Annotated[float, typer.Option("--p", help="Order of the distance, at least 1.")] = 2.0,
    t: Annotated[str, typer.Option("--t", help="Place on the geodesic, in (0, 1), or 'random'.")] = "0.5",
    interpolant: Annotated[
        Literal["barycentric", "exact"], typer.Option(help="'exact' gives every sample away to the server.")
    ] = "barycentric",
    tolerance: Annotated[
        float, typer.Option(help="Stop when the running estimate changes by less than this fraction.")
    ] = 0.0,
    form: Annotated[
        Literal["auto", "full", "lowrank", "diagonal", "isotropic"],
        typer.Option(help="What the parties tell of the covariance within cells."),
    ] = "auto",
    label_column: Annotated[
        str | None, typer.Option(help="Column of a .csv or .parquet that is a label, not a feature.")
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same bits.")] = 0,
    exact: Annotated[
        bool, typer.Option("--exact", help="Compute the exact distance beside it (brings both files together).")
    ] = False,
    save: Annotated[Path | None, typer.Option(help="Write the result to this .json file.")] = None,
    plot: Annotated[
        Path | None,
        typer.Option(help="Draw the rounds into a .png, .svg or .pdf file; distances are then told every round."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")] = False,
) -> None:
    """How far apart are the data in A and B?

    Each file becomes a client in this process; only what would travel between real parties is exchanged, and its
    size is reported. The answer is an estimate inside a certified interval.
    """
    if save is not None and (save.suffix != ".json" or save.resolve() in (a.resolve(), b.resolve())):
        raise InputError(f"--save is {save}; give the name of a .json file.")
    if plot is not None and method == "summary":
        raise InputError("Method summary has no rounds to plot; leave out --plot or take --method fedwad.")
    same = a.resolve() == b.resolve()
    names = (str(a), str(b)) if a.stem == b.stem else (a.stem, b.stem)
    paths = dict(zip(names, (a, b), strict=True))
    data = aligned({name: read(path, label_column=label_column) for name, path in paths.items()})
    federation = fedwad.local(data)
    with round_progress("Asking both parties", rounds if method == "fedwad" else None) as show:
        result = fedwad.distance(
            federation[names[0]],
            federation[names[0] if same else names[1]],
            method=method,
            support=support,
            rounds=rounds,
            p=p,
            t=_place(t),
            interpolant=interpolant,
            seed=seed,
            tolerance=tolerance,
            form=form,
            on_round=show,
            reveal="every" if plot is not None else "last",
        )
        reference = _exact(data[names[0]].measure, data[names[-1]].measure, result) if exact else None
    if save is not None:
        result.save(save)
    if plot is not None:
        from fedwad.report import convergence

        convergence(result, plot, exact=reference)
    if as_json:
        print_json(result.to_dict() | ({} if reference is None else {"exact": reference}))
    else:
        _show(result, reference)


def _place(t: str) -> float | Literal["random"]:
    if t == "random":
        return "random"
    try:
        return float(t)
    except ValueError:
        raise InputError(f"--t is {t!r}; give a number between 0 and 1, or 'random'.") from None


def _exact(mu: fedwad.Measure, nu: fedwad.Measure, result: fedwad.DistanceResult) -> float:
    """The exact distance, which must lie in the certified interval."""
    exact = fedwad.ot.solve(mu, nu, result.p).distance
    if not result.lower * (1 - 1e-9) <= exact <= result.upper * (1 + 1e-9):
        raise CertificateError(
            f"The exact distance {exact:.6g} lies outside the certified {result.lower:.6g} to {result.upper:.6g};"
            " please report the data."
        )
    return exact


def _show(result: fedwad.DistanceResult, exact: float | None) -> None:
    table = Table.grid(padding=(0, 2))
    table.add_row("estimate", f"[bold]{result.value:.6g}[/]")
    table.add_row("certified", f"{result.lower:.6g} to {result.upper:.6g}")
    if exact is not None:
        table.add_row("exact", f"{exact:.6g}")
    if result.fedwad is not None:
        table.add_row("paper's estimate", f"{result.fedwad:.6g}")
    if result.history:
        table.add_row("rounds", str(len(result.history)))
    traffic = result.traffic
    sent = f"{bytes_in_words(traffic.up)} by the parties in {traffic.messages} messages"
    table.add_row("sent", f"{sent}, {bytes_in_words(traffic.down)} to them")
    screen.print(
        f"W{result.p:g} between {escape(result.clients[0])} and {escape(result.clients[1])}, method {result.method}"
    )
    if result.smallest is not None:
        table.add_row("smallest cell", f"{result.smallest} sample{'s' if result.smallest > 1 else ''}")
    screen.print(table)
    if result.smallest is not None and result.smallest < _FEW:
        what = "single samples were sent as they are" if result.smallest == 1 else "few samples hide behind a number"
        screen.print(
            f"Mind: {what}. Between real parties take fewer points (--support), or --method summary, which keeps"
            f" {_FEW} samples in a cell.",
            soft_wrap=True,
        )
