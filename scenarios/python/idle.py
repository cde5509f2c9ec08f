"""Starts an SSH server and Jupyter, makes a CUDA context where there is a GPU, and idles.

    python3 idle.py

Run as any user, in a read-only file system with a writable /tmp. A step is a second in which nobody
does anything; CPU time is that of all processes.
"""

import glob
import itertools
import os
import socket
import subprocess
import sys
import time

import torchgauge

PORTS = {"sshd": 2222, "jupyter": 8888}
SERVERS = (
    ("/usr/sbin/sshd", "-D", "-e", "-p", "2222", "-h", "/tmp/host_key", "-o", "PidFile=none"),
    ("jupyter", "lab", "--no-browser", "--ip=127.0.0.1", "--port=8888"),
)
#: Seconds until both answer, at most, and those after that in which they may still settle.
PATIENCE, SETTLING = 60, 5


def cpu_seconds():
    """CPU time of all processes of this container so far, of those that ended in their parents'."""
    ticks = 0
    for stat in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(stat, encoding="utf-8", errors="replace") as file:
                # The command's name in brackets may hold spaces.
                ticks += sum(map(int, file.read().rpartition(")")[2].split()[11:15]))
        except OSError:
            pass  # It ended meanwhile.
    return ticks / os.sysconf("SC_CLK_TCK")


def wait_for(name, port):
    """Until something listens on the port."""
    for _ in range(10 * PATIENCE):
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1):
                return
        except OSError:
            time.sleep(0.1)
    sys.exit("{} does not answer on port {} after {} s".format(name, port, PATIENCE))


def make_context():
    """A CUDA context, where torch is installed and sees a GPU."""
    try:
        import torch
    except ImportError:
        return None
    return torch.zeros(1, device="cuda") if torch.cuda.is_available() else torch


def main():
    keygen = ("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", "/tmp/host_key")
    subprocess.run(keygen, check=True)
    servers = [subprocess.Popen(command) for command in SERVERS]
    context = make_context()
    for name, port in PORTS.items():
        wait_for(name, port)
    time.sleep(SETTLING)
    began, before = time.monotonic(), cpu_seconds()
    for _ in torchgauge.steps(itertools.repeat(context)):
        time.sleep(1)
        share = (cpu_seconds() - before) / (time.monotonic() - began)
        torchgauge.metric("container_cpu_ratio", share, "ratio", "less")
        if any(server.poll() is not None for server in servers):
            sys.exit("a server ended by itself; its last lines are above")


if __name__ == "__main__":
    main()
