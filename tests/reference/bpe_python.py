#!/usr/bin/env python3
"""Writes tests/goldens/bpe.json: codes that subword-nmt learns of made-up words, and how it then splits lines.

    pip install subword-nmt
    python3 tests/reference/bpe_python.py [tests/goldens]
    python3 tests/reference/bpe_python.py --codes FILE TEXT     compares nothing, prints what apply-bpe makes of TEXT
"""
import io
import json
import pathlib
import random
import sys

from subword_nmt.apply_bpe import BPE
from subword_nmt.learn_bpe import learn_bpe

draw = random.Random(5)
syllables = ["ka", "to", "mi", "shü", "ßen", "日", "本", "la", "na", "nana", "é", "x", "-", "12", "."]


def word() -> str:
    common = syllables[:8]
    return "".join(draw.choice(common if draw.random() < 0.8 else syllables) for _ in range(draw.randrange(1, 5)))


def line(words) -> str:
    return " ".join(draw.choice(words) if draw.random() < 0.8 else word() for _ in range(draw.randrange(0, 9)))


def main() -> None:
    if len(sys.argv) > 1 and sys.argv[1] == "--codes":
        bpe = BPE(open(sys.argv[2], encoding="utf-8"))
        for text in open(sys.argv[3], encoding="utf-8"):
            print(bpe.process_line(text), end="")
        return
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent / "goldens")
    words = [word() for _ in range(40)]
    corpus = [line(words) for _ in range(200)]
    learnt = io.StringIO()
    learn_bpe(io.StringIO("\n".join(corpus) + "\n"), learnt, 60)
    codes = learnt.getvalue().splitlines()
    # version 0.1 has the end of a word as a unit of its own
    old = ["a b", "n a", "na na", "a </w>", "na </w>", "nana na</w>", "b a</w>", "n a"]
    cases = []
    new_lines = [line(words) for _ in range(25)] + ["", " x  ka ", "nananananana"]
    for name, file, lines in (("version 0.2", codes, new_lines),
                              ("version 0.1", old, ["na nana nanana", "nananana banana aba a b", "ab ba bab"])):
        bpe = BPE(io.StringIO("\n".join(file) + "\n"))
        cases.append({"name": name, "codes": file, "lines": [[text, bpe.segment(text)] for text in lines]})
    text = json.dumps({"about": "lines and what subword-nmt's apply-bpe makes of them", "cases": cases}, indent=1,
                      ensure_ascii=False)
    (folder / "bpe.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
