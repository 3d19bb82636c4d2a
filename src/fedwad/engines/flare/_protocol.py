"""Names that both ends of a FLARE run share. This module does not import FLARE."""

from __future__ import annotations

__all__ = [
    "CHANNEL",
    "CHECKPOINTS",
    "COLLECT",
    "CONTROLLER",
    "EXECUTOR",
    "MESSAGE",
    "OPEN",
    "OPENING",
    "OUTCOME",
    "PROGRESS",
    "READY",
    "SITE_FILE",
    "SITE_VARIABLE",
]

#: The installed classes that a job names. Jobs themselves contain no code.
CONTROLLER = "fedwad.engines.flare.controller.JobController"
EXECUTOR = "fedwad.engines.flare.executor.ClientExecutor"

#: Channel and topics of the messages between the processes of one job.
CHANNEL, READY, MESSAGE = "fedwad", "ready", "message"

#: Answers of a site to READY, before and after it has read its data.
OPENING, OPEN = b"opening", b"open"

#: Topic with which the analyst's session requests the progress and the outcome of a job.
COLLECT = "fedwad.collect"

#: File with the outcome, in the server's folder of the job. It stays there after the job.
OUTCOME = "fedwad.json"

#: Variable that names the folder of checkpoints at the server, and the folder when it is not set.
CHECKPOINTS = "FEDWAD_CHECKPOINTS", "fedwad-checkpoints"

#: Start of the lines about the progress in the server's log.
PROGRESS = "fedwad: "

#: The site's own file in its `local` folder, and the variable that names another file.
SITE_FILE, SITE_VARIABLE = "fedwad.toml", "FEDWAD_SITE"
