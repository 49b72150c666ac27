"""Settings of the documentation, which ``make docs`` builds."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "src")]

from reign._version import __version__  # noqa: E402

project = "reign"
author = "the authors of reign"
copyright = author
release = version = __version__
language = "en"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "builder.mathml", "builder.extension"]
exclude_patterns = ["builder"]
html_math_renderer = "mathml"
html_theme = "furo"
html_title = f"reign {release}"
html_static_path = ["static"]
html_css_files, html_js_files = ["reign.css"], ["reign.js"]
html_copy_source = html_show_sourcelink = False
templates_path: list[str] = []

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
suppress_warnings: list[str] = []  # every warning is an error: none is hidden

napoleon_google_docstring, napoleon_numpy_docstring = True, False
napoleon_use_rtype, napoleon_use_ivar = False, True
napoleon_custom_sections = [("Options", "params_style")]
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 100
pygments_style, pygments_dark_style = "tango", "monokai"
