"""Writes the allocations of a snapshot as a trace for Torchgauge's task `allocation`.

    python3 trace.py snapshot.pickle [DEVICE] > trace.txt

Reads what `torch.cuda.memory._dump_snapshot` and Torchgauge write, and needs no torch for it. What
was allocated before the history begins comes first. Read no file of somebody whom you do not trust:
a pickle may run anything.
"""

import pickle
import sys


def lines(snapshot, device=0):
    """`+ID BYTES` for each tensor that is made, `-ID` for each that goes."""
    trace = snapshot["device_traces"][device]
    moves = [event for event in trace if event["action"] in ("alloc", "free_completed")]
    live, made = {}, 0
    for before in (True, False):
        seen = set()
        for event in moves:
            address, is_new = event["addr"], event["action"] == "alloc"
            if before and (is_new or address in seen):
                seen.add(address)
            elif before or is_new:
                made += 1
                live[address] = made
                seen.add(address)
                yield "+{} {}".format(made, event["size"])
            elif address in live:
                yield "-{}".format(live.pop(address))


def main(words):
    if not 1 <= len(words) <= 2:
        sys.exit("usage: python3 trace.py SNAPSHOT [DEVICE] > TRACE")
    with open(words[0], "rb") as file:
        snapshot = pickle.load(file)
    for line in lines(snapshot, int(words[1]) if words[1:] else 0):
        print(line)


if __name__ == "__main__":
    main(sys.argv[1:])
