#!/usr/bin/env python3
"""Reads a run's curves with TensorBoard's own reader and compares them with log.jsonl beside them.

    pip install tensorboard
    python3 tests/reference/tensorboard_reader.py runs/a ...

Prints the curves of each directory. Every number of a line of log.jsonl must be a point of the curve of its name, at
the line's update, to the seven digits of an f32: "loss" of "training/loss", "dev": {"BLEU"} of "development/BLEU". The
curves must have no other points.
"""
import json
import math
import pathlib
import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator


def curves_of(directory: pathlib.Path) -> dict:
    """{tag: {step: value}}, as TensorBoard reads them."""
    accumulator = EventAccumulator(str(directory), size_guidance={"scalars": 0})
    accumulator.Reload()
    return {tag: {event.step: event.value for event in accumulator.Scalars(tag)}
            for tag in accumulator.Tags()["scalars"]}


def logged_curves(path: pathlib.Path) -> dict:
    """{tag: {update: value}} of a log."""
    curves = {}
    for line in map(json.loads, path.read_text().splitlines()):
        values = {f"training/{name}": value for name, value in line.items() if name not in ("update", "epoch", "dev")}
        values |= {f"development/{name}": value for name, value in line.get("dev", {}).items()}
        for tag, value in values.items():
            curves.setdefault(tag, {})[line["update"]] = math.nan if value is None else value
    return curves


def is_same(a: float, b: float) -> bool:
    return math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-37) or (math.isnan(a) and math.isnan(b))


def differences(curves: dict, logged: dict) -> list:
    found = [f"{tag}: only one of the two files has it" for tag in sorted(curves.keys() ^ logged.keys())]
    for tag in curves.keys() & logged.keys():
        if curves[tag].keys() != logged[tag].keys():
            found.append(f"{tag}: has steps {sorted(curves[tag])}, log.jsonl has {sorted(logged[tag])}")
        found += [f"{tag}: step {step} is {curves[tag][step]}, log.jsonl has {value}"
                  for step, value in logged[tag].items()
                  if step in curves[tag] and not is_same(curves[tag][step], value)]
    return found


def main() -> None:
    failed = False
    for directory in map(pathlib.Path, sys.argv[1:]):
        curves = curves_of(directory)
        failed |= not curves
        print(f"{directory}: {len(curves)} curves")
        for tag, points in curves.items():
            steps = sorted(points)
            print(f"  {tag}: {len(steps)} points, from {points[steps[0]]:g} at {steps[0]} to {points[steps[-1]]:g} at "
                  f"{steps[-1]}")
        for difference in differences(curves, logged_curves(directory / "log.jsonl")):
            print("  " + difference)
            failed = True
    sys.exit(int(failed))


if __name__ == "__main__":
    main()
