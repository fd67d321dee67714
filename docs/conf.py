"""Sphinx builds the site from the pages in this folder: ``python -m sphinx -W -b html docs build/site``."""

import re
import sys
from html import escape
from pathlib import Path
from textwrap import shorten

from docutils import nodes

sys.path[:0] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parent)]

from sphinx.util import logging  # noqa: E402

import bippo_rllib  # noqa: E402

project = "bippo-rllib"
author = "The bippo-rllib developers"
copyright = f"{author}, Apache-2.0"
version = release = bippo_rllib.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode", "sphinx_copybutton"]
source_suffix = {".md": "markdown"}

# Links to headings as GitHub writes them.
myst_heading_anchors = 3
highlight_language = "none"
smartquotes = False  # "--flag" stays as it is typed

autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
maximum_signature_line_length = 100
add_module_names = False
autodoc_member_order = "bysource"

html_theme = "furo"
html_title = f"bippo-rllib {release}"
html_theme_options = {"top_of_page_buttons": ["view"]}  # the page as it is written, which is beside it
html_static_path = ["static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_show_sphinx = False
html_search_scorer = str(Path(__file__).parent / "search_scorer.js")  # Sphinx opens it from where it runs


def setup(app):
    """Adds what Sphinx and Furo have no setting for."""
    app.connect("autodoc-process-signature", _with_values)
    app.connect("html-page-context", _describe)


def _describe(app, page, template, context, doctree):
    """Describes a page to search engines by its first paragraph."""
    if doctree is not None and (first := next(doctree.findall(nodes.paragraph), None)):
        description = escape(shorten(first.astext(), 200, placeholder=" ..."))
        context["metatags"] += f'<meta name="description" content="{description}">'


def _with_values(app, what, name, method, options, signature, return_annotation):
    """Shows the values that hold where an argument is left out, not RLlib's mark for that."""
    if not signature or "NotProvided" not in signature:
        return None
    from settings_page import defaults_of

    from bippo_rllib.baselines.central.config import CentralPPOConfig

    config = CentralPPOConfig() if "CentralPPOConfig" in name else bippo_rllib.BippoConfig()
    for parameter, value in defaults_of(method, config).items():
        signature = re.sub(rf"(\b{parameter}\b[^=]*=\s*)NotProvided", rf"\g<1>{value!r}", signature)
    if "NotProvided" in signature:
        logging.getLogger(__name__).warning("%s shows no default in %s", name, signature)
    return signature, return_annotation
