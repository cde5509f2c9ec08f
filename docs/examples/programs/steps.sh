#!/bin/sh
# A program in shell that reports its steps. Where nobody asks for events, it only works.
set -eu

warmup=2
measured=3
events=${TORCHGAUGE_EVENTS:-/dev/null}

# The run's name, out of the run file, or out of its JSON where that is the variable's value.
run=${TORCHGAUGE_RUN:-}
case $run in
    "" | "{"*) ;;
    *) run=$(cat "$run") ;;
esac
run=$(printf '%s' "$run" | sed -n 's/.*"run":"\([^"]*\)".*/\1/p')

say() { printf '%s\n' "$1" >>"$events"; }
now() { date +%s.%N; }
less() { awk -v to="$1" -v from="$2" 'BEGIN { printf "%.6f", to - from }'; }
work() { sleep 0.02; }

say "{\"event\":\"started\",\"version\":4,\"run\":\"$run\"}"
began=$(now)
say "{\"event\":\"phase-began\",\"phase\":\"warmup\",\"at_seconds\":$began}"
for _ in $(seq "$warmup"); do work; done
say "{\"event\":\"phase-ended\",\"phase\":\"warmup\",\"seconds\":$(less "$(now)" "$began")}"

began=$(now)
say "{\"event\":\"phase-began\",\"phase\":\"measure\",\"at_seconds\":$began}"
ends=
for _ in $(seq "$measured"); do
    work
    end=$(now)
    ends="$ends $end"
done
seconds=$(less "$end" "$began")
say "{\"event\":\"phase-ended\",\"phase\":\"measure\",\"seconds\":$seconds}"

# What was measured is written once all of it is. A step lasts from the end of the one before it.
index=0
for end in $ends; do
    say "{\"event\":\"step\",\"index\":$index,\"values\":{\"step_seconds\":$(less "$end" "$began")}}"
    index=$((index + 1))
    began=$end
done
say "{\"event\":\"value\",\"name\":\"naps_count\",\"value\":$index,\"unit\":\"count\"}"
say "{\"event\":\"finished\",\"values\":{\"measured_seconds\":$seconds}}"
