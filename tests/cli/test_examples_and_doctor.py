"""Examples are listed and copied with what they read; the doctor sees what is there."""

import importlib.metadata
import json

import pytest

from simkit import ArgumentError, UnknownNameError, load_study, petab
from simkit.cli import main
from simkit.cli._doctor import gpu_package, nvidia_driver
from simkit.cli._examples import copy_example, list_examples, next_steps


def test_a_study_is_copied_with_its_data_and_loads(tmp_path):
    study, data = copy_example("lynx_hare.toml", tmp_path)
    assert study == tmp_path / "lynx_hare.toml"
    assert data == tmp_path / "data" / "hudson_bay.csv"
    assert load_study(study).title == "Hudson Bay lynx and hare"
    assert "simkit run lynx_hare.toml" in study.read_text()


def test_a_notebook_reads_the_data_beside_it(tmp_path):
    notebook, data = copy_example("lynx_hare.ipynb", tmp_path / "new")
    source = "".join("".join(cell["source"]) for cell in json.loads(notebook.read_text())["cells"])
    assert '"data/hudson_bay.csv"' in source
    assert data.exists()


def test_a_data_set_that_is_a_folder_comes_whole(tmp_path):
    copy_example("signalling_pathway.ipynb", tmp_path)
    read = petab.load(tmp_path / "data/petab/Boehm_JProteomeRes2014/Boehm_JProteomeRes2014.yaml")
    assert len(read.problem.names) == 9


def test_the_next_step_is_one_that_works(tmp_path):
    def steps(name):
        return next_steps(copy_example(name, tmp_path)[0])

    assert steps("influenza_1978.toml") == [f"simkit run {tmp_path / 'influenza_1978.toml'}"]
    assert steps("epidemics_sweep") == [f"simkit sweep {tmp_path / 'epidemics_sweep.toml'}"]
    first, *_, last = steps("million_epidemics")
    assert first == 'pip install "simkit[dask]"'
    assert last == f"jupyter lab {tmp_path / 'million_epidemics.ipynb'}"


def test_the_list_has_titles():
    lines = list_examples().splitlines()
    assert any(
        line.split(maxsplit=1) == ["influenza.toml", "Influenza in a boarding school (simulated counts)"]
        for line in lines
    )
    assert any(line.strip().startswith("lynx_hare.ipynb") and line.endswith("how sure are we?") for line in lines)


def test_bad_names(tmp_path):
    with pytest.raises(UnknownNameError, match="no example `lynx_bear`"):
        copy_example("lynx_bear", tmp_path)
    with pytest.raises(ArgumentError, match=r"`lynx_hare.ipynb`, `lynx_hare.toml`"):
        copy_example("lynx_hare", tmp_path)
    copy_example("kolmogorov", tmp_path)
    with pytest.raises(ArgumentError, match="exists already"):
        copy_example("kolmogorov", tmp_path)
    copy_example("kolmogorov", tmp_path, overwrite=True)


def test_the_doctor_is_content(capsys):
    assert main(["doctor", "--no-cache"]) == 0
    text = capsys.readouterr().out
    assert f"jax            {importlib.metadata.version('jax')}\n" in text
    assert "cpu" in text
    assert "0.3678794" in text
    assert "All is well." in text


def test_the_line_for_a_gpu_fits_the_driver():
    jax = importlib.metadata.version("jax")
    text = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.86.15  Thu Jan 23 03:40:18 UTC 2025\n"
    assert nvidia_driver(text) == "570.86.15"
    assert gpu_package("570.86.15") == f'"jax[cuda12]=={jax}"'
    open_modules = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build\n"
    assert nvidia_driver(open_modules) == "580.65.06"
    assert gpu_package("580.65.06") == f'"jax[cuda13]=={jax}"'
