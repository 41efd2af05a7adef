"""nginx on the loopback interface, for the time of this process."""

import atexit
import os
import shutil
import socket
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

from benchmarks._contest.environments import SetupError

__all__ = ["program", "start", "stop"]

_CONFIGURATION = """
{user} daemon off; pid {folder}/pid; error_log {folder}/error.log; worker_processes 1;
events {{ }}
http {{
  access_log off; sendfile on; tcp_nopush on; keepalive_requests 1000000; open_file_cache max=10000;
  client_body_temp_path {folder}/b; proxy_temp_path {folder}/p; fastcgi_temp_path {folder}/f;
  uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  server {{ listen 127.0.0.1:{port}; root {root}; }}
}}
"""

_RUNNING: dict[Path, tuple["subprocess.Popen[bytes]", str, Path]] = {}


def program() -> str | None:
    """The path of nginx, if it is installed."""
    return shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")


def start(root: Path) -> str:
    """The URL of a server of that folder, which runs until ``stop`` or the end of the process.

    Raises:
        SetupError: nginx is not installed, or does not start.
    """
    if root in _RUNNING:
        return _RUNNING[root][1]
    nginx = program()
    if nginx is None:
        raise SetupError("nginx is not installed; install it first (Debian: apt-get install nginx-light)")
    folder = Path(tempfile.mkdtemp(prefix="spdl-nginx-"))
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    user = "user root;" if os.getuid() == 0 else ""  # the folder may be below a home that others cannot enter
    text = _CONFIGURATION.format(user=user, folder=folder, port=port, root=root)
    (folder / "conf").write_text(text, encoding="utf-8")
    command = [nginx, "-c", str(folder / "conf"), "-p", str(folder)]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while True:
        with socket.socket() as client:
            if client.connect_ex(("127.0.0.1", port)) == 0:
                break
        if process.poll() is not None:
            raise SetupError(f"nginx ended with exit code {process.returncode}: {' '.join(command)}")
    _RUNNING[root] = process, f"http://127.0.0.1:{port}/", folder
    if len(_RUNNING) == 1:
        atexit.register(stop)
    return _RUNNING[root][1]


def stop() -> None:
    """Stop all servers."""
    while _RUNNING:
        _, (process, _, folder) = _RUNNING.popitem()
        with suppress(ProcessLookupError):
            process.terminate()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)
