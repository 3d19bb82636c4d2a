"""Words that both ends of a FLARE run must spell the same way. No FLARE is needed to read them."""

from __future__ import annotations

__all__ = [
    "CHANNEL",
    "CHECKPOINTS",
    "COLLECT",
    "CONDUCTOR",
    "LETTER",
    "NODE",
    "OPEN",
    "OPENING",
    "OUTCOME",
    "READY",
    "SITE_FILE",
    "SITE_VARIABLE",
    "TOLD",
]

#: The classes that a job names. They come with the installed package, so that jobs carry no code.
CONDUCTOR = "fedwad.engines.flare.controller.Conductor"
NODE = "fedwad.engines.flare.node.Node"

#: Channel and topics of the messages between the server's and the sites' processes of one job.
CHANNEL, READY, LETTER = "fedwad", "ready", "letter"

#: What a site says when it is asked whether it is ready, before and after it has read its data.
OPENING, OPEN = b"opening", b"open"

#: Topic under which the analyst's session asks the server's process for progress and for the
#: outcome.
COLLECT = "fedwad.collect"

#: File in the server's folder of a job that holds the outcome, also after the job.
OUTCOME = "fedwad.json"

#: Variable at the server that names the folder of checkpoints, and that folder when it is not set.
CHECKPOINTS = "FEDWAD_CHECKPOINTS", "fedwad-checkpoints"

#: What lines about the progress begin with in the server's log.
TOLD = "fedwad: "

#: The site's own file in its `local` folder, and the variable that names it elsewhere.
SITE_FILE, SITE_VARIABLE = "fedwad.toml", "FEDWAD_SITE"
