"""Files from public mirrors: downloaded once into a cache, their checksum verified at each use."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from fedwad.errors import InputError

__all__ = ["RemoteFile", "fetch"]


@dataclass(frozen=True)
class RemoteFile:
    """A file, the mirrors that have it (as URLs that end in a slash), and its SHA-256."""

    name: str
    mirrors: tuple[str, ...]
    sha256: str


def fetch(dataset: str, remote: RemoteFile, alternative: str) -> Path:
    """The path of a dataset's file in the cache of the operating system.

    The file is downloaded from the first mirror that has it with the right checksum. `alternative`
    is the file that a folder named by FEDWAD_DATA would hold instead.
    """
    import pooch

    folder = Path(pooch.os_cache("fedwad")) / dataset
    reasons = []
    for mirror in remote.mirrors:
        host = urlsplit(mirror).hostname
        # With streaming, a connection would stay open if the server answers with an error.
        downloader = pooch.HTTPDownloader(timeout=(10, 60), stream=False)
        url, checksum = mirror + remote.name, f"sha256:{remote.sha256}"
        try:
            path = pooch.retrieve(url, checksum, remote.name, folder, downloader=downloader)
        except OSError as error:
            if not hasattr(error, "response"):  # not from the requests library
                raise InputError(
                    f"The cache {folder} cannot be written"
                    f" ({error.strerror or 'no permission'}); mend that, or"
                    f" set FEDWAD_DATA to a folder that has {alternative}."
                ) from None
            if error.response is None:
                reasons.append(f"no answer from {host}")
            else:
                reasons.append(f"{host} answered {error.response.status_code}")
        except ValueError:  # the checksum is wrong
            reasons.append(f"{host} sent something else than the published file")
        else:
            return Path(path)
    why = ", ".join(dict.fromkeys(reasons))  # two mirrors may be one host
    raise InputError(
        f"{dataset} is not on this machine and cannot be downloaded ({why}); connect to the"
        f" internet and try again, or set FEDWAD_DATA to a folder that has {alternative}."
    )
