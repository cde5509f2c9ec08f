"""The judge's change points beside those of Apache Otava and of MongoDB's signal processing.

    cargo bench -p judge -- --repeats 1000 --series "$PWD/target/series.ndjson"
    python3 bench-suite/judge/peers/peers.py target/series.ndjson

Each line of the file is a series as the judge's own bars draw it, with the place of its change (or
none) and what the judge found. The peers get the same values, with the defaults of their authors,
each in a virtual environment of its own below target/peers. Prints Markdown.
"""

import json
import subprocess
import sys
import venv
from pathlib import Path

PEERS = {
    "Apache Otava 0.8.0": ("otava", "apache-otava==0.8.0"),
    "MongoDB signal processing 2.1.6": ("mongodb", "signal-processing-algorithms==2.1.6"),
}
# A change counts as found if it is placed this close, as in the judge's bars.
NEAR = 2


def otava(values):
    from otava.series import Metric, Series

    series = Series("series", None, list(range(len(values))), {"v": Metric(1, 1.0)}, {"v": values}, {})
    return [int(change.index) for change in series.analyze().change_points["v"]]


def mongodb(values):
    from signal_processing_algorithms.energy_statistics.energy_statistics import e_divisive

    return [int(index) for index in e_divisive(values)]


def judge_here(name, file):
    """What runs within a peer's environment: the places that it finds, a line a series."""
    detect = {"otava": otava, "mongodb": mongodb}[name]
    with open(file, encoding="utf-8") as lines:
        for line in lines:
            print(json.dumps(detect(json.loads(line)["values"])))


def environment(name, requirement):
    """The Python of a peer's environment, made once."""
    folder = Path("target/peers") / requirement
    python = folder / "bin/python"
    if not (folder / "ready").exists():
        print(f"installing {requirement}", file=sys.stderr)
        venv.create(folder, with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", requirement], check=True)
        (folder / "ready").touch()
    return python


def found_by(name, requirement, file):
    print(f"{requirement} judges", file=sys.stderr)
    command = [environment(name, requirement), __file__, file, name]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [json.loads(line) for line in output.splitlines()]


def main():
    if len(sys.argv) == 3:
        judge_here(sys.argv[2], sys.argv[1])
        return
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    file = sys.argv[1]
    with open(file, encoding="utf-8") as lines:
        series = [json.loads(line) for line in lines]
    found = {"judge": [one["judge"] for one in series]}
    for title, (name, requirement) in PEERS.items():
        found[title] = found_by(name, requirement, file)
    rows = {}
    for place, one in enumerate(series):
        rows.setdefault((one["row"], one["at"]), []).append(place)
    print("| noise | points after the change | " + " | ".join(found) + " |")
    print("|---|---|" + "---|" * len(found))
    for (row, at), places in rows.items():
        after = "none: false alarms" if at is None else str(len(series[places[0]]["values"]) - at)
        cells = []
        for all_found in found.values():
            hits = sum(
                bool(all_found[place])
                if at is None
                else any(abs(index - at) <= NEAR for index in all_found[place])
                for place in places
            )
            cells.append(f"{100 * hits / len(places):.1f}")
        print(f"| {row} | {after} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
