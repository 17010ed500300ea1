"""A real cluster of a master, two workers and a driver, each in a network of its own: what is heard between them."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.contract.kit import KEY, NoiseStream, Project, charged_once, lay_out, tree
from tests.kits.cluster import documented_settings

from confide.engines.spark_session import has_spark

TOOLS = ("ip", "tcpdump")
HOSTS = {"master": "10.77.0.1", "one": "10.77.0.2", "two": "10.77.0.3", "driver": "10.77.0.4"}
MASTER = f"spark://{HOSTS['master']}:7077"
SECRET = "a5" * 32
START_SECONDS = 90


def lacking() -> str | None:
    """Why there can be no cluster here."""
    if not has_spark():
        return "needs Java and the extra spark: pip install 'confide[spark]'"
    if missing := [tool for tool in TOOLS if shutil.which(tool) is None]:
        return f"needs {' and '.join(missing)}"
    probe = f"confide-probe-{os.getpid()}"
    if subprocess.run(["ip", "netns", "add", probe], capture_output=True, check=False).returncode:
        return "needs the right to make network namespaces"
    subprocess.run(["ip", "netns", "delete", probe], check=True)
    return None


pytestmark = [pytest.mark.process, pytest.mark.slow]


@dataclass
class Network:
    """Hosts at one switch, on which everything is heard."""

    folder: Path
    name: str = field(default_factory=lambda: f"cf{os.getpid()}")
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    worker: list[str] = field(default_factory=list)
    """The command of a worker."""
    settings: dict[str, str] = field(default_factory=dict)
    """The environment of master and workers."""

    @property
    def capture(self) -> Path:
        return self.folder / "capture.pcap"

    def begin(self) -> None:
        self._ip("netns", "add", self.name)
        self._ip("-n", self.name, "link", "add", "switch", "type", "bridge")
        self._ip("-n", self.name, "link", "set", "switch", "up")
        for host, address in HOSTS.items():
            own = f"{self.name}{host}"
            self._ip("netns", "add", own)
            self._ip("-n", own, "link", "add", "eth0", "type", "veth", "peer", "name", host, "netns", self.name)
            self._ip("-n", self.name, "link", "set", "dev", host, "master", "switch", "up")
            self._ip("-n", own, "address", "add", f"{address}/24", "dev", "eth0")
            for device in ("eth0", "lo"):
                self._ip("-n", own, "link", "set", device, "up")
        self.listener = self.start(
            "", ["tcpdump", "-i", "any", "-s", "0", "-B", "65536", "-U", "-w", str(self.capture)]
        )
        until(self.capture.exists)

    def end(self) -> None:
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            process.wait(20)
        for host in ("", *HOSTS):
            subprocess.run(["ip", "netns", "delete", f"{self.name}{host}"], capture_output=True, check=False)

    def command(self, host: str, command: list[str]) -> list[str]:
        return ["ip", "netns", "exec", f"{self.name}{host}", *command]

    def start(self, host: str, command: list[str], **environment: str) -> subprocess.Popen[bytes]:
        with (self.folder / f"{host or 'switch'}.log").open("ab") as log:
            process = subprocess.Popen(
                self.command(host, command), env=os.environ | environment, stdout=log, stderr=subprocess.STDOUT
            )
        self.processes.append(process)
        return process

    def start_worker(self, host: str, **environment: str) -> subprocess.Popen[bytes]:
        """A worker of the cluster, once the master knows it."""
        known = self.known_workers()
        own = {"SPARK_LOCAL_IP": HOSTS[host], "SPARK_WORKER_DIR": str(self.folder / host)}
        process = self.start(host, [*self.worker, "--host", HOSTS[host]], **self.settings | own | environment)
        until(lambda: self.known_workers() > known)
        return process

    def known_workers(self) -> int:
        """How often a worker has come to the master."""
        return (self.folder / "master.log").read_text().count("Registering worker")

    def heard(self) -> bytes:
        """What was sent so far, one connection and direction after the other."""
        time.sleep(1)
        return b"\n".join(conversations(self.capture.read_bytes()))

    @staticmethod
    def _ip(*arguments: str) -> None:
        subprocess.run(["ip", *arguments], check=True)


def until(true: Any, seconds: float = START_SECONDS) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.2)


def conversations(capture: bytes) -> list[bytes]:
    """The content of every TCP connection in a file of tcpdump, put together in the order of its bytes."""
    kind, at = struct.unpack_from("<I", capture, 20)[0] & 0xFFFF, 24
    header = {113: 16, 276: 20}[kind]  # packets of any device: Linux cooked, in both versions
    pieces: dict[tuple[bytes, bytes], dict[int, bytes]] = defaultdict(dict)
    while at + 16 <= len(capture):
        length = struct.unpack_from("<I", capture, at + 8)[0]
        packet = capture[at + 16 + header : at + 16 + length]
        at += 16 + length
        if len(packet) < 40 or packet[0] >> 4 != 4 or packet[9] != socket.IPPROTO_TCP:
            continue
        start = 4 * (packet[0] & 15)
        content = packet[start + 4 * (packet[start + 12] >> 4) : int.from_bytes(packet[2:4], "big")]
        number = int.from_bytes(packet[start + 4 : start + 8], "big")
        if content:
            kept = pieces[packet[12:20], packet[start : start + 4]]
            kept[number] = max(kept.get(number, b""), content, key=len)
    return [b"".join(content for _, content in sorted(sent.items())) for sent in pieces.values()]


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    """A cluster that is set up as docs/concepts/engines.md says, with workers of one gigabyte."""
    if reason := lacking():
        pytest.skip(reason)
    import pyspark

    folder = tmp_path_factory.mktemp("cluster")
    (folder / "conf").mkdir()
    (folder / "conf" / "spark-defaults.conf").write_text(documented_settings(SECRET))
    network = Network(folder)
    spark_class = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
    deploy = "org.apache.spark.deploy"
    common = {
        "SPARK_CONF_DIR": str(folder / "conf"),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_LOG_DIR": str(folder),
    }
    try:
        network.begin()
        command = [spark_class, f"{deploy}.master.Master", "--host", HOSTS["master"], "--port", "7077"]
        network.start("master", command, SPARK_LOCAL_IP=HOSTS["master"], **common)
        until(lambda: "I have been elected leader" in (folder / "master.log").read_text())
        network.worker = [spark_class, f"{deploy}.worker.Worker", "--cores", "1", "--memory", "1g", MASTER]
        network.settings = common
        for host in ("one", "two"):
            network.start_worker(host)
        yield network
    finally:
        network.end()


def confide_on(network: Network, project: Project, *options: str, conf: str = "conf") -> subprocess.Popen[str]:
    """``confide run`` on the driver."""
    main = [sys.executable, "-c", "from confide.cli.main import main; main()", "run", str(project.spec)]
    asked = [*main, "--insecure-key", KEY, "--engine", "spark", "--spark-master", MASTER, *options]
    own = {"SPARK_LOCAL_IP": HOSTS["driver"], "SPARK_CONF_DIR": str(network.folder / conf)}
    return subprocess.Popen(
        network.command("driver", asked),
        env=os.environ | own | {"PYSPARK_PYTHON": sys.executable, "COLUMNS": "200"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(running: subprocess.Popen[str], code: int) -> str:
    """What was said, on both channels; there is never a trace of the stack, nor a word of Spark's own."""
    out, err = running.communicate(timeout=400)
    assert running.returncode == code, err[-3000:]
    assert not re.search("Traceback|py4j|FutureWarning|Exception", out + err), err[-3000:]
    return out + err


def test_a_listener_would_hear_what_is_said_in_two_pieces(network: Network) -> None:
    secret = os.urandom(32)
    server = "import socket; s = socket.create_server(('', 999)); c = s.accept()[0]\nwhile c.recv(9): pass"
    network.start("two", [sys.executable, "-c", server])
    time.sleep(2)
    client = (
        "import socket, time; s = socket.create_connection(('10.77.0.3', 999)); s.setsockopt(6, 1, 1); "
        f"s.sendall({secret[:11]!r}); time.sleep(.5); s.sendall({secret[11:]!r})"
    )
    subprocess.run(network.command("driver", [sys.executable, "-c", client]), check=True)
    assert secret in network.heard()


@pytest.mark.parametrize("name", ["tables", "topdown", "safetab"])
def test_neither_key_nor_record_is_heard(
    network: Network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    keys, checked = {bytes.fromhex(KEY)}, NoiseStream.__post_init__

    def kept(stream: NoiseStream) -> None:
        checked(stream)
        keys.update((stream.word_key, stream.extension_key))

    monkeypatch.setattr(NoiseStream, "__post_init__", kept)
    here, there = lay_out(name, tmp_path / "here"), lay_out(name, tmp_path / "there")
    here.run()
    before = len(network.heard())
    ended(confide_on(network, there, "--memory", "600MB"), 0)
    assert tree(there.release) == tree(here.release)
    heard = network.heard()
    assert len(heard) > before + 100_000, "the machines have spoken to each other"
    assert len(keys) > 4
    assert [key for key in keys if key in heard or key.hex().encode() in heard] == []
    words = [b"ioEncryptionKey", b"geocode", b"confidential", SECRET.encode()]
    words += [path.name.encode() for path in there.inputs]
    assert [word for word in words if word in heard] == []


def test_workers_that_are_too_small_are_named(network: Network, tmp_path: Path) -> None:
    project = lay_out("tables", tmp_path / "project")
    said = ended(confide_on(network, project, "--memory", "8GiB"), 1)
    assert "spark-no-executor" in said or "no worker of the cluster" in said
    assert project.charges() == ["open"]


def test_a_driver_without_the_settings_is_refused(network: Network, tmp_path: Path) -> None:
    (network.folder / "none").mkdir(exist_ok=True)
    project = lay_out("tables", tmp_path / "project")
    ended(confide_on(network, project, "--memory", "600MB", conf="none"), 1)
    assert project.charges() == ["open"]


@pytest.mark.parametrize("seconds", [6, 20])
def test_an_interruption_ends_in_words(network: Network, tmp_path: Path, seconds: int) -> None:
    project = lay_out("tables", tmp_path / "project")
    running = confide_on(network, project, "--memory", "8GiB")
    time.sleep(seconds)
    running.send_signal(signal.SIGINT)
    assert "Interrupted" in ended(running, 130)
    assert project.charges() == ["open"]
    assert list(project.folder.rglob("spark-*")) == []


def charged(project: Project) -> bool:
    """Whether the ledger has the release by now: its noise is about to be drawn, or drawn."""
    return project.charges() != ["open"]


def killed(process: subprocess.Popen[Any]) -> None:
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)


@pytest.mark.parametrize("name", ["tables", "topdown"])
def test_a_killed_driver_is_gone_on_from_to_the_same_bytes(network: Network, tmp_path: Path, name: str) -> None:
    here, there = lay_out(name, tmp_path / "here"), lay_out(name, tmp_path / "there")
    here.run()
    running = confide_on(network, there, "--memory", "600MB")
    until(lambda: charged(there) or running.poll() is not None, 400)
    assert running.poll() is None, "it was killed in the middle"
    killed(running)
    assert not there.release.exists()
    ended(confide_on(network, there, "--memory", "600MB"), 0)
    assert tree(there.release) == tree(here.release)
    assert there.charges() == here.charges(), "it is charged once"


def executors(host: str) -> list[int]:
    """The processes of executors that have the address of a host."""
    listed = subprocess.run(["pgrep", "-f", f"CoarseGrainedExecutorBackend.*--hostname {host}"], capture_output=True)
    return [int(number) for number in listed.stdout.split()]


def test_when_a_worker_is_killed_the_other_one_does_its_work(network: Network, tmp_path: Path) -> None:
    here, there = lay_out("tables", tmp_path / "here"), lay_out("tables", tmp_path / "there")
    here.run()
    running = confide_on(network, there, "--memory", "600MB")
    until(lambda: executors(HOSTS["two"]) or running.poll() is not None, 400)
    (worker,) = [each for each in network.processes if HOSTS["two"] in each.args and each.poll() is None]
    for number in executors(HOSTS["two"]):
        os.kill(number, signal.SIGKILL)
    killed(worker)
    ended(running, 0)
    assert tree(there.release) == tree(here.release)
    network.start_worker("two")


def test_a_full_disk_of_the_workers_is_said_in_words(network: Network, tmp_path: Path) -> None:
    """Both workers have a small disk, which is nearly full when the work begins; later the run continues."""
    for worker in [each for each in network.processes if each.args[4:5] != ["tcpdump"] and "Worker" in str(each.args)]:
        if worker.poll() is None:
            killed(worker)
    disk = network.folder / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(disk)], check=True)
    try:
        (disk / "filled").write_bytes(bytes(224 << 10))
        own = {"SPARK_LOCAL_DIRS": str(disk), "SPARK_EXECUTOR_DIRS": str(disk), "TMPDIR": str(disk)}
        workers = [network.start_worker(host, **own) for host in ("one", "two")]
        project = lay_out("tables", tmp_path / "project")
        said = ended(confide_on(network, project, "--memory", "600MB"), 1)
        assert re.search("disk|no worker of the cluster", said)
        assert "sealed" not in project.charges()
        for worker in workers:
            killed(worker)
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)
    for host in ("one", "two"):
        network.start_worker(host)
    ended(confide_on(network, project, "--memory", "600MB"), 0)
    assert project.charges() == charged_once("tables")
