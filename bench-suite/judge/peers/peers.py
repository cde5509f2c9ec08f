"""The judge beside other tools: its change points, and its comparisons.

    cargo bench -p judge -- --repeats 400 --series "$PWD/target/series.ndjson"
    cargo bench -p judge -- --repeats 400 --pairs "$PWD/target/pairs.ndjson"
    python3 bench-suite/judge/peers/peers.py target/series.ndjson target/pairs.ndjson

Each line of a file is what the judge's own bars draw, and what the judge found: a series, with the
place of its change (or none), or the runs of a base and a head, with the ratio between them. The peers
get the same values, with the defaults of their authors, each in a virtual environment of its own below
target/peers. Prints Markdown.
"""

import json
import subprocess
import sys
import venv
from pathlib import Path

# What is installed for a peer.
SERIES = {
    "Apache Otava 0.8.0": ("otava", ["apache-otava==0.8.0"]),
    "MongoDB signal processing 2.1.6": ("mongodb", ["signal-processing-algorithms==2.1.6"]),
}
PAIRS = {
    "Welch's t, 0.05": ("welch", ["scipy==1.15.3"]),
    "benchstat's rank test, 0.05": ("benchstat", ["scipy==1.15.3"]),
    "nvbench-compare-robust": ("nvbench", []),
    "asv 0.6.6, factor 1": ("asv", ["asv==0.6.6"]),
}
# A change counts as found if it is placed this close, as in the judge's bars.
NEAR = 2


def otava(one):
    from otava.series import Metric, Series

    values = one["values"]
    series = Series("series", None, list(range(len(values))), {"v": Metric(1, 1.0)}, {"v": values}, {})
    return [int(change.index) for change in series.analyze().change_points["v"]]


def mongodb(one):
    from signal_processing_algorithms.energy_statistics.energy_statistics import e_divisive

    return [int(index) for index in e_divisive(one["values"])]


def welch(one):
    from scipy.stats import ttest_ind

    return bool(ttest_ind(one["base"], one["head"], equal_var=False).pvalue <= 0.05)


def benchstat(one):
    """golang.org/x/perf's benchmath.AssumeNothing: exact up to 50 values a side, at 0.05."""
    from scipy.stats import mannwhitneyu

    exact = len(set(one["base"] + one["head"])) == len(one["base"] + one["head"])
    method = "exact" if exact else "asymptotic"
    return bool(mannwhitneyu(one["base"], one["head"], method=method).pvalue <= 0.05)


def nvbench(one):
    """Its rule at commit 66212f1, without clock rates: from least to third quartile, 0.5 % apart."""

    def interval(side):
        values = sorted(one[side])
        return values[0], values[(75 * (len(values) - 1) + 50) // 100]

    (low, high), (other_low, other_high) = interval("base"), interval("head")
    return max(low / other_high, other_low / high) >= 1.005


def asv(one):
    from asv._stats import is_different
    from asv_runner.statistics import compute_stats

    base, head = one["base"], one["head"]
    return bool(is_different(base, head, compute_stats(base, 1)[1], compute_stats(head, 1)[1]))


def judge_here(name, file):
    """What runs within a peer's environment: what it finds, a line for each of the file's."""
    detect = globals()[name]
    with open(file, encoding="utf-8") as lines:
        for line in lines:
            print(json.dumps(detect(json.loads(line))))


def environment(name, requirements):
    """The Python of a peer's environment, made once."""
    folder = Path("target/peers") / name
    python = folder / "bin/python"
    if not (folder / "ready").exists():
        print(f"installing {requirements}", file=sys.stderr)
        venv.create(folder, with_pip=True, clear=True)
        if requirements:
            subprocess.run([python, "-m", "pip", "install", "--quiet", *requirements], check=True)
        (folder / "ready").touch()
    return python


def found_by(peers, file, own):
    found = {"judge": own}
    for title, (name, requirements) in peers.items():
        python = environment(name, requirements)
        print(f"{title} judges", file=sys.stderr)
        command = [python, __file__, "--as", name, file]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        found[title] = [json.loads(line) for line in output.splitlines()]
    return found


def table(head, all_found, rows, is_hit):
    print("| " + " | ".join([*head, *all_found]) + " |")
    print("|---" * (len(head) + len(all_found)) + "|")
    for row, parts in rows.items():

        def share(found, places):
            return f"{100 * sum(is_hit(found[place], place) for place in places) / len(places):.1f}"

        shares = [" / ".join(share(found, places) for places in parts.values()) for found in all_found.values()]
        print("| " + " | ".join([*map(str, row), *shares]) + " |")
    print()


def rows_of(all_of_them, key, part=lambda one: None):
    rows = {}
    for place, one in enumerate(all_of_them):
        rows.setdefault(key(one), {}).setdefault(part(one), []).append(place)
    return rows


def series_table(series, file):
    found = found_by(SERIES, file, [one["judge"] for one in series])

    def after(one):
        fresh = "none: false alarms" if one["at"] is None else len(one["values"]) - one["at"]
        return one["row"], fresh

    def is_hit(found, place):
        at = series[place]["at"]
        return bool(found) if at is None else any(abs(index - at) <= NEAR for index in found)

    table(["noise", "points after the change"], found, rows_of(series, after), is_hit)


def pairs_table(pairs, file):
    found = found_by(PAIRS, file, [one["judge"] for one in pairs])
    rows = rows_of(pairs, lambda one: (one["row"], one["blocks"]), lambda one: one["ratio"])
    table(["noise", "blocks"], found, rows, lambda called, _: called)


def main():
    if sys.argv[1:2] == ["--as"]:
        judge_here(*sys.argv[2:4])
        return
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    for file in sys.argv[1:]:
        with open(file, encoding="utf-8") as lines:
            all_of_them = [json.loads(line) for line in lines]
        show = series_table if "values" in all_of_them[0] else pairs_table
        show(all_of_them, file)


if __name__ == "__main__":
    main()
