#!/usr/bin/env python3
"""Reads a run's curves with TensorBoard's own reader and compares them with metrics.csv beside them.

    pip install tensorboard
    python3 tests/reference/tensorboard_reader.py runs/a ...

Prints what each curve has. If the directory also has a metrics.csv, its columns that have the name of a curve must have
the curve's values, to the seven digits of an f32.
"""
import csv
import math
import pathlib
import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator


def curves_of(directory: pathlib.Path) -> dict:
    accumulator = EventAccumulator(str(directory), size_guidance={"scalars": 0})
    accumulator.Reload()
    return {tag: {event.step: event.value for event in accumulator.Scalars(tag)}
            for tag in accumulator.Tags()["scalars"]}


def differences(curves: dict, path: pathlib.Path) -> list:
    with open(path, newline="") as file:
        rows = list(csv.reader(file))
    found = []
    for column, name in enumerate(rows[0]):
        if name not in curves:
            continue
        expected = {int(row[0]): float(row[column]) for row in rows[1:] if row[column]}
        if expected.keys() != curves[name].keys():
            found.append(f"{name}: has steps {sorted(curves[name])}, metrics.csv has {sorted(expected)}")
        found += [f"{name}: step {step} is {curves[name][step]}, metrics.csv has {value}"
                  for step, value in expected.items() if step in curves[name]
                  and not math.isclose(curves[name][step], value, rel_tol=1e-6, abs_tol=1e-37)]
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
        if (directory / "metrics.csv").exists():
            for difference in differences(curves, directory / "metrics.csv"):
                print("  " + difference)
                failed = True
    sys.exit(int(failed))


if __name__ == "__main__":
    main()
