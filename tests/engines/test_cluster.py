"""Without Spark: a cluster that is open to others, asleep or set up otherwise ends in words, and nothing is spent."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from tests.kits.cluster import PRIVATE, FakeContext, FakeSession, documented_settings, without_pyspark

from confide import api
from confide.cli import main
from confide.engines import SparkEngine, spark_session
from confide.engines.protocol import MAPPED
from confide.engines.spark_session import _unlike_driver, in_our_words, require_private
from confide.errors import ConfideError, ParameterError, RunError
from confide.releases.ledger import Ledger
from confide.version import __version__

MASTERS = ("spark://host:7077", "yarn", "k8s://https://host:443", "local-cluster[2,1,1024]", "spark://local[2]:7077")
ON = {"true", "TRUE", " True "}


@given(
    st.sampled_from(MASTERS),
    st.dictionaries(
        st.sampled_from([*PRIVATE, "spark.ssl.rpc.enabled", "spark.ssl.enabled", "spark.authenticate.secret"]),
        st.sampled_from(["true", "TRUE", " True ", "false", "", "1", "yes", "truely"]),
    ),
)
def test_a_cluster_is_refused_unless_it_authenticates_and_encrypts(master: str, settings: dict[str, str]) -> None:
    def on(name: str) -> bool:
        return settings.get(name) in ON

    private = on("spark.authenticate") and on("spark.io.encryption.enabled")
    private = private and (on("spark.network.crypto.enabled") or on("spark.ssl.rpc.enabled"))
    if private:
        require_private(FakeContext(master, settings))
        return
    with pytest.raises(ParameterError) as caught:
        require_private(FakeContext(master, settings))
    (finding,) = caught.value.findings
    assert finding.code == "spark-open-wire"
    assert "spark-defaults.conf" in str(finding.remedy)
    assert all(name in str(finding.found) or on(name) for name in ("spark.authenticate", "spark.io.encryption.enabled"))


@pytest.mark.parametrize("master", MASTERS)
def test_every_other_master_is_a_cluster(master: str) -> None:
    with pytest.raises(ParameterError):
        require_private(FakeContext(master, {}))
    assert "spark.driver.bindAddress" not in spark_session._settings(Path("scratch"), 2, 1 << 30, master)


def test_the_documented_settings_are_accepted() -> None:
    lines = [line.split() for line in documented_settings("00").splitlines() if not line.startswith("#")]
    require_private(FakeContext(settings=dict(lines)))


@pytest.mark.parametrize("master", ["local", "local[1]", "local[*]", "local[4, 2]"])
def test_a_spark_in_this_process_needs_no_network(master: str) -> None:
    require_private(FakeContext(master, {}))
    settings = spark_session._settings(Path("scratch"), 2, 1 << 30, master)
    assert settings["spark.driver.host"] == "127.0.0.1"


def test_a_peer_that_does_not_encrypt_is_not_answered() -> None:
    settings = spark_session._settings(Path("scratch"), 2, 1 << 30, "spark://host:7077")
    assert settings["spark.network.crypto.saslFallback"] == "false"
    assert settings["spark.io.encryption.enabled"] == "true"
    assert "spark.driver.bindAddress" not in settings


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Begins a fake Spark wherever Confide begins one."""
    without_pyspark(monkeypatch)
    monkeypatch.setattr(spark_session, "_check_installed", lambda: None)

    def begin(context: FakeContext) -> FakeSession:
        session = FakeSession(context)
        monkeypatch.setattr(spark_session, "_start", lambda _: session)
        return session

    return begin


def refused(project: Path, session: FakeSession) -> str:
    """The code with which both verbs refuse; nothing is spent or left behind, and Spark is stopped."""
    codes = []
    for verb in (api.check, api.run):
        with pytest.raises(ConfideError) as caught:
            verb(project / "spec.toml", engine="spark", spark_master=session.sparkContext.master)  # type: ignore[operator]
        codes += [finding.code for finding in caught.value.findings]
        assert session.stopped
        assert spark_session._shared is None
    assert [entry.kind for entry in Ledger(project / "people.ledger").history()] == ["open"]
    assert list(project.rglob("spark-*")) == []
    assert list(project.rglob("release")) == []
    assert len(set(codes)) == 1
    return codes[0]


@pytest.mark.parametrize("name", PRIVATE)
def test_nothing_is_spent_on_an_open_cluster(project: Path, begun: Any, name: str) -> None:
    session = begun(FakeContext(settings=PRIVATE | {name: "false"}))
    assert refused(project, session) == "spark-open-wire"
    assert session.sparkContext.wire == []


def test_a_session_that_is_given_is_looked_at_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_pyspark(monkeypatch)
    with pytest.raises(ParameterError) as caught:
        SparkEngine(tmp_path, session=FakeSession(FakeContext(settings={})))
    assert caught.value.findings[0].code == "spark-open-wire"
    assert list(tmp_path.iterdir()) == []


def test_no_executor_is_said_with_its_cause(project: Path, begun: Any) -> None:
    context = FakeContext(settings=PRIVATE | {"spark.executor.memory": "4096m"}, executors=0)
    context.patience = 1

    def asleep() -> None:
        context.cancelled.clear()
        context.cancelled.wait(20)

    context.at_work = asleep
    session = begun(context)
    assert refused(project, session) == "spark-no-executor"
    with pytest.raises(RunError) as caught:
        in_our_words(context, asleep, [])
    assert "4096m" in str(caught.value.findings[0].found)
    assert "--memory" in str(caught.value.findings[0].remedy)


def test_who_has_executors_or_is_one_process_may_take_its_time() -> None:
    for context in (FakeContext(executors=1), FakeContext("local[2]", {}, executors=0)):
        context.patience = 0
        assert in_our_words(context, lambda: time.sleep(0.8) or "answer", []) == "answer"
        assert not context.cancelled.is_set()


@pytest.fixture(autouse=True)
def _errors(monkeypatch: pytest.MonkeyPatch) -> None:
    without_pyspark(monkeypatch)


def test_an_interruption_ends_the_work_and_is_passed_on() -> None:
    context = FakeContext()
    timer = threading.Timer(0.5, signal.raise_signal, [signal.SIGINT])
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        in_our_words(context, lambda: context.cancelled.wait(20), [])
    assert context.cancelled.is_set()


def test_a_worker_that_is_unlike_the_driver_is_refused(
    project: Path, begun: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(project))  # where a check works
    context = FakeContext()
    context.at_work = lambda: [shutil.rmtree(folder) for folder in project.rglob("spills")]
    assert refused(project, begun(context)) == "spark-worker"
    assert list(_unlike_driver(__version__, str(project), [])) == []
    assert list(_unlike_driver("0.0.1", str(project), [])) == [
        f"Confide {__version__} on a worker, and 0.0.1 on the driver"
    ]


@pytest.mark.parametrize(
    "said",
    [
        "ModuleNotFoundError: No module named 'confide'",
        "[PYTHON_VERSION_MISMATCH] Python in worker has different version",
        'Cannot run program "/opt/python": error=2',
    ],
)
def test_a_worker_without_confide_is_said_to_be_one(said: str) -> None:
    from pyspark.errors import PySparkException

    def answer() -> None:
        raise PySparkException(f"CANARY {said}")

    with pytest.raises(RunError) as caught:
        in_our_words(FakeContext(), answer, [])
    assert caught.value.findings[0].code == "spark-worker"
    assert "CANARY" not in str(caught.value)


def test_what_pyspark_foresees_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        monkeypatch.setattr(spark_session, "find_spec", lambda _: object())
        monkeypatch.setattr(spark_session, "_has_java", lambda: True)
        spark_session._check_installed()
        warnings.warn("PySpark does not yet fully support pandas >= 3.0.0.", FutureWarning, stacklevel=1)
        assert shown == []


def test_what_a_killed_run_has_left_is_named_and_destroyed(project: Path, tmp_path: Path) -> None:
    left_behind = project / "small" / "confidential" / "scratch" / "spark-0" / f"{MAPPED}0"
    left_behind.parent.mkdir(parents=True)
    left_behind.write_bytes(b"KEY" * 100)
    os.link(left_behind, tmp_path / "its place on the disk")
    (finding,) = api.check(project / "spec.toml").findings
    assert (finding.code, finding.severity) == ("left-scratch", "warning")
    assert "scratch/spark-0" in str(finding.found)
    api.run(project / "spec.toml")
    assert not left_behind.parent.parent.exists()
    assert b"KEY" not in (tmp_path / "its place on the disk").read_bytes()
    assert api.check(project / "spec.toml").findings == ()


def test_an_interrupted_command_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    app = typer.Typer()

    @app.command()
    def wait() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(main, "app", app)
    monkeypatch.setattr(sys, "argv", ["confide"])
    with pytest.raises(SystemExit) as ending:
        main.main()
    assert ending.value.code == 130
    assert "Interrupted" in capsys.readouterr().err


def test_a_start_that_is_interrupted_is_given_up() -> None:
    """An interruption while Java is waited for: the wait ends, and what Java says of it is not shown."""
    given_up = threading.Event()
    timer = threading.Timer(0.5, signal.raise_signal, [signal.SIGINT])
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        spark_session._aside(lambda: given_up.wait(20), given_up.set)
    assert given_up.is_set()
    assert logging.getLogger().isEnabledFor(logging.ERROR)
