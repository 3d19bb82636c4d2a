"""Means and standard deviations of sites' features, which a server computes from their columns."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedwad.errors import DataWarning, FedwadError, InputError
from fedwad.federation.federation import MeteredFederation
from fedwad.messages.codec import digest
from fedwad.messages.columns import ColumnsReply, ColumnsRequest
from fedwad.messages.message import ClassStatistics
from fedwad.tables import Profile, encoded_moments, pool
from fedwad.transport import Floats


@dataclass(frozen=True, eq=False)
class Moments:
    """Number of samples of a site, mean and standard deviation of each feature."""

    count: int
    mean: Floats
    scale: Floats


def ask_moments(
    metered: MeteredFederation,
    names: Sequence[str],
    class_statistics: ClassStatistics = "ignored",
    *,
    at_least: int = 1,
    record_failures: bool = True,
    warn: bool = True,
) -> dict[str, Moments]:
    """The moments of the sites that answer and have as many features as most sites.

    Sites come in the order of their moments, so that neither their names, nor their order in a
    list, nor how many order statistics a policy allows changes a number. A site is asked once in a
    run.

    The keywords are those of `MeteredFederation.ask`. Classes have no columns: the statistics of a
    sample's class are placed where they would be if all samples were of one class, with the spread
    of the features.

    A site withholds the moments of a column that would reveal values of few rows. They are taken
    from the other sites, or from the site's other columns, and with `warn` a DataWarning says so:
    what is drawn from moments is a start, which rounds improve.
    """
    unknown = [name for name in names if name not in metered.columns]
    if unknown:
        metered.columns |= metered.ask(
            dict.fromkeys(unknown, ColumnsRequest()),
            ColumnsReply,
            allow_failures=True,
            at_least=at_least - (len(names) - len(unknown)),
            record_failures=record_failures,
        )
    profiles = {name: metered.columns[name].profile for name in names if name in metered.columns}
    moments = {}
    for name, profile in sorted(profiles.items(), key=lambda item: _order(item[1])):
        schema = metered.schema_of(name)
        if schema is not None:
            moments[name] = Moments(profile.rows, *encoded_moments(profile, schema))
        else:  # NaN where the site withholds them
            mean, scale = np.array([[column.mean, column.std] for column in profile.columns]).T
            moments[name] = Moments(profile.rows, mean, scale)
    dimensions = {name: len(one.mean) for name, one in moments.items()}
    moments = metered.keep_most_frequent_dimension(moments, dimensions)
    moments = _without_gaps(moments, warn)
    if class_statistics == "ignored":
        return moments
    for name, one in moments.items():
        spread = one.scale if class_statistics == "diag" else np.diag(one.scale).ravel()
        mean = np.concatenate([one.mean, one.mean, spread])
        scale = np.concatenate([one.scale, one.scale, np.zeros_like(spread)])
        moments[name] = Moments(one.count, mean, scale)
    return moments


def _order(profile: Profile) -> tuple[str, str]:
    moments = [column.moments for column in profile.columns]
    return repr((profile.rows, moments)), digest(profile)


def _without_gaps(moments: dict[str, Moments], warn: bool) -> dict[str, Moments]:
    means = np.array([one.mean for one in moments.values()])
    scales = np.array([one.scale for one in moments.values()])
    gaps = np.isnan(means) | np.isnan(scales)
    if not gaps.any():
        return moments
    if gaps.all():
        raise InputError(
            "All sites withhold mean and standard deviation of every column, from which the start"
            " is drawn; give a start (init).",
            "withheld",
        )
    if warn:
        warnings.warn(
            f"Sites withhold the moments of {int(gaps.any(axis=0).sum())} columns, because they"
            " would reveal values of few rows; the start is drawn from those of other sites and"
            " columns.",
            DataWarning,
            stacklevel=4,
        )
    filled = []
    for table in (means, scales):
        known, count = np.where(gaps, 0.0, table), (~gaps).sum(axis=0)
        by_column = known.sum(axis=0) / np.maximum(count, 1)
        by_column[count == 0] = known.sum() / count.sum()
        filled.append(np.where(gaps, by_column, table))
    return {
        name: replace(one, mean=mean, scale=scale)
        for (name, one), mean, scale in zip(moments.items(), *filled, strict=True)
    }


def public_units(metered: MeteredFederation, names: Sequence[str]) -> tuple[Floats, Floats]:
    """Centre and scale of each feature for block means, the same for all sites of the federation.

    They are the pooled moments of all sites, named or not, so that a pair and a matrix ask the same
    question. None are needed, and both arrays are empty, if the sites' features are in the units of
    a schema. Both are empty, too, if no units are known: then nothing is tested.
    """
    nothing = np.zeros(0), np.zeros(0)
    if metered.schema is not None:
        return nothing
    if metered.units is not None:
        return metered.units
    failed = dict(metered.failed)
    for asked in dict.fromkeys((metered.names, tuple(names))):
        try:
            moments = ask_moments(metered, asked, record_failures=False, warn=False)
        except FedwadError:  # all refuse, or sites differ in features: what follows says so
            continue
        finally:
            metered.failed = failed
        if asked != tuple(names) and not set(names) & set(moments):
            continue  # most sites have other features than those that the question is about
        means = np.array([one.mean for one in moments.values()])
        scales = np.array([one.scale for one in moments.values()])
        counts = np.array([one.count for one in moments.values()], dtype=np.float64)
        if len(counts) > 2:
            counts = np.minimum(counts, 2.0 * np.median(counts))
        centre, scale = pool(counts, means, counts[:, None] * scales**2)
        return centre, np.where(scale > 0, scale, 1.0)
    return nothing
