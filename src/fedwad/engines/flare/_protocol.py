"""Names that both ends of a FLARE run share. This module does not import FLARE."""

from __future__ import annotations

__all__ = [
    "CHANNEL",
    "COLLECT",
    "CONTROLLER",
    "EXECUTOR",
    "MESSAGE",
    "OPEN",
    "OPENING",
    "OUTCOME_FILE",
    "PROGRESS_PREFIX",
    "READY",
    "SITE_FILE",
    "SITE_VARIABLE",
]

#: The installed classes that a job names. Jobs themselves contain no code.
CONTROLLER = "fedwad.engines.flare.controller.JobController"
EXECUTOR = "fedwad.engines.flare.executor.ClientExecutor"

#: Channel and topics of the messages between the processes of one job.
CHANNEL, READY, MESSAGE = "fedwad", "ready", "message"

#: Answers of a site to READY, before and after it has read its data (or failed to read them).
OPENING, OPEN = b"opening", b"open"

#: Topic with which the analyst's session requests the progress and the outcome of a job.
COLLECT = "fedwad.collect"

#: The file with the outcome in the server's folder of the job. It stays there after the job.
OUTCOME_FILE = "fedwad.json"

#: Start of the lines about the progress in the server's log.
PROGRESS_PREFIX = "fedwad: "

#: The site's own file in its `local` folder, and the environment variable that names another file.
SITE_FILE, SITE_VARIABLE = "fedwad.toml", "FEDWAD_SITE"
