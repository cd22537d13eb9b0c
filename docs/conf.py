"""The site: `make docs` builds it into docs/_build/html. Warnings are errors."""

from __future__ import annotations

import os
import sys
import tomllib
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import _mathml  # noqa: E402
import _reference  # noqa: E402

_project = tomllib.loads((HERE.parent / "pyproject.toml").read_text())["project"]
_code = _project["urls"]["Source"]

project = "separatrix"
author = "The separatrix maintainers"
copyright = "the separatrix maintainers, MIT"
release = version = _reference.VERSION

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build"]
myst_enable_extensions = ["attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
default_role = "code"  # docstrings say `names` as Markdown does
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the docstrings say what each argument may be
python_maximum_signature_line_length = 88
napoleon_use_ivar = True
# the gallery's settings hold a function
suppress_warnings = ["config.cache"]
highlight_language = "text"
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

sphinx_gallery_conf = {
    "examples_dirs": str(HERE.parent / "examples"),
    "gallery_dirs": "gallery",
    # those that need packages which the site does not install are shown, and run by the tests
    "filename_pattern": r"/(?!demo|lightning|hugging_face|service)\w+\.py$",
    "ignore_pattern": r"demo\.py$",
    "run_stale_examples": True,  # the package may have changed, if the example has not
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "capture_repr": ("_repr_html_",),  # what a program prints, not the last object
    "default_thumb_file": str(HERE / "_static" / "program.png"),  # of a program that prints and draws nothing
    "show_memory": False,
    "write_computation_times": False,
    "min_reported_time": 1_000,
    "show_signature": False,
    "remove_config_comments": True,
}

html_theme = "pydata_sphinx_theme"
html_title = "separatrix"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_context = {"default_mode": "auto"}
html_math_renderer = "mathml"
html_theme_options = {
    "logo": {"text": f"separatrix {version}"},
    "github_url": _code,
    "navbar_end": ["theme-switcher", "navbar-icon-links"],
    "navbar_align": "left",
    "header_links_before_dropdown": 8,
    "show_prev_next": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_sidebars = {"start": [], "index": [], "changelog": [], "paper": []}  # pages without a section

os.environ.setdefault("OMP_NUM_THREADS", "1")  # the gallery trains


def setup(app: object) -> None:
    _reference.write(HERE / "reference")
    _mathml.setup(app)
