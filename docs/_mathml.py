"""Formulas as MathML, which browsers draw themselves: the site loads nothing from elsewhere."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from docutils.utils.math import MathError, latex2mathml
from sphinx.util import logging

_log = logging.getLogger(__name__)


def setup(app: Any) -> None:
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))


def _inline(writer: Any, node: nodes.Element) -> None:
    writer.body.append(_markup(node, block=False))
    raise nodes.SkipNode


def _block(writer: Any, node: nodes.Element) -> None:
    writer.body.append(f'<div class="formula">{_markup(node, block=True)}</div>')
    raise nodes.SkipNode


def _markup(node: nodes.Element, block: bool) -> str:
    try:
        return latex2mathml.tex2mathml(node.astext(), as_block=block)
    except MathError as error:
        _log.warning("formula %r: %s", node.astext(), error, location=node)
        return ""
