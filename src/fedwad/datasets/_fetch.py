"""Files from public mirrors: downloaded once, checked against their published checksum each time,
kept in a cache."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from fedwad.errors import InputError

__all__ = ["Remote", "cache", "fetch"]


@dataclass(frozen=True)
class Remote:
    """A file, the mirrors that have it, and its SHA-256."""

    file: str
    mirrors: tuple[str, ...]
    sha256: str


def cache(data: str) -> Path:
    """The folder that keeps the files of a dataset, below the cache folder of the operating
    system."""
    import pooch

    return Path(pooch.os_cache("fedwad")) / data


def fetch(data: str, remote: Remote, alternative: str) -> Path:
    """The file of a dataset in the cache, downloaded from the first mirror that has the right one.

    `alternative` is the file that a folder named by FEDWAD_DATA would hold instead.
    """
    import pooch

    reasons = []
    for mirror in remote.mirrors:
        host = urlsplit(mirror).hostname
        # in one piece: streaming would leave the connection open when the server answers with an
        # error
        downloader = pooch.HTTPDownloader(timeout=(10, 60), stream=False)
        try:
            found = pooch.retrieve(
                mirror + remote.file,
                f"sha256:{remote.sha256}",
                remote.file,
                cache(data),
                downloader=downloader,
            )
        except (
            OSError
        ) as error:  # what the requests library raises is one, too, and knows the response
            if not hasattr(error, "response"):
                raise InputError(
                    f"The cache {cache(data)} cannot be written"
                    f" ({error.strerror or 'no permission'}); mend that, or"
                    f" set FEDWAD_DATA to a folder that has {alternative}."
                ) from None
            answer = error.response
            reasons.append(
                f"no answer from {host}"
                if answer is None
                else f"{host} answered {answer.status_code}"
            )
        except ValueError:  # the checksum
            reasons.append(f"{host} sent something else than the published file")
        else:
            return Path(found)
    why = ", ".join(dict.fromkeys(reasons))  # two mirrors may be one host
    raise InputError(
        f"{data} is not on this machine and cannot be downloaded ({why}); connect to the internet"
        " and try again,"
        f" or set FEDWAD_DATA to a folder that has {alternative}."
    )
