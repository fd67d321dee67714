"""A SuperLink of Flower's simulation for one test, and ``flwr run`` on it."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from free_port import free_port
from source_tree import ROOT


@contextlib.contextmanager
def superlink(home: Path, ray_address: str) -> Iterator[dict[str, str]]:
    """Starts one, which ``flwr run`` would leave running; yields the environment of its runs."""
    control, http = free_port(), free_port()
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text(f'[superlink.mine]\naddress = "127.0.0.1:{http}"\ninsecure = true\n')
    addresses = ["--control-api-address", f"127.0.0.1:{control}", "--host", "127.0.0.1", "--port", str(http)]
    environment = {**os.environ, "FLWR_HOME": str(home), "PYTHONPATH": str(ROOT), "RAY_ADDRESS": ray_address}
    command = [_executable("flower-superlink"), "--insecure", "--simulation", "--isolation", "subprocess", *addresses]
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            _wait_for(http)
            yield environment
        finally:
            process.terminate()


def flwr_run(app: Path, environment: dict[str, str], nodes: int, settings: str) -> str:
    """Runs an app with so many nodes; returns what it printed."""
    command = [_executable("flwr"), "run", ".", "mine", "--stream", "--run-config", settings]
    done = subprocess.run(
        [*command, "--federation-config", f"num-supernodes={nodes}"],
        cwd=app,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    return done.stdout + done.stderr


def _executable(name: str) -> Path:
    return Path(sys.executable).with_name(name)


def _wait_for(port: int) -> None:
    for _ in range(600):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.1)
    raise TimeoutError("flower-superlink did not start")
