"""Sphinx's configuration, used in the folder that assemble.py fills."""

from collections import defaultdict
from typing import Any

from sphinx.util.nodes import make_refnode

import spdl

project = "SPDL"
author = "The SPDL developers"
version = release = spdl.__version__

# Weighed: MkDocs Material, whose makers have ended its development, and which has no references into docstrings of its
# own. Sphinx has them, MyST lets the pages stay the Markdown that they are, and Furo is plain, light and dark, and used
# by pip and many others.
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode", "sphinx_copybutton"]
html_theme = "furo"
html_title = "SPDL"
html_show_copyright = False
html_static_path = ["_static"]
html_css_files = ["narrow.css"]
suppress_warnings = ["myst.header"]  # a few pages begin below their first heading
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]

autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_class_signature = "mixed"
python_maximum_signature_line_length = 88
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
toc_object_entries = False


def resolve(app: Any, env: Any, node: Any, content: Any) -> Any:
    """Find ``Pipeline.stop``, and names of private modules, of docstrings and signatures among the public names."""
    if node.get("refdomain") != "py":
        return None
    domain = env.get_domain("py")
    if not hasattr(env, "spdl_places"):
        env.spdl_places = defaultdict(list)
        for name, place in domain.objects.items():
            parts = name.split(".")
            for length in (1, 2):
                env.spdl_places[".".join(parts[-length:])].append((name, place))
    parts = node["reftarget"].split(".")
    for length in (2, 1):
        found = env.spdl_places.get(".".join(parts[-length:]), [])
        if len(parts) >= length and len({place.node_id for _, place in found}) == 1:
            name, place = found[0]
            return make_refnode(app.builder, node["refdoc"], place.docname, place.node_id, content, name)
    return None


def setup(app: Any) -> None:
    app.connect("missing-reference", resolve)
