"""A federation whose clients live in this process."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fedwad._blas import single_threaded_blas
from fedwad.errors import FedwadError, InputError
from fedwad.federation.bundle import Bundle
from fedwad.federation.client import Client, answer_together
from fedwad.federation.columns import Columns
from fedwad.federation.data import align_columns
from fedwad.federation.federation import Answer, Federation, Question, Site, site
from fedwad.federation.ledger import Ledger
from fedwad.federation.policy import Policy
from fedwad.federation.reading import read
from fedwad.federation.replies import failure_of
from fedwad.federation.requests.train import alike

__all__ = ["LocalFederation", "as_federation", "local"]


class LocalFederation:
    """Clients in this process; those asked in one round work in parallel threads."""

    def __init__(
        self, clients: Mapping[str, Client], features: tuple[str, ...] | None = None
    ) -> None:
        if not clients:
            raise InputError("A federation needs at least one client.")
        self._clients = dict(clients)
        #: Names of the features in the order in which clients have them, where they are known.
        self.features = features

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._clients)

    def __getitem__(self, name: str) -> Site:
        return site(self, name)

    def __len__(self) -> int:
        return len(self._clients)

    @property
    def ledgers(self) -> dict[str, Ledger]:
        """Each client's own record of what was asked of it and what left it."""
        return {name: client.ledger for name, client in self._clients.items()}

    def fingerprint(self, name: str) -> str:
        """A word that changes when the data of this client do."""
        return self._clients[name].fingerprint

    def ask(self, requests: Mapping[str, Question]) -> dict[str, Answer]:
        import os
        from concurrent.futures import ThreadPoolExecutor

        sites = [self[name] for name in requests]
        if len(requests) > 1 and alike(list(requests.values())):
            return dict(answer_together(self._clients, requests))  # type: ignore[arg-type]
        # One for each core: more would only wait for each other's turn in the interpreter. Each
        # client is steady by itself; to be so from the first to the last saves all but one of the
        # switches, which take milliseconds.
        with (
            single_threaded_blas(),
            ThreadPoolExecutor(max_workers=max(1, min(len(sites), os.cpu_count() or 1))) as pool,
        ):
            answers = {
                site.name: pool.submit(self._answer, site.name, requests[site.name])
                for site in sites
            }
        return {name: answer.result() for name, answer in answers.items()}

    def _answer(self, name: str, request: Question) -> Answer:
        try:
            client = self._clients[name]
            return (
                client.answer_all(request)
                if isinstance(request, Bundle)
                else client.answer(request)
            )
        except FedwadError as error:
            return failure_of(error)


def local(
    data: Mapping[str, Any],
    policy: Policy | None = None,
    label_column: str | None = None,
    drop: str | Iterable[str] = (),
) -> LocalFederation:
    """A federation of clients in this process, for trying things out and for tests.

    Parameters
    ----------
    data : mapping from client name to its data Each an array (n, d), a pair (X, y), a data frame,
        or the path of a .npy, .npz, .csv or .parquet file.
    policy : Policy, optional
        What all of them answer. Open when left out: the data are on this machine anyway.
    label_column : str, optional
        Column of tables that is a label and not a feature.
    drop : str or several, optional
        Columns of tables that are not read, such as a patient's number.

    Examples
    --------
    >>> fed = local({"paris": [[0.0], [1.0]], "oslo": [[5.0], [6.0]]})
    >>> fed.names
    ('paris', 'oslo')
    """
    if not isinstance(data, Mapping):
        raise InputError(
            f"The clients came as a {type(data).__name__}; give a mapping from names to data."
        )
    if len({str(name) for name in data}) < len(data):
        raise InputError("Two clients have the same name; give each its own.")
    shared = Policy.open() if policy is None else policy
    columns = Columns.of(label_column, drop)
    read_in = align_columns(
        {str(name): read(source, str(name), columns) for name, source in data.items()}
    )
    features = next(
        (dataset.features for dataset in read_in.values() if dataset.features is not None), None
    )
    return LocalFederation(
        {name: Client(dataset, shared) for name, dataset in read_in.items()}, features
    )


def as_federation(source: Federation | Mapping[str, Any]) -> Federation:
    """A federation as it is, or the `local` federation of a mapping from site names to data."""
    return source if hasattr(source, "ask") else local(source)  # type: ignore[return-value]
