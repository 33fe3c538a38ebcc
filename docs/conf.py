"""How the site is built: pages by MyST, the reference from docstrings, nothing from a network."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_site"))

from farfield import __version__

project = "farfield"
author = "The farfield developers"
copyright = author  # noqa: A001 - Sphinx calls it so
release = version = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "house",
    "included",
    "layout",
    "names_in_prose",
    "opens_from_disk",
    "public_names",
    "types_in_signatures",
]
exclude_patterns = ["_site"]
html_theme = "furo"
html_title = f"farfield {__version__}"
html_static_path = ["_site/static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
smartquotes = False  # options begin with two hyphens

# Headings are addresses as on code hosts, and tables and lists are those of plain Markdown.
myst_heading_anchors = 4
myst_enable_extensions = ["deflist", "attrs_block"]

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_default_options = {"members": True}
autoclass_content = "class"
napoleon_numpy_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True
python_maximum_signature_line_length = 80
python_use_unqualified_type_names = True
add_module_names = True
# What docstrings write in single backquotes is code, as everywhere else.
default_role = "literal"
