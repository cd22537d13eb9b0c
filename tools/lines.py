"""Count the lines of code of a source tree, room by room: no blanks, comments or docstrings.

    python tools/lines.py              # src/separatrix, one row per room
    python tools/lines.py --files      # and one row per file
    python tools/lines.py tests benchmarks

A room is a folder directly under the root; files at the root count as the room ".".
"""

from __future__ import annotations

import argparse
import ast
import io
import tokenize
from collections import defaultdict
from pathlib import Path

# tokens that a line may consist of without being code
LAYOUT = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
    tokenize.ENCODING, tokenize.ENDMARKER,
}  # fmt: skip


def code_lines(source: str) -> int:
    """The number of lines that hold code.

    A statement over three lines counts three, a string that is not a docstring counts its lines.

    >>> code_lines('"A docstring."' + chr(10) + 'x = 1  # a comment' + chr(10) * 3)
    1
    """
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in LAYOUT:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - _docstring_lines(source))


def _docstring_lines(source: str) -> set[int]:
    lines: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if ast.get_docstring(node, clean=False) is not None:
            docstring = node.body[0]
            lines.update(range(docstring.lineno, (docstring.end_lineno or docstring.lineno) + 1))
    return lines


def count(root: Path) -> dict[str, dict[str, int]]:
    """Lines of code by room and file: ``{"core": {"counts.py": 210, ...}, ...}``."""
    rooms: dict[str, dict[str, int]] = defaultdict(dict)
    for path in sorted(root.rglob("*.py")):
        inner = path.relative_to(root)
        room = inner.parts[0] if len(inner.parts) > 1 else "."
        rooms[room][inner.as_posix()] = code_lines(path.read_text(encoding="utf-8"))
    return dict(rooms)


def table(rooms: dict[str, dict[str, int]], files: bool = False) -> str:
    """Rooms with their number of files, lines, and longest file, largest room first."""
    rows = [f"{'room':<28}{'files':>7}{'lines':>9}  longest file"]
    for room, found in sorted(rooms.items(), key=lambda item: -sum(item[1].values())):
        longest = max(found, key=lambda name: found[name])
        rows.append(f"{room:<28}{len(found):>7,}{sum(found.values()):>9,}  {longest} ({found[longest]:,})")
        if files:
            rows += [f"    {name:<31}{lines:>9,}" for name, lines in found.items()]
    n_files = sum(len(found) for found in rooms.values())
    n_lines = sum(sum(found.values()) for found in rooms.values())
    return "\n".join([*rows, f"{'all':<28}{n_files:>7,}{n_lines:>9,}"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("root", nargs="*", type=Path, default=[Path("src/separatrix")])
    parser.add_argument("--files", action="store_true", help="one row per file as well")
    options = parser.parse_args()
    for root in options.root:
        print(f"{root}\n{table(count(root), options.files)}\n")


if __name__ == "__main__":
    main()
