"""What operators run and read: logs, health and metrics of a node, and the files of deploy/."""

import configparser
import io
import json
import logging
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from command_line import run as command
from failing import fails
from fedwad.engines._operation import Monitor, log_to_stderr
from fedwad.engines._processes import free_port
from fedwad.errors import FedwadError, InputError, PolicyError
from fedwad.federation import DescribeRequest, LabelsRequest, SummaryRequest, open_client
from web import get

ROOT = Path(__file__).parents[2]


@pytest.fixture
def site(tmp_path):
    np.save(tmp_path / "paris.npy", np.random.default_rng(0).normal(size=(60, 2)))
    policy = tmp_path / "paris.toml"
    policy.write_text(
        'name = "paris"\nallow = ["describe", "summary"]\nmin_cell_size = 1\nmax_queries = 5\n'
    )
    return tmp_path / "paris.npy", policy


@pytest.fixture
def log():
    """What fedwad logs as JSON lines."""
    logger = logging.getLogger("fedwad")
    before = logger.handlers, logger.propagate, logger.level
    log_to_stderr("json", "paris")
    stream = io.StringIO()
    logger.handlers[0].setStream(stream)
    yield lambda: [json.loads(line) for line in stream.getvalue().splitlines()]
    logger.handlers, logger.propagate = before[0], before[1]
    logger.setLevel(before[2])


def ask(client):
    client.answer(DescribeRequest(), "run 7")
    for _ in range(2):
        client.answer(SummaryRequest(3, "auto", 2.0, 0), "run 7")
    with pytest.raises(PolicyError):
        client.answer(LabelsRequest(), "run 8")


def test_a_log_line_has_time_site_run_kind_and_outcome(site, log):
    ask(open_client(*site))
    lines = log()
    assert [(one["run"], one["kind"], one["outcome"]) for one in lines] == [
        ("run 7", "describe", "answered"),
        ("run 7", "summary", "answered"),
        ("run 7", "summary", "repeated"),
        ("run 8", "labels", "kind-refused"),
    ]
    assert all(re.match(r"\d{4}-\d\d-\d\dT.*\+00:00$", one["time"]) for one in lines)
    assert {one["site"] for one in lines} == {"paris"}
    assert all(one["seconds"] >= 0 for one in lines)


def test_health_and_metrics_are_served_on_loopback(site, log):  # noqa: ARG001
    client, port = open_client(*site), free_port()
    monitor = Monitor(client, site[0])
    with monitor.serve(port):
        assert get(port, "healthz")[0] == 503  # the server was never reached
        monitor.seen()
        assert get(port, "healthz") == (200, "ok\n")
        ask(client)
        status, text = get(port, "metrics")
        assert status == 200
        samples = dict(line.rsplit(" ", 1) for line in text.splitlines() if line[0] != "#")
        requests = 'fedwad_requests_total{site="paris",kind="summary",outcome='
        assert samples[f'{requests}"answered"}}'] == "1"
        assert samples[f'{requests}"repeated"}}'] == "1"
        assert samples['fedwad_queries_left{site="paris"}'] == "4"
        assert float(samples['fedwad_data_age_seconds{site="paris"}']) < 60
        assert samples['fedwad_up{site="paris"}'] == "1"
        names = {line.split("{")[0] for line in samples}
        assert names == set(re.findall(r"^# TYPE (\w+)", text, re.M))
        client.ledger.revoke("for a test")
        assert get(port, "healthz")[0] == 503
        assert get(port, "other")[0] == 404
        with fails(InputError, "bad-option"), monitor.serve(port):
            pass


def test_a_node_that_refuses_everything_is_not_healthy(site):
    data, policy = site
    client = open_client(*site)
    monitor = Monitor(client, data)
    monitor.seen()

    def refused(code):
        """Whether each request is refused, as the health says."""
        if not code:
            client.answer(DescribeRequest())
            return not monitor.problem()
        with pytest.raises(FedwadError) as caught:
            client.answer(DescribeRequest())
        return caught.value.code == code and monitor.problem() == str(caught.value)

    rules, rows = policy.read_text(), np.load(data)
    assert refused("")
    for text, code in (("expires = 2020-01-01\n", "expired"), ("none = 1\n", "changed-policy")):
        policy.write_text(rules + text)
        assert refused(code)
        policy.write_text(rules)
        assert refused("")
    np.save(data, rows[1:])
    assert refused("changed-data")
    np.save(data, rows)
    assert refused("")
    client.ledger.revoke("for a test")
    assert refused("revoked")


def started_by(name):
    """The command of a systemd unit of deploy/."""
    unit = configparser.ConfigParser(strict=False)
    unit.optionxform = str
    unit.read(ROOT / "deploy" / name)
    return shlex.split(unit["Service"]["ExecStart"])


def commands():
    """The words after `fedwad` in each file of deploy/."""
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    deploy = ROOT / "deploy"
    start = started_by("fedwad-node.service")
    assert start[0].endswith("/fedwad")
    compose = yaml.safe_load((deploy / "compose.yml").read_text())
    _, stateful = yaml.safe_load_all((deploy / "kubernetes.yml").read_text())
    (container,) = stateful["spec"]["template"]["spec"]["containers"]
    return {
        "systemd": start[1:],
        "compose": compose["services"]["node"]["command"],
        "kubernetes": container["args"],
    }


@pytest.mark.parametrize("kind", ["systemd", "compose", "kubernetes"])
def test_what_deploy_starts_is_a_command_of_this_version(kind, tmp_path):
    """All its options exist: the command fails because there is no data file, and not before."""
    pytest.importorskip("flwr", reason="Flower is not installed (pip install 'fedwad[flower]')")
    (tmp_path / "paris.toml").write_text('name = "paris"\nallow = ["describe"]\n')
    words = [
        re.sub(r"(?<=[ =])/\w+(/\w+)*/(?=[\w.]+$)|^/.*/", f"{tmp_path}/", w)
        for w in commands()[kind]
    ]
    done = command(*words)
    assert done.returncode == 2
    assert "No such option" not in done.stderr
    assert "paris.csv" in done.stderr, done.stderr


def test_the_unit_for_flare_runs_what_tests_run():
    """`flare_loopback` starts a node with the same script of its kit and the same option."""
    bash, script, option = started_by("fedwad-flare-node.service")
    assert (bash, option) == ("/bin/bash", "--once")
    assert script.endswith("/startup/sub_start.sh")


def test_the_files_of_deploy_say_what_they_must():
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    claim, stateful = yaml.safe_load_all((ROOT / "deploy" / "kubernetes.yml").read_text())
    spec = stateful["spec"]
    pod = spec["template"]["spec"]
    (container,) = pod["containers"]
    assert spec["selector"]["matchLabels"].items() <= spec["template"]["metadata"]["labels"].items()
    assert spec["replicas"] == 1
    mounted = {one["name"] for one in container["volumeMounts"]}
    assert mounted == {one["name"] for one in pod["volumes"]}
    assert claim["metadata"]["name"] in json.dumps(pod["volumes"])
    service = yaml.safe_load((ROOT / "deploy" / "compose.yml").read_text())["services"]["node"]
    assert (
        ROOT / "deploy" / service["build"]["context"] / service["build"]["dockerfile"]
    ).is_file()
    image = (ROOT / "docker" / "Dockerfile").read_text()
    assert re.search(r"^FROM python:\d+\.\d+\.\d+-\S+$", image, re.M)  # pinned
    for word in ("HEALTHCHECK", "STOPSIGNAL SIGTERM", "ARG ENGINE", 'ENTRYPOINT ["fedwad"]'):
        assert word in image
    ports = {*re.findall(r"--metrics[= ](\d+)|127\.0\.0\.1:(\d+)/healthz", image)}
    assert {one for pair in ports for one in pair if one} == {"9400"}
