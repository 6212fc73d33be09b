#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Draws random texts of the repository for a reading test.

A reader who has not seen the project reads the texts and marks each one that had to be read twice. At most one in
twenty may be marked. The same seed draws the same texts from the same tree. For example:

    $ scripts/lib/draw_texts.py --seed 7 --paragraphs 2 --comments 1
    seed 7: 2 of 1234 paragraphs, 1 of 5678 comments

    1. docs/python.md:88
       Every operation has an asynchronous form, which returns a handle.
    ...

A paragraph is a block of prose in README.md, CHANGELOG.md, docs/ or the README of a folder. Headings, tables, drawings
and code are not drawn. A comment is a block of consecutive comment lines, or a Python docstring, with at least six
words. License lines and instructions to tools are not drawn.
"""

from __future__ import annotations

import argparse
import ast
import io
import random
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FEWEST_WORDS = 6
WORD = re.compile(r"[A-Za-z]{2,}|\b[aAI]\b")
LIST_ITEM = re.compile(r"\s*([-*]|\d+\.)\s+")
FOR_TOOLS = re.compile(
    r"SPDX-|NOLINT|clang-format|shellcheck|noqa|type: ignore|pragma:|^!|ruff:|mypy:|-\*- coding", re.IGNORECASE
)
# The pattern matches string and character literals first, so that "//" inside a literal does not count as a comment.
CPP_TOKEN = re.compile(
    r"""(?P<literal>R"(?P<mark>[^()\\\s]*)\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')"""
    r"""|(?P<line>//[^\n]*)|(?P<block>/\*.*?\*/)""",
    re.DOTALL,
)
CPP_SUFFIXES = {".cpp", ".hpp", ".h", ".c", ".cc"}
HASH_SUFFIXES = {".cmake", ".sh", ".bash"}


@dataclass(frozen=True)
class Text:
    file: str
    line: int
    words: str


@dataclass(frozen=True)
class CommentLine:
    line: int
    words: str
    column: int
    stands_alone: bool  # whether the line has no code before the comment


def count_words(text: str) -> int:
    return len(WORD.findall(text))


def paragraphs_of(file: str, text: str) -> Iterator[Text]:
    """Returns the paragraphs and list items of a page in Markdown."""
    block: list[str] = []
    begin = 0
    in_code = False

    def ended() -> Iterator[Text]:
        words = " ".join(line.strip() for line in block)
        block.clear()
        if count_words(words) >= FEWEST_WORDS:
            yield Text(file, begin, words)

    for number, line in enumerate(text.splitlines(), start=1):
        is_fence = line.lstrip().startswith("```")
        is_prose = bool(line.strip()) and not line.lstrip().startswith(("#", "|", "<", "!["))
        if is_fence or in_code or not is_prose or LIST_ITEM.match(line):
            yield from ended()
        in_code = in_code != is_fence
        is_indented_code = line.startswith("    ") and not block and not LIST_ITEM.match(line)
        if is_prose and not in_code and not is_fence and not is_indented_code:
            begin = begin if block else number
            block.append(line)
    yield from ended()


def comment_lines_of_cpp(text: str) -> Iterator[CommentLine]:
    for token in CPP_TOKEN.finditer(text):
        if token["literal"] is not None:
            continue
        first = text.count("\n", 0, token.start()) + 1
        before = text[text.rfind("\n", 0, token.start()) + 1 : token.start()]
        for offset, line in enumerate(token.group().splitlines()):
            words = re.sub(r"^\s*(///?<?|/\*+[!<]?|\*(?!/))|\*/$", "", line).strip()
            yield CommentLine(first + offset, words, len(before), not before.strip() or offset > 0)


def comment_lines_of_hash(text: str) -> Iterator[CommentLine]:
    """Returns the comments of CMake and shell scripts, except comments after code, because a '#' after code may belong
    to the code."""
    for number, line in enumerate(text.splitlines(), start=1):
        bare = line.lstrip()
        if bare.startswith("#"):
            words = bare if bare.startswith("#!") else bare.lstrip("#").strip()
            yield CommentLine(number, words, len(line) - len(bare), True)


def comment_lines_of_python(text: str) -> Iterator[CommentLine]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            line, column = token.start
            words = token.string if token.string.startswith("#!") else token.string.lstrip("#:").strip()
            yield CommentLine(line, words, column, not token.line[:column].strip())


def docstrings_of(file: str, text: str) -> Iterator[Text]:
    """Returns one text for each paragraph of a docstring, without the examples."""
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        words = ast.get_docstring(node)
        if words is not None:
            first = node.body[0].lineno
            yield from (Text(file, first + p.line - 1, p.words) for p in paragraphs_of(file, words))


def joined(file: str, lines: Iterator[CommentLine]) -> Iterator[Text]:
    """Joins consecutive comment lines in the same column into one text. An empty comment line ends the text."""
    block: list[CommentLine] = []

    def ended() -> Iterator[Text]:
        words = " ".join(line.words for line in block if not FOR_TOOLS.search(line.words)).strip()
        if block and count_words(words) >= FEWEST_WORDS:
            yield Text(file, block[0].line, words)
        block.clear()

    for line in lines:
        follows = bool(block) and line.line == block[-1].line + 1 and line.column == block[-1].column
        if not (follows and line.stands_alone and line.words):
            yield from ended()
        block.append(line)
    yield from ended()


def comments_of(file: str, text: str) -> Iterator[Text]:
    path = Path(file)
    if path.suffix in CPP_SUFFIXES:
        yield from joined(file, comment_lines_of_cpp(text))
    elif path.suffix in {".py", ".pyi"} or text.startswith("#!/usr/bin/env python"):
        yield from joined(file, comment_lines_of_python(text))
        yield from docstrings_of(file, text)
    elif path.suffix in HASH_SUFFIXES or path.name == "CMakeLists.txt" or re.match(r"#!.*\b(ba)?sh\b", text):
        yield from joined(file, comment_lines_of_hash(text))


def is_page(file: str) -> bool:
    return file.endswith(".md") and (file.startswith("docs/") or Path(file).name in {"README.md", "CHANGELOG.md"})


def texts_of_tree(root: Path) -> tuple[list[Text], list[Text]]:
    """Returns all paragraphs and all comments of git's files, in a fixed order."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=root, check=True, capture_output=True, text=True).stdout
    paragraphs: list[Text] = []
    comments: list[Text] = []
    for file in sorted(filter(None, listed.split("\0"))):
        try:
            text = (root / file).read_text(encoding="utf-8")
        except (UnicodeDecodeError, FileNotFoundError, IsADirectoryError):
            continue  # the file is not a text file, or is not in the working tree
        if is_page(file):
            paragraphs.extend(paragraphs_of(file, text))
        else:
            comments.extend(comments_of(file, text))
    return paragraphs, comments


def main() -> int:
    parser = argparse.ArgumentParser(description="Draws random paragraphs and comments for a reading test.")
    parser.add_argument("--seed", type=int, help="draws the same texts again; a random one by default")
    parser.add_argument("--paragraphs", type=int, default=40)
    parser.add_argument("--comments", type=int, default=100)
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else random.randrange(1_000_000)
    paragraphs, comments = texts_of_tree(Path(__file__).resolve().parents[2])
    chance = random.Random(seed)
    drawn = chance.sample(paragraphs, min(options.paragraphs, len(paragraphs)))
    drawn += chance.sample(comments, min(options.comments, len(comments)))
    print(
        f"seed {seed}: {min(options.paragraphs, len(paragraphs))} of {len(paragraphs)} paragraphs, "
        f"{min(options.comments, len(comments))} of {len(comments)} comments"
    )
    for number, text in enumerate(drawn, start=1):
        print(f"\n{number}. {text.file}:{text.line}\n   {text.words}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
