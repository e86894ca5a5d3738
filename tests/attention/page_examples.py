#!/usr/bin/env python3
"""Writes the complete methods that pages show as one header, so that a test compiles and checks them.

usage: page_examples.py HEADER PAGE...

A complete method is a block of C++ that begins with '#pragma once'. The header has the blocks one after the other, and
methods_of_pages(), the entries of their methods for the registry.
"""
import re
import sys


def main():
    header, pages = sys.argv[1], sys.argv[2:]
    lines = ["// Made by page_examples.py.", "#pragma once", "#include <vector>", ""]
    methods = []
    for page in pages:
        with open(page, encoding="utf-8") as file:
            blocks = re.findall(r"```cpp\n(#pragma once\n.*?)```", file.read(), re.DOTALL)
        if not blocks:
            sys.exit(f"{page}: no complete method, a block of C++ that begins with '#pragma once'")
        for block in blocks:
            names = re.findall(r"(?:struct|class) (\w+) : (?:public )?LocalnessMethod", block)
            if len(names) != 1:
                sys.exit(f"{page}: an example has {len(names)} methods; it must have 1")
            methods += names
            lines.append(block.replace("#pragma once\n", f"// from {page}\n"))
    entries = ", ".join(f"fovea::method<fovea::{name}>()" for name in methods)
    lines.append(f"inline std::vector<fovea::MethodEntry> methods_of_pages() {{ return {{{entries}}}; }}")
    with open(header, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


main()
