"""report: one page that holds everything, in one file."""

import base64
import html
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from .._errors import SimkitError
from ..core import System
from ..infer import Check, check
from ..io import Results
from ..md import Particles
from ..md import parts as potential_terms
from ..networks import EquationSystem, equations_html
from ..stores import write_text
from ..study import Study
from ..sweeps import Sweep
from ._assimilated import assimilation_rows
from ._equation import describe_model, inline
from ._fields import HEADS, field_cells, field_sentence
from ._figures import Picture, pictures, study_of
from ._live import POLICY, live_part, scripts
from ._methods import methods_section
from ._page import PAGE
from ._provenance import provenance_section
from ._result_cells import average_cells, optimum_cells, parameter_rows, table_cells
from ._simulated import system_rows
from ._sparse import problem_of, sparse_section, sparse_sentence
from ._sweep import study_of_sweep, sweep_method, sweep_provenance, sweep_sections
from ._tables import as_table
from ._verdict import verdict_section

SECTION = re.compile(r'^<section><h2 id="([^"]*)">(.*?)</h2>')


def report(
    results: Results | Sweep, *, models: Mapping[str, type[System]] | None = None, interactive: bool = False
) -> str:
    """The report of a result file or a sweep as one HTML page that needs nothing else: styles and pictures are inside.

    **Arguments:**

    - `results`: of `simkit.load`, or a sweep of `simkit.sweeps.open`.
    - `models`: those of the user's own files that the study names, from `simkit.study.load_models`; without them the report of
        such a study has no figures of the model.
    - `interactive`: figures show values where the mouse is, and zoom. Plotly's program, 5 MB, is then inside the page.

    **Raises:** a `MissingPackageError` for `interactive` where Plotly is missing.

    ```python
    import simkit
    from simkit.report import report
    system, y0, times, _ = simkit.odes.LotkaVolterra.example()
    simkit.save("lynx.h5", trajectory=simkit.simulate(system, y0, times))
    page = report(simkit.load("lynx.h5"))
    ```
    """
    return _drawn(results, models, interactive)[0]


def write_report(
    results: Results | Sweep,
    path: str | Path,
    *,
    models: Mapping[str, type[System]] | None = None,
    interactive: bool = False,
) -> list[Path]:
    """Write the report to `path`, and its figures into a folder `figures` beside it; arguments are those of `report`.

    **Returns:** the paths of all files written, the report's first.
    """
    path = Path(path)
    page, found = _drawn(results, models, interactive)
    write_text(path, page)
    written = [path]
    for picture in found:
        file = path.parent / "figures" / f"{picture.name}.{'svg' if picture.png is None else 'png'}"
        write_text(file, picture.svg if picture.svg is not None else picture.png or b"")
        written.append(file)
    return written


def _drawn(
    results: Results | Sweep, models: Mapping[str, type[System]] | None, interactive: bool
) -> tuple[str, list[Picture]]:
    """The page and its figures."""
    if isinstance(results, Sweep):
        return _swept(results, study_of_sweep(results, models), interactive)
    study = study_of(results, models)
    checked, reason = checked_of(results, study)
    found = pictures(results, study, checked, interactive=interactive)
    return _page(results, study, checked, reason, found), found


def _swept(sweep: Sweep, study: Study | None, interactive: bool) -> tuple[str, list[Picture]]:
    """The page of a sweep."""
    title = f"{study.title}: a sweep" if study is not None else f"Sweep {sweep.store.name}"
    question = f'<p class="question">{html.escape(study.question)}</p>' if study is not None and study.question else ""
    sections, found = sweep_sections(sweep, study, interactive=interactive)
    over = ", ".join(sweep.values)
    parts = [f"<h1>{html.escape(title)}</h1>", question]
    parts.append(f"<p>{html.escape(f'{sweep.members} members differ in {over}.')}</p>")
    parts += [_section(heading, body) for heading, body in sections]
    parts.append(_section("Figures", "\n".join(map(_figure, found))))
    if study is not None:
        parts.append(_section(f"Model: {study.model}", _model(study.system)))
    parts.append(_section("Method", sweep_method(sweep, study)))
    parts.append(_section("Provenance", sweep_provenance(sweep, study)))
    return _assembled(title, parts, found), found


def _page(results: Results, study: Study | None, checked: Check | None, reason: str, found: Sequence[Picture]) -> str:
    title = study.title if study is not None else results.path.stem
    parts = [f"<h1>{html.escape(title)}</h1>"]
    if study is not None and study.question:
        parts.append(f'<p class="question">{html.escape(study.question)}</p>')
    parts.append(_summary(results))
    parts.append(_section("Can it be believed?", verdict_section(results, study, checked, reason)))
    numbers = _table(results)
    if not numbers and study is not None:
        numbers = as_table(("parameter", "value", "unit"), system_rows(study))
    parts.append(_section("Parameters", numbers))
    found_states = results.assimilation
    parts.append(_section("Assimilation", "" if found_states is None else assimilation_rows(found_states)))
    parts.append(
        _section("Which unknowns act?", "" if results.sparse_fit is None else sparse_section(results.sparse_fit))
    )
    parts.append(_section("Distinct optima", _optima(results)))
    parts.append(_section("Averages", _averages(results)))
    by_name = {picture.name: picture for picture in found}
    drawn = _figure(by_name["check"]) if "check" in by_name else ""
    parts.append(_section("Does the model fit?", "" if checked is None else _checked(checked, drawn)))
    for heading, names in (
        ("Data and model", ("fit", "trajectory", "assimilation")),
        ("Population", ("individuals", "predictive_check", "npde")),
        ("Fields", ("unknown_fields", "fields")),
        ("Over time", ("outputs",)),
        ("Structure and motion", ("radial_distribution", "displacement")),
        ("Posterior distribution", ("corner", "trace", "ranks")),
        ("Optimum", ("waterfall", "parameters", "profiles", "correlation")),
    ):
        drawn = [_figure(picture) for name in names for picture in found if picture.kind == name]
        parts.append(_section(heading, "\n".join(drawn)))
    parts.append(_section("Events", _events(results)))
    if study is not None:
        parts.append(_section(f"Model: {study.model}", _model(study.system)))
        parts.append(_section("Method", methods_section(study, results)))
    parts.append(_section("Provenance", provenance_section(results.provenance, _again(results))))
    return _assembled(title, parts, found)


def _assembled(title: str, parts: list[str], found: Sequence[Picture]) -> str:
    """The page of its parts, with contents before the first section, and scripts where a figure needs them."""
    head = next((i for i, part in enumerate(parts) if part.startswith("<section")), len(parts))
    parts.insert(head, _contents(parts))
    live = any(picture.live is not None for picture in found)
    frame = {"policy": POLICY if live else "", "scripts": scripts() if live else ""}
    return PAGE.format(title=html.escape(title), body="\n".join(part for part in parts if part), **frame)


def _contents(parts: Sequence[str]) -> str:
    """Links to the sections, where there are several."""
    heads = [found for part in parts for found in SECTION.findall(part)]
    links = "\n".join(f'<a href="#{name}">{text}</a>' for name, text in heads)
    return f'<nav aria-label="Contents">\n{links}\n</nav>' if len(heads) > 2 else ""


def _events(results: Results) -> str:
    """A sentence for each kind of event of a trajectory."""
    if results.trajectory is None or results.trajectory.events is None:
        return ""
    return f"<ul>{''.join(f'<li>{html.escape(text)}</li>' for text in results.trajectory.events.told())}</ul>"


def _model(system: object) -> str:
    """The model's description; of particles those of their potential and dynamics, of equations as text the equations."""
    if isinstance(system, EquationSystem):
        return equations_html(system.equations)
    if not isinstance(system, Particles):
        return describe_model(system)
    described = [*potential_terms(system.potential), system.dynamics]
    return "\n".join(f"<h3>{html.escape(type(part).__name__)}</h3>\n{describe_model(part)}" for part in described)


def _section(heading: str, body: str) -> str:
    name = re.sub(r"[^a-z0-9]+", "-", heading.lower()).strip("-")
    return f'<section><h2 id="{name}">{html.escape(heading)}</h2>\n{body}\n</section>' if body else ""


def _summary(results: Results) -> str:
    sentences = []
    fit, posterior = results.fit, results.posterior
    if fit is not None:
        sentences.append(
            f"{len(fit.names)} unknowns were fitted to {int(fit.data_count)} data from {len(fit.objective)} starts, of which "
            f"{int(fit.agreeing())} agree on the best optimum (log likelihood {float(fit.log_likelihood):.4g}, "
            f"AIC {float(fit.aic):.4g}, BIC {float(fit.bic):.4g})."
        )
    if posterior is not None:
        chains, draws, _ = posterior.draws.shape
        divergent = int(np.sum(np.asarray(posterior.diverging)))
        sentences.append(
            f"{html.escape(posterior.method)} drew {chains} chains of {draws} draws from the posterior; {divergent} diverged."
        )
    if results.sparse_fit is not None:
        sentences.append(html.escape(sparse_sentence(results.sparse_fit)))
    if results.field_fit is not None:
        sentences.append(html.escape(field_sentence(results.field_fit)))
    if results.averages is not None:
        kept = results.averages.kept
        sentences.append(
            f"Averages are over {int(kept.sum())} of {len(kept)} saved times, from {results.averages.after:g} on, with standard "
            "errors by blocks that are longer than what the series remember."
        )
    return f"<p>{' '.join(sentences)}</p>" if sentences else ""


def checked_of(results: Results, study: Study | None) -> tuple[Check | None, str]:
    """Tests of the fitted model, None where there is no fit or no problem to test; and the reason why they could not be made."""
    result = results.fit if results.posterior is None else results.posterior
    if study is None or result is None or results.observed is None:
        return None, ""
    try:
        return check(problem_of(study, results), result), ""
    except SimkitError as error:
        return None, str(error)


def _checked(checked: Check, drawn: str) -> str:
    """The verdict, the figure, the table of tests and the data that matter most."""
    notes = "".join(f"<li>{inline(note)}</li>" for note in checked.notes())
    heads, cells = checked.cells()
    return f"<p>{html.escape(checked.verdict)}</p>\n{drawn}\n{as_table(heads, cells)}\n<ul>{notes}</ul>"


def _table(results: Results) -> str:
    if results.field_fit is not None:
        return as_table(HEADS, field_cells(results.field_fit))
    rows = parameter_rows(results.fit, results.posterior)
    if not rows:
        return ""
    return as_table(*table_cells(rows))


def _optima(results: Results) -> str:
    if results.fit is None:
        return ""
    heads, lines = optimum_cells(results.fit)
    about = "Where starts ended, each with the part of the posterior around it by Laplace's approximation."
    return f"<p>{about}</p>{as_table(heads, lines)}" if lines else ""


def _averages(results: Results) -> str:
    return "" if results.averages is None else as_table(*average_cells(results.averages))


def _figure(picture: Picture) -> str:
    if picture.png is None:
        kind, content = "svg+xml", (picture.svg or "").encode()
    else:
        kind, content = "png", picture.png
    source = f"data:image/{kind};base64,{base64.b64encode(content).decode()}"
    caption = html.escape(picture.caption)
    kind, plot = (' class="live"', live_part(picture.live, picture.caption)) if picture.live is not None else ("", "")
    image = f'<div class="scroll" tabindex="0" role="region" aria-label="{caption}"><img alt="{caption}" src="{source}"></div>'
    return f"<figure{kind}>{image}{plot}<figcaption>{caption}</figcaption></figure>"


def _again(results: Results) -> str:
    """The command that runs a result file again; nothing where it was not made from a study."""
    if not results.provenance.study:
        return ""
    command = (
        f"simkit reproduce {shlex.quote(results.path.name)}{' --kept-models' if results.provenance.models else ''}"
    )
    about = "The result file holds the study and its data. To run it again and compare:"
    return f"<p>{about} <code>{html.escape(command)}</code></p>"
