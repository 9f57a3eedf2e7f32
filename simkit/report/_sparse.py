"""Sparse fits in reports: the models that were met, the chosen one, and the problem that is left of a study."""

from ..fitting import SparseFit
from ..io import Results
from ..problem import Problem
from ..study import Study
from ._tables import as_table

MOST = 30
"""Most models of a table."""


def problem_of(study: Study, results: Results) -> Problem:
    """The problem that fit and posterior of a result file belong to: after a sparse fit that of the chosen model."""
    problem = study.problem()
    return problem if results.sparse_fit is None else results.sparse_fit.reduced(problem)


def sparse_sentence(found: SparseFit) -> str:
    """One sentence: which unknowns are left."""
    gone = ", ".join(f"{name} = {value:g}" for name, value in found.vanished.items())
    which = f"{len(found.kept)} of {len(found.names)} unknowns that may vanish are kept by {found.by}"
    return f"{which}: {', '.join(found.kept) or 'none'}." + (f" Nothing: {gone}." if gone else "")


def sparse_section(found: SparseFit) -> str:
    """The models by their criterion, best first, and what to distrust."""
    rows = sorted(found.distinct(), key=lambda pair: pair[0]["criterion"])
    least = rows[0][0]["criterion"]
    heads = ("model", "unknowns", "log likelihood", found.by, "above the best", "")
    lines = [
        (
            ", ".join(left) or "none of them",
            str(row["kept"]),
            f"{row['log_likelihood']:.6g}",
            f"{row['criterion']:.6g}",
            f"{row['criterion'] - least:.4g}",
            "chosen" if row["chosen"] else "",
        )
        for row, left in rows[:MOST]
    ]
    more = f"<p>{len(rows) - MOST} models more are in the result file.</p>" if len(rows) > MOST else ""
    told = "All models" if found.searched else "Models on the path of strengths"
    about = (
        f"{told}, fitted without a penalty. Those within 2 of the best are not told apart; standard errors are those of a model "
        "that was known from the start, and the choice is not in them."
    )
    return f"<p>{about}</p>{as_table(heads, lines)}{more}"
