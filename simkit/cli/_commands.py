"""Commands beside runs: reports, checks, lists, and files to start from."""

import argparse
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ._answer import answer, say_of
from ._environment import set_devices, set_jax
from ._files import check_free
from ._options import chosen_models


def report(options: argparse.Namespace) -> int:
    from ..io import load
    from ..report import write_report
    from ..sweeps import open as open_sweep

    set_jax(x64=True, cache=True)
    if options.file.is_dir():
        path, results = options.out or options.file / "report.html", open_sweep(options.file)
        models = chosen_models(options) if options.models else None
    else:
        path, results = options.out or options.file.parent / "report.html", load(options.file)
        models = _models_of(options, results.provenance)
    check_free(path, options.overwrite, "with --out")
    files = write_report(results, path, models=models, interactive=options.interactive)
    answer(options, "\n".join(map(str, files)), files=files)
    return 0


def reproduce(options: argparse.Namespace) -> int:
    from .._errors import ArgumentError
    from ..io import load, load_provenance
    from ..study import study_from_provenance
    from ..study.runs import Found, assimilate_study, average_particles, changes, comparisons, compute

    made = load_provenance(options.file)
    if not made.study:
        raise ArgumentError(f"`{options.file}` was not made from a study file, so it cannot be run again from here.")
    # The same number of devices and the same float type give the same program, and so the same bits.
    set_devices(made.devices)
    set_jax(x64=made.float_type == "float64" and not options.float32, cache=not options.no_cache)
    results = load(options.file)
    study = study_from_provenance(made, models=_models_of(options, made))
    say = say_of(options)
    say(f"{study.title}, made {made.date} with seed {made.seed}")
    parts = {
        "fit": results.fit if results.field_fit is None else results.field_fit,
        "sample": results.posterior,
        "predict": results.prediction,
        "profile": results.profiles,
    }
    if results.averages is not None:
        found = Found()
        found.averages = average_particles(study, found, say=say)
    elif results.assimilation is not None:
        found = Found()
        # A store cuts the work into the same parts as that of the first run, which rounding depends on.
        with tempfile.TemporaryDirectory() as store:
            found.assimilation = assimilate_study(study, seed=made.seed, store=Path(store))
    else:
        phases = [phase for phase, part in parts.items() if part is not None]
        # A store cuts the work into the same parts as that of the first run, which rounding depends on.
        with tempfile.TemporaryDirectory() as store:
            found = compute(study, phases, seed=made.seed, say=say, store=Path(store))
    changed, rows = changes(results), comparisons(results, found)
    lines = [f"  {line}" for line in changed]
    lines += [f"{row.part:<11} {row.verdict}" + (f": {row.text}" if row.text else "") for row in rows]
    compared = [{"part": row.part, "verdict": row.verdict, "text": row.text} for row in rows]
    answer(options, "\n".join(lines), file=options.file, changes=changed, comparisons=compared)
    return 1 if any(row.verdict == "different" for row in rows) else 0


def runs(options: argparse.Namespace) -> int:
    from ._list_runs import runs

    set_jax(x64=True, cache=False)
    return runs(options)


def progress(options: argparse.Namespace) -> int:
    from ._progress import progress

    return progress(options)


def check(options: argparse.Namespace) -> int:
    from ..study import load_study
    from ..study.runs import check_study

    set_jax(x64=True, cache=False)
    study = load_study(options.study, allow_outside=options.allow_outside, models=chosen_models(options))
    lines = check_study(study)
    text = "\n".join([f"{options.study} is in order.", *(f"  {line}" for line in lines)])
    answer(options, text, study=options.study, **{line.split()[0]: line[10:] for line in lines})
    return 0


def schema(options: argparse.Namespace) -> int:
    from ..stores import write_text
    from ..study import study_schema

    text = json.dumps(study_schema(chosen_models(options)), indent=2)
    if options.out is None:
        print(text)
        return 0
    check_free(options.out, options.overwrite, "with --out")
    write_text(options.out, text + "\n")
    line = f"#:schema {options.out.resolve().as_uri()}"
    answer(options, f"{options.out}\nFirst line of a study, for editors: {line}", files=[options.out], first_line=line)
    return 0


def explain(options: argparse.Namespace) -> int:
    from ..stores import write_text
    from ..study import load_study
    from ..study.runs import explain_study

    set_devices()
    set_jax(x64=not options.float32, cache=False)  # compiled programs from disk would hide what compiling costs
    models = chosen_models(options)
    found = explain_study(load_study(options.study, allow_outside=options.allow_outside, models=models))
    print(found.to_json() if options.json else found)
    if options.svg is not None:
        write_text(options.svg, found.svg())
    return 0


def export(options: argparse.Namespace) -> int:
    from .._errors import ArgumentError
    from ..networks import EquationSystem, equations_source
    from ..stores import write_text
    from ..study import load_study, written_events

    set_jax(x64=True, cache=False)
    study = load_study(options.study, allow_outside=options.allow_outside, models=chosen_models(options))
    if options.tesseract:
        from ._tesseract import write_tesseract

        return write_tesseract(study, options.file, options)
    if not isinstance(study.system, EquationSystem):
        raise ArgumentError(
            f"`{options.study}` must have a table [system.equations] to be exported, but names a model."
        )
    if options.file.suffix not in (".py", ".xml", ".sbml"):
        raise ArgumentError(f"`{options.file}` must be a file NAME.py, or NAME.xml for SBML.")
    events = written_events(study.events)
    check_free(options.file, options.overwrite, "name")
    start = study.y0 if study.y0 is not None else dict.fromkeys([name for name, _ in study.system.equations.rates], 1.0)
    if options.file.suffix == ".py":
        times = study.simulation_times if study.experiments else None
        text = equations_source(study.system, start, times, study.inputs, events=events)
    else:
        from ..petab import equations_sbml

        text = equations_sbml(study.system, start, study.inputs, events=events)
    write_text(options.file, text)
    answer(options, str(options.file), files=[options.file])
    return 0


def replay(options: argparse.Namespace) -> int:
    from ._replay import model_of, replay

    set_devices()
    set_jax(x64=not options.float32, cache=not options.no_cache)
    model = model_of(options.model, models=chosen_models(options), allow_outside=options.allow_outside)
    text, content = replay(options.file, model, debug=options.debug)
    answer(options, text, file=options.file, **content)
    return 0


def models(options: argparse.Namespace) -> int:
    from ._show import describe_model, list_models, model_content, model_lines

    known = chosen_models(options)
    if options.model is None:
        answer(options, list_models(known), models=model_lines(known))
    else:
        content = model_content(options.model, known) if options.json else {}  # each runs the model's example
        answer(options, "" if options.json else describe_model(options.model, known), **content)
    return 0


def examples(options: argparse.Namespace) -> int:
    from ._examples import copy_example, example_titles, list_examples, next_steps

    if options.example is None:
        answer(options, list_examples(), examples=example_titles())
        return 0
    copied = copy_example(options.example, options.into, overwrite=options.overwrite)
    _written(options, copied, "Next:", next_steps(copied[0]))
    return 0


def doctor(options: argparse.Namespace) -> int:
    from ._doctor import examine

    set_jax(x64=not options.float32, cache=not options.no_cache)
    lines = examine()
    width = max(len(line.name) for line in lines)
    faults = [line for line in lines if line.fault]
    told = [f"  {line.name:<{width}}  {line.text}" for line in lines]
    told += [f"To do: {line.fault}   ({line.name})" for line in faults] or ["All is well."]
    answer(options, "\n".join(told), lines=lines, well=not faults)
    return 1 if faults else 0


def completion(options: argparse.Namespace) -> int:
    from ._completion import completion_of

    text = completion_of(options.shell, options.parser)
    answer(options, text, shell=options.shell, script=text)
    return 0


def _written(options: argparse.Namespace, files: Sequence[Path], head: str, steps: Sequence[str]) -> None:
    """Print the files that were written and what to do next."""
    text = "\n".join([*map(str, files), "\n  ".join([head, *steps])])
    answer(options, text, files=files, next=steps)


def new(options: argparse.Namespace) -> int:
    from ._new import write_new_package, write_new_study, write_study_of_data

    if options.package is not None:
        folder, files = write_new_package(options.package, options.overwrite)
        _written(
            options, files, "Next:", [f"cd {folder}", 'pip install -e ".[test]"', "pytest", "simkit run study.toml"]
        )
        return 0
    path: Path = options.file
    if options.data is not None:
        named = {"time": options.time, "subject": options.subject, "inputs": options.input}
        write_study_of_data(path, options.data, options.overwrite, **named)
        steps = [f"simkit check {path}", f"simkit run {path}"]
        text = "\n  ".join([f"Wrote {path} from the columns of {options.data}.\nNext:", *steps])
        answer(options, text, files=[path], next=steps)
        return 0
    write_new_study(path, options.overwrite)
    answer(options, f"Wrote {path}. It runs as it stands: simkit run {path}", files=[path], next=[f"simkit run {path}"])
    return 0


def _models_of(options: argparse.Namespace, made: Any) -> Any:
    """The models of a result file: those of `--models`, or with `--kept-models` those whose text the file keeps."""
    from .._errors import ArgumentError
    from ..stores import PythonFile
    from ..study import load_models, models_of

    if options.models and getattr(options, "kept_models", False):
        raise ArgumentError("Options --models and --kept-models name two sources of the models. Give one of them.")
    if options.models:
        models = load_models(*options.models)
        for name, text in models.sources.items():
            if made.models.get(name) != text:
                kept = f"SHA-256 {made.models_sha256[name][:12]}" if name in made.models else "no such file"
                say_of(options)(
                    f"  `{name}` is not that of the result, which keeps {kept}: the code of the file at hand is used."
                )
        return models
    if not made.models or options.name == "report":
        return None
    names = ", ".join(f"`{name}`" for name in made.models)
    if not options.kept_models:
        raise ArgumentError(
            f"`{options.file}` was made with own models, and keeps the code of {names}. It must be allowed to run: write "
            "--kept-models if you trust the file, or --models FILE.py to use a file of yours."
        )
    for name, text in made.models.items():
        at_hand = Path(name)
        if at_hand.is_file() and at_hand.read_text(encoding="utf-8", errors="replace") != text:
            say_of(options)(f"  `{name}` in this folder differs from the kept code, which is used.")
    return models_of([PythonFile(name, text) for name, text in made.models.items()])
