#!/usr/bin/env python3
"""Compiles and runs the code blocks of all pages (*.md), so that none of them grows stale. The words behind ``` say
what a block is:

  cpp           is compiled. A block with '#pragma once' is a complete attention method, which is registered and tested
                like the library's own. Other classes and templates are compiled at namespace scope. Statements are run;
                those of a page see the names of the blocks before them.
  cpp excerpt   occurs in a source of the tree, but for white space. A line "// ..." stands for lines left out.
  sh            is run by bash in an empty folder with the programs, where the blocks of a page run one after the other.
  sh not-run    takes too long, or needs the network or data. The programs and the flags in it exist.
  output        is what the block before it prints.
  cmake         has lines of tests/install/CMakeLists.txt.
  python        needs the Python package, whose own tests run it.
  (none)        is a drawing or a formula.

usage: pages.py cpp HEADER DEPENDENCIES    writes the C++ blocks as a header, for blocks.cpp
       pages.py sh BUILD                   checks everything else, with the programs in BUILD
"""
import os
import re
import shlex
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
KINDS = ["cpp", "cpp excerpt", "sh", "sh not-run", "output", "cmake", "python", ""]
SCRIPTS = ["tests/run", "tests/fuzz/run", "experiments/setup", "experiments/quickstart", "autograd/exercises/check"]


@dataclass
class Block:
    page: Path
    line: int  # of the first line of the code
    kind: str
    code: str

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


@cache
def folders() -> list[Path]:
    """The folders of the tree, without build directories, runs and hidden ones."""
    found = []
    for folder, below, _ in os.walk(ROOT):
        here = Path(folder)
        below[:] = [name for name in sorted(below) if name[0] not in "._"]
        if here == ROOT:
            below[:] = [name for name in below if not name.startswith("build") and name not in ("runs", "subprojects")]
        found.append(here)
    return found


def files(*endings: str) -> list[Path]:
    return sorted(path for folder in folders() for path in folder.iterdir() if path.suffix in endings)


def blocks_of(page: Path) -> list[Block]:
    blocks, fence = [], ""
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        mark = re.match(r"( *)(`{3,})(.*)", line)
        if not fence and mark:
            indent, fence, kind = mark.groups()
            blocks.append(Block(page, number + 1, kind.strip(), ""))
        elif mark and mark.group(2) == fence and not mark.group(3).strip():
            fence = ""
        elif fence:
            blocks[-1].code += line.removeprefix(indent) + "\n"
    return blocks


def cpp_header(pages: list[Path]) -> str:
    """The blocks as C++: methods_of_pages(), and run_statements(), which runs the statements of each page in a scope of
    their own and compares what they print."""
    includes, declarations, statements, methods = ["#include <vector>"], [], [], []
    for page in pages:
        nested, found = [], blocks_of(page)
        for block, after in zip(found, found[1:] + [None]):
            if block.kind != "cpp":
                continue
            code = re.sub(r"#pragma once\n", "\n", block.code)
            includes += re.findall(r"^#include.*", code, re.MULTILINE)
            code = f'#line {block.line} "{block.page}"\n' + re.sub(r"^#include.*", "", code, flags=re.MULTILINE)
            if "#pragma once" in block.code:
                names = re.findall(r"(?:struct|class) (\w+) : (?:public )?LocalnessMethod", code)
                if len(names) != 1:
                    sys.exit(f"{block.place}: a complete method has one class; this block has {len(names)}")
                methods += names
                declarations.append(code)
            elif re.match(r"(class|struct|template)\b", code.split("\n", 1)[1].lstrip()):
                declarations.append(f"namespace fovea {{\n{code}}}")
            else:
                expected = after.code if after and after.kind == "output" else ""
                nested.append(f'{code}check_printed("{block.place}", R"---({expected})---");')
        if nested:
            statements.append("{\n" + "\n{\n".join(nested) + "\n" + "}" * len(nested))
    entries = ", ".join(f"fovea::method<fovea::{name}>()" for name in methods)
    return "\n".join([
        "// Made by pages.py.", "#pragma once", *dict.fromkeys(includes), *declarations,
        f"inline std::vector<fovea::MethodEntry> methods_of_pages() {{ return {{{entries}}}; }}",
        "template <class Check>\nvoid run_statements(const Check& check_printed) {\nusing namespace fovea;",
        *statements, "}", ""])


def write_header(header: str, dependencies: str) -> None:
    pages = files(".md")
    text = cpp_header(pages)
    if not os.path.exists(header) or Path(header).read_text(encoding="utf-8") != text:
        Path(header).write_text(text, encoding="utf-8")
    read = [str(path).replace(" ", "\\ ") for path in pages + folders()]  # a new page changes its folder
    Path(dependencies).write_text(f"{header}: {' '.join(read)}\n", encoding="utf-8")


def without_space(path: Path) -> str:
    return "".join(path.read_text(encoding="utf-8").split())


@cache
def sources_without_space() -> list[str]:
    return [without_space(path) for path in files(".h", ".cpp", ".cu", ".cuh")]


def is_excerpt(block: Block) -> bool:
    """Whether one source has the parts of the block in their order."""
    parts = ["".join(part.split()) for part in block.code.split("// ...\n")]
    is_cmake = block.kind == "cmake"
    sources = [without_space(ROOT / "tests/install/CMakeLists.txt")] if is_cmake else sources_without_space()

    def has_parts(source: str) -> bool:
        at = 0
        for part in parts:
            found = source.find(part, at)
            if found < 0:
                return False
            at = found + len(part)
        return True

    return all(parts) and any(has_parts(source) for source in sources)


@cache
def help_of(program: Path) -> str:
    """All flags of a program and of its commands, if it has any; of a script, its text."""
    if program.read_bytes()[:2] == b"#!":
        return program.read_text(encoding="utf-8")

    def shown(*command: str) -> str:
        return subprocess.run([program, *command, "--help-all"], capture_output=True, text=True, check=True).stdout

    text = shown()
    commands = re.findall(r"^  ([a-z-]+)  ", text, re.MULTILINE) if " COMMAND " in text else []
    return text + "".join(shown(command) for command in commands)


def fault_of_commands(block: Block, build: Path) -> str:
    """The first program of a block that does not exist, or its first flag that it does not have; "" if all is well."""
    for line in block.code.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        programs = [(k, build / "experiments" / Path(word).name) for k, word in enumerate(words)
                    if word.startswith("build/experiments/") or k == 0 and "/" not in word]
        programs += [(0, ROOT / words[0])] if words and words[0] in SCRIPTS else []
        for k, program in programs:
            if not program.is_file():
                if "/" in words[k]:
                    return f"there is no program {words[k]}"
                continue  # a command of the system
            for flag in re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", " ".join(words[k + 1:])):
                name = flag.removeprefix("--no-").removeprefix("--")
                if not re.search(rf"--(\[no-\])?{name}(?![\w-])", help_of(program)):
                    return f"{Path(words[k]).name} has no flag {flag}"
    return ""


def fault_of_run(block: Block, expected: str, folder: Path, build: Path) -> str:
    path = f"{build / 'experiments'}:{os.environ['PATH']}"
    run = subprocess.run(["bash", "-euo", "pipefail", "-c", block.code], cwd=folder, env={**os.environ, "PATH": path},
                         stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if run.returncode:
        return f"ends with status {run.returncode}\n{run.stdout}{run.stderr}"
    return f"prints\n{run.stdout}" if expected and run.stdout != expected else ""


def check_all(build: Path) -> int:
    faults = []
    for page in files(".md"):
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            (folder / "build").symlink_to(build)
            found = blocks_of(page)
            for before, block, after in zip([None] + found, found, found[1:] + [None]):
                fault = ""
                if block.kind == "output" and (not before or before.kind not in ("cpp", "sh")):
                    fault = "the block before this output is not run"
                elif block.kind not in KINDS:
                    fault = f"a block is one of {', '.join(KINDS[:-1])}; this one is '{block.kind}'"
                elif block.kind in ("cpp excerpt", "cmake"):
                    fault = "" if is_excerpt(block) else "no source has these lines in this order"
                elif block.kind == "python" and page != ROOT / "attention/python/README.md":
                    fault = "nothing runs Python on this page"
                elif not block.kind and (build / "experiments" / block.code.partition(" ")[0]).is_file():
                    fault = "a block of commands is 'sh' or 'sh not-run'"
                elif block.kind == "sh not-run":
                    fault = fault_of_commands(block, build)
                elif block.kind == "sh":
                    fault = fault_of_run(block, after.code if after and after.kind == "output" else "", folder, build)
                if fault:
                    faults.append(f"{block.place}: {fault}")
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if sys.argv[1] == "cpp":
    write_header(*sys.argv[2:])
else:
    sys.exit(check_all(Path(sys.argv[2]).resolve()))
