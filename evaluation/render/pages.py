"""Pages from templates: one HTML file with everything in it, no network."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from pathlib import Path
from typing import Any

import jinja2

from ...datasets.atomic_files import write_text_atomically
from ...datasets.errors import BadInput
from .pictures import legend_line

TEMPLATE_ROOMS = ("evaluation.render", "recipes.reporting")
"""Packages with templates: those that every page is made of, and the pages of runs and experiments."""


@lru_cache(maxsize=1)
def environment() -> jinja2.Environment:
    """Templates of this folder, with escaping on and unknown names refused.

    Filters: ``thousands`` (12,345), ``share`` (0.123 -> 12.3 %), ``tojson_text``, ``message`` (a model's text without
    the tokens of the form ``<|...|>`` that end its turn).
    """
    made = jinja2.Environment(
        loader=jinja2.ChoiceLoader(
            [jinja2.PackageLoader(f"scisci_gym.{room}", package_path=".") for room in TEMPLATE_ROOMS]
        ),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["thousands"] = lambda value: f"{value:,}"
    made.filters["share"] = lambda value: f"{100 * value:.1f} %"
    # Unlike Jinja's `tojson`, which is for scripts and marks its result as safe: plain text, escaped like any other.
    made.filters["tojson_text"] = lambda value: json.dumps(value, ensure_ascii=False)
    made.filters["message"] = lambda text: re.sub(r"(\s*<\|\w+\|>)+\s*$", "", text)
    made.globals["legend_line"] = legend_line
    return made


GENERATOR = b'<meta name="generator" content="scisci-gym">'
"""What every page has in its head, and no file of another program."""


def render_page(template: str, out: str | Path, **context: Any) -> Path:
    """Render a template, such as ``"demo_report.html.j2"``, into the file `out` and return its path.

    Templates extend ``base.html.j2`` (style, light and dark scheme) and import ``parts.html.j2`` (tables, figures,
    episodes). Strings of the context, the names that a template uses, are escaped. The file is written aside and
    renamed, so that a browser never loads half a page. Raises `BadInput` if another file than a report stands there,
    and `jinja2.UndefinedError` if the template uses a name that `context` lacks.
    """
    if Path(out).exists() and GENERATOR not in Path(out).read_bytes():
        raise BadInput(f"{out} exists and is no report; choose another --out, or move it away")
    page = environment().get_template(template).render(**context)
    return write_text_atomically(out, page)
