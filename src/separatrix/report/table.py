"""A table of texts and numbers, for the terminal, CSV, Markdown, LaTeX and notebooks."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Table:
    """A table of texts and numbers that can be written in four ways.

    Args:
        title: one line above it.
        head: the names of the columns.
        rows: cells; a pair (mean, sd) is written mean ± sd, None as "–".

    >>> rows = (("apple", (150.0, 12.0)), ("a|b", None))
    >>> print(Table("Fruit", ("name", "grams"), rows).markdown())
    **Fruit**
    <BLANKLINE>
    | name | grams |
    |:--|--:|
    | apple | 150 ± 12 |
    | a\\|b | – |
    <BLANKLINE>
    """

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]

    def cells(self) -> list[list[str]]:
        """The rows as texts."""
        return [[_text(cell) for cell in row] for row in self.rows]

    def text(self, width: int | None = None) -> str:
        """For the terminal."""
        from rich.console import Console
        from rich.table import Table as Rich
        from rich.text import Text

        table = Rich(title=Text(self.title), title_justify="left", header_style="bold")
        for name, right in zip(self.head, self._numeric(), strict=True):
            table.add_column(Text(name), justify="right" if right else "left", overflow="fold")
        for row in self.cells():
            table.add_row(*(Text(cell) for cell in row))
        out = Console(file=io.StringIO(), width=width or 140)
        out.print(table)
        return str(out.file.getvalue())  # type: ignore[attr-defined]

    def lines(self, width: int) -> str:
        """Aligned columns without frames; a first column that has no room is shortened.

        >>> print(Table("Fruit", ("", "grams"), (("a long name", "150"), ("fig", None))).lines(14))
        Fruit
                 grams
        a long…    150
        fig          –
        """
        texts = [list(self.head), *self.cells()]
        widths = [max(len(row[i]) for row in texts) for i in range(len(self.head))]
        widths[0] = max(min(widths[0], width - sum(w + 2 for w in widths[1:])), 4)
        out = [self.title] if self.title else []
        for first, *others in texts:
            name = first if len(first) <= widths[0] else first[: widths[0] - 1] + "…"
            cells = [cell.rjust(w) for cell, w in zip(others, widths[1:], strict=True)]
            out.append("  ".join([name.ljust(widths[0]), *cells]).rstrip())
        return "\n".join(out)

    def html(self) -> str:
        """A plain table for a notebook, every text escaped."""
        from html import escape

        def row(cells: Sequence[str], tag: str) -> str:
            first, *rest = (f"{escape(cell)}</{tag}>" for cell in cells)
            right = "".join(f"<{tag} style='text-align:right'>{cell}" for cell in rest)
            return f"<tr><{tag} style='text-align:left'>{first}{right}</tr>"

        body = [row(list(self.head), "th"), *(row(cells, "td") for cells in self.cells())]
        return f"<table><caption>{escape(self.title)}</caption>{''.join(body)}</table>"

    def csv(self) -> str:
        """Comma-separated, full precision; a mean and its standard deviation are two columns."""
        pairs = [any(isinstance(row[i], tuple) for row in self.rows) for i in range(len(self.head))]
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        head = [(name, f"{name} sd") if pair else name for name, pair in zip(self.head, pairs, strict=True)]
        for row in (head, *self.rows):
            cells: list[Any] = []
            for cell, pair in zip(row, pairs, strict=True):
                single = [cell, None] if pair else [cell]
                cells += list(cell) if isinstance(cell, tuple) else single
            writer.writerow(["" if isinstance(c, float) and np.isnan(c) else c for c in cells])
        return out.getvalue()

    def markdown(self) -> str:
        """As GitHub renders it."""
        line = "|" + "|".join("--:" if right else ":--" for right in self._numeric()) + "|"
        texts = [list(self.head), *self.cells()]
        rows = ["| " + " | ".join(map(_escape_markdown, row)) + " |" for row in texts]
        return "\n".join([f"**{_escape_markdown(self.title)}**", "", rows[0], line, *rows[1:], ""])

    def latex(self) -> str:
        """A booktabs table."""
        places = "".join("r" if right else "l" for right in self._numeric())
        texts = [list(self.head), *self.cells()]
        rows = [" & ".join(map(_escape_latex, row)) + r" \\" for row in texts]
        body = [r"\toprule", rows[0], r"\midrule", *rows[1:], r"\bottomrule"]
        start = [r"\begin{table}", r"\centering", rf"\caption{{{_escape_latex(self.title)}}}"]
        start.append(rf"\begin{{tabular}}{{{places}}}")
        return "\n".join([*start, *body, r"\end{tabular}", r"\end{table}", ""])

    def _numeric(self) -> list[bool]:
        kinds = tuple | int | float | None
        columns = ([row[i] for row in self.rows] for i in range(len(self.head)))
        return [bool(column) and all(isinstance(cell, kinds) for cell in column) for column in columns]


def _text(cell: Any) -> str:
    if cell is None:
        return "–"
    if isinstance(cell, tuple):
        mean, sd = cell
        return _text(mean) if np.isnan(sd) else f"{_text(mean)} ± {sd:.2g}"
    if isinstance(cell, bool | int | str):
        return str(cell)
    return "–" if np.isnan(cell) else f"{cell:.4g}"


def _escape_markdown(text: str) -> str:
    return re.sub(r"([\\|<>*_`\[\]])", r"\\\1", text).replace("\n", " ")


_LATEX = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "±": r"$\pm$", "λ": r"$\lambda$", "–": "--", "≤": r"$\leq$",
}  # fmt: skip


def _escape_latex(text: str) -> str:
    return "".join(_LATEX.get(character, character) for character in text)
