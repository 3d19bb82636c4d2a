"""What an operator sees of a node: a log line for each request, its health, and its metrics.

A client logs each request with the fields `site`, `run`, `kind`, `outcome` and `seconds`. The log
and the metrics are two handlers of that logger.
"""

from __future__ import annotations

import json
import logging
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, Literal

from fedwad._words import to_printable
from fedwad.errors import FedwadError, InputError

#: Fields of a log record about one request.
FIELDS = ("site", "run", "kind", "outcome", "seconds")


class Formatter(logging.Formatter):
    """One line for each record: text that begins with the time, or a JSON object."""

    def __init__(self, log_format: str, site: str) -> None:
        super().__init__()
        self._json, self._site = log_format == "json", site

    def format(self, record: logging.LogRecord) -> str:
        when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        message = record.getMessage()
        if record.exc_info:
            message += "\n" + self.formatException(record.exc_info)
        if not self._json:  # lines of a traceback are fedwad's own, and an error's text may not be
            lines = map(to_printable, message.split("\n") if record.exc_info else [message])
            return f"{when} {record.levelname} {self._site}: " + "\n".join(lines)
        fields = {name: getattr(record, name) for name in FIELDS if hasattr(record, name)}
        line = {"time": when, "level": record.levelname, "site": self._site, "message": message}
        return json.dumps(line | fields)


def log_to_stderr(log_format: Literal["text", "json"], site: str) -> None:
    """Write what fedwad logs to standard error, one line for each record."""
    logger = logging.getLogger("fedwad")
    handler = logging.StreamHandler()
    handler.setFormatter(Formatter(log_format, site))
    logger.handlers, logger.propagate = [handler], False
    logger.setLevel(logging.INFO)


class Monitor(logging.Handler):
    """Counts a client's requests, and serves /healthz and /metrics on this machine.

    Call `seen` whenever the server was reached. Of a `Client` it needs the policy, the ledger and
    the problem.
    """

    def __init__(self, client: Any, data: str | Path) -> None:
        super().__init__()
        self._client, self._data = client, Path(data)
        self._requests: dict[tuple[str, ...], float] = defaultdict(float)
        self._seconds: dict[tuple[str, ...], float] = defaultdict(float)
        self._last_seen = float("-inf")

    def seen(self) -> None:
        self._last_seen = time.monotonic()

    def emit(self, record: logging.LogRecord) -> None:
        if hasattr(record, "outcome"):
            self._requests[record.kind, record.outcome] += 1  # type: ignore[attr-defined]
            self._seconds[record.kind,] += record.seconds  # type: ignore[attr-defined]

    def problem(self, silent_after: float = 60.0) -> str:
        """Why the node cannot answer now; empty if it can.

        It cannot if the client refuses every request, or if the server was out of reach for
        `silent_after` seconds.
        """
        if problem := self._client.problem():
            return str(problem)
        if time.monotonic() - self._last_seen > silent_after:
            return f"the server was not reached for {silent_after:g} seconds"
        return ""

    def metrics(self) -> str:
        """The metrics in the text format of Prometheus."""
        policy, ledger = self._client.policy, self._client.ledger
        families: list[tuple[str, str, dict[tuple[str, ...], float]]] = [
            (
                "requests_total",
                "Requests by kind and outcome since the node started.",
                self._requests,
            ),
            ("request_seconds_total", "Seconds of work by kind.", self._seconds),
            ("up", "Whether the node can answer.", {(): not self.problem()}),
            ("queries", "Queries over the life of the data.", {(): ledger.queries}),
        ]
        if policy.max_queries is not None:
            left = max(0, policy.max_queries - ledger.queries)
            families.append(("queries_left", "Queries that the policy still allows.", {(): left}))
        if policy.epsilon is not None:
            from fedwad.privacy import epsilon_of

            spent = epsilon_of(ledger.spent, policy.delta) if ledger.spent else 0.0
            text = "Epsilon that is left of the budget."
            families.append(("epsilon_left", text, {(): max(0.0, policy.epsilon - spent)}))
        if self._data.exists():
            age = time.time() - self._data.stat().st_mtime
            families.append(("data_age_seconds", "Seconds since the data file changed.", {(): age}))
        lines = []
        for name, text, samples in (family for family in families if family[2]):
            kind = "counter" if name.endswith("_total") else "gauge"
            lines += [f"# HELP fedwad_{name} {text}", f"# TYPE fedwad_{name} {kind}"]
            for values, number in sorted(samples.items()):
                texts = (json.dumps(one, ensure_ascii=False) for one in (policy.name, *values))
                pairs = zip(("site", "kind", "outcome"), texts, strict=False)
                labels = ",".join(f"{label}={text}" for label, text in pairs)
                lines.append(f"fedwad_{name}{{{labels}}} {float(number):.10g}")
        return "\n".join([*lines, ""])

    @contextmanager
    def serve(self, port: int | None) -> Iterator[None]:
        """Count requests and, with a port, answer on 127.0.0.1 during a `with` block."""
        logger = logging.getLogger("fedwad")
        with ExitStack() as stack:
            if port is not None:
                server = stack.enter_context(_listen(port, self))
                stack.callback(server.shutdown)
            logger.addHandler(self)
            stack.callback(logger.removeHandler, self)
            yield


def _listen(port: int, monitor: Monitor) -> ThreadingHTTPServer:
    class Pages(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/healthz":
                problem = monitor.problem()
                self._send(503 if problem else 200, f"{problem or 'ok'}\n")
            elif self.path == "/metrics":
                try:
                    status, text = 200, monitor.metrics()
                except FedwadError as error:  # the policy or the ledger cannot be read
                    status, text = 503, f"not to be had ({error.code})\n"
                self._send(status, text)
            else:
                self._send(404, "There are /healthz and /metrics.\n")

        def _send(self, status: int, text: str) -> None:
            content = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            """Scrapes are not logged."""

    try:
        server = ThreadingHTTPServer(("127.0.0.1", port), Pages)
    except OSError:
        raise InputError(
            f"Port {port} is in use or not allowed; give another one for metrics.", "bad-option"
        ) from None
    Thread(target=server.serve_forever, daemon=True).start()
    return server
