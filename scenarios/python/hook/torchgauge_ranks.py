"""Starts a command once for each rank of a run, as torchrun does, and ends them together.

    python3 torchgauge_ranks.py COUNT EVENTS_FILE COMMAND [ARGUMENT …]

The first rank that dies or fails ends all, and so does one that still runs long after others are
done. What only this process can know of a rank goes to the events file as that rank's ``failed``.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time

#: Seconds from SIGTERM to SIGKILL.
GRACE = float(os.environ.get("TORCHGAUGE_RANKS_GRACE", 5))
#: Least seconds that the others have when the first rank has ended well. They have as long as it
#: took, where that is longer.
OTHERS = float(os.environ.get("TORCHGAUGE_RANKS_OTHERS", 30))
_PAUSE = 0.02


def run(count, events, command):
    """Runs the ranks to their end; the exit status."""
    # As an exception, so that the ranks are ended.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    processes, started, lost = {}, 0, None
    try:
        port = _free_port()
        for rank in range(count):
            started = rank
            processes[rank] = subprocess.Popen(command, env=_environment(rank, count, port))
        lost = _wait(dict(processes))
    except OSError as error:
        lost = (started, "rank-exit", "cannot be started: {}".format(error))
    finally:
        if lost is not None:
            _report(events, *lost)
        _end(processes)
    return 1 if lost else 0


def _free_port():
    """One below those that systems give out by themselves, which another process could get before
    the first rank listens."""
    for number in range(10000):
        port = 20000 + (os.getpid() + number) % 10000
        with socket.socket() as free:
            try:
                free.bind(("", port))
            except OSError:
                continue
            return port
    raise OSError("no port from 20000 to 29999 is free")


def _environment(rank, count, port):
    return dict(
        os.environ,
        RANK=str(rank),
        LOCAL_RANK=str(rank),
        WORLD_SIZE=str(count),
        LOCAL_WORLD_SIZE=str(count),
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT=str(port),
    )


def _wait(running):
    """The rank that ended the run, with a reason and words; None where all ended well."""
    began, limit, since = time.monotonic(), None, None
    while running:
        lost = []
        for rank, status in [(rank, one.poll()) for rank, one in running.items()]:
            if status is None:
                continue
            del running[rank]
            if status < 0:
                # A process that loses its peer aborts: of several, that one is not the cause.
                place = len(lost) if status == -signal.SIGABRT else 0
                words = "ended by signal {}".format(-status)
                lost.insert(place, (rank, "rank-crash", words))
            elif status:
                lost.append((rank, "rank-exit", "ended with status {}".format(status)))
            elif limit is None:
                since = time.monotonic()
                limit = since + max(OTHERS, since - began)
        if lost:
            return lost[0]
        if limit is not None and running and time.monotonic() > limit:
            words = "still ran {:.0f} s after the first rank was done, and was ended"
            return min(running), "rank-hang", words.format(time.monotonic() - since)
        time.sleep(_PAUSE)
    return None


def _report(events, rank, reason, words):
    """Appends how a rank was lost, unless it has said itself why it failed."""
    sys.stderr.write("torchgauge: rank {}: {}\n".format(rank, words))
    phase = "process-start"
    try:
        with open(events, "rb") as file:
            for text in file:
                line = _read(text)
                if line.get("rank", 0) != rank:
                    continue
                if line.get("event") == "failed":
                    return
                phase = line.get("phase", phase)
        line = {"event": "failed", "reason": reason, "phase": phase, "message": words}
        line.update(values={}, rank=rank)
        with open(events, "ab", buffering=0) as file:
            file.write((json.dumps(line) + "\n").encode("utf-8"))
    except OSError as error:
        sys.stderr.write("torchgauge: it cannot be reported: {}\n".format(error))


def _read(text):
    try:
        line = json.loads(text.decode("utf-8"))
    except ValueError:
        line = None
    return line if isinstance(line, dict) else {}


def _end(processes):
    """Ends all that still run, first by SIGTERM."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for process in processes.values():
        if process.poll() is None:
            process.terminate()
    limit = time.monotonic() + GRACE
    for process in processes.values():
        try:
            process.wait(max(limit - time.monotonic(), 0))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


if __name__ == "__main__":
    sys.exit(run(int(sys.argv[1]), sys.argv[2], sys.argv[3:]))
