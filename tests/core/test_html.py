"""How systems, trajectories, fits and posteriors show themselves in notebooks: complete, escaped, without colours."""

import html.parser

import jax
import jax.numpy as jnp
import pytest
import synthetic

import simkit
from simkit.core import Events


class Cells(html.parser.HTMLParser):
    """The rows of the tables of a page, its other text, and its attributes; open tags at the end are an error."""

    def __init__(self, page):
        super().__init__()
        self.rows, self.text, self.styles, self.open = [], "", "", []
        self.feed(page)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.styles += "".join(value or "" for _, value in attrs)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data
        if self.open and self.open[-1] in ("td", "th"):
            self.rows[-1][-1] += data


def trajectory(**fields):
    zero = jnp.zeros((), int)
    states = simkit.odes.LotkaVolterra.State(hare=jnp.array([30.0, 10.0, 47.5]), lynx=jnp.array([4.0, 9.0, 2.0]))
    return simkit.Trajectory(jnp.arange(3.0), states, zero, zero, zero, zero, solver="Tsit5 <by hand>", **fields)


def test_a_system_shows_its_quantities_with_units():
    page = Cells(simkit.odes.LotkaVolterra(growth=0.625)._repr_html_())
    assert page.text.startswith("LotkaVolterra")
    rows = {row[0]: row[1:] for row in page.rows}
    metadata = simkit.core.Setup(simkit.odes.LotkaVolterra()).metadata("growth")
    assert rows["growth"] == ["0.625", metadata.unit, "(0, inf)", metadata.doc]
    assert set(rows) == {"quantity", "growth", "predation", "death", "conversion"}


def test_a_trajectory_shows_ends_and_ranges():
    page = Cells(trajectory()._repr_html_())
    rows = {row[0]: row[1:] for row in page.rows}
    assert rows["hare"][1:] == ["[3]", "30", "47.5", "10", "47.5"]
    assert "Tsit5 <by hand>" in page.text
    state = jax.tree.map(lambda x: x[:1], trajectory().ys)
    one, first = jnp.ones((), int), jnp.zeros(1, int)
    events = Events(("event",), one, jnp.array([1.5]), first, state, state)
    assert "event: at 1.5" in Cells(trajectory(events=events)._repr_html_()).text


def test_members_show_their_range():
    zero = jnp.zeros(2, int)
    many = simkit.Trajectory(
        jnp.zeros((2, 3)), {"x": jnp.array([[0.0, 1.0, 2.0], [3.0, 4.0, jnp.nan]])}, zero, zero, zero, zero
    )
    rows = {row[0]: row[1:] for row in Cells(many._repr_html_()).rows}
    assert rows["x"] == ["", "[2, 3]", "", "", "0", "4"]


@pytest.mark.parametrize(
    "result", [synthetic.fit_result(), synthetic.posterior()], ids=lambda result: type(result).__name__
)
def test_fits_and_posteriors_show_what_they_print(result):
    page, printed = Cells(result._repr_html_()), repr(result)
    rows = page.rows[1 : 1 + len(result.names)]  # optima, where a fit tells of several, have a table of their own below
    assert [row[0] for row in rows] == list(result.names)
    for row in rows:
        assert all(cell in printed for cell in row)
    assert printed.splitlines()[0] in page.text
    assert printed.splitlines()[-1].strip() in page.text


@pytest.mark.parametrize(
    "shown",
    [simkit.odes.SEIR(), trajectory(), synthetic.fit_result(), synthetic.posterior()],
    ids=lambda x: type(x).__name__,
)
def test_no_colours_but_a_half_transparent_grey(shown):
    styles = Cells(shown._repr_html_()).styles.replace("rgba(128, 128, 128, 0.4)", "")
    assert "color" not in styles
    assert "#" not in styles


def test_long_tables_are_cut_and_say_so():
    system = simkit.odes.from_function(lambda t, y, p: y, {f"k{i}": 1.0 for i in range(45)})
    page = Cells(system._repr_html_())
    assert len(page.rows) == 41
    assert "and 5 more" in page.text
