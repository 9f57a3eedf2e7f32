"""Systems of OpenMM translated term by term, beside its reference platform."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import openmm
import pytest
from openmm_reference import reference

import simkit
from simkit import md

rng = np.random.default_rng(7)
ATOMS = 12
PLACES = np.array([[0.11 * i, 0.07 * (i % 3), 0.09 * ((i * 5) % 4)] for i in range(ATOMS)]) + 0.02 * rng.random(
    (ATOMS, 3)
)


def empty(box: float | None = None, atoms: int = ATOMS) -> openmm.System:
    system = openmm.System()
    for k in range(atoms):
        system.addParticle(12.0 + k)
    if box is not None:
        system.setDefaultPeriodicBoxVectors([box, 0, 0], [0, box, 0], [0, 0, box])
    return system


def check(system: openmm.System, places: np.ndarray = PLACES, tolerance: float = 2e-8) -> md.MolecularModel:
    """Energy and forces on atoms as in OpenMM, whose Coulomb constant differs by 7e-10."""
    energy, forces = reference(system, places)
    model = md.from_openmm(system, places)
    found = model.system.prepared(model.start).gradients(model.start)
    wanted = forces[np.asarray(model.order)][: len(model.start.position)]
    assert float(found.energy) == pytest.approx(energy, rel=tolerance, abs=1e-9)
    assert np.abs(np.asarray(found.forces) - wanted).max() <= tolerance * np.abs(wanted).max() + 1e-9
    return model


def bonds() -> openmm.Force:
    force = openmm.HarmonicBondForce()
    for k in range(ATOMS - 1):
        force.addBond(k, k + 1, 0.1 + 0.01 * (k % 2), 3000.0)
    return force


def angles() -> openmm.Force:
    force = openmm.HarmonicAngleForce()
    for k in range(ATOMS - 2):
        force.addAngle(k, k + 1, k + 2, 1.9, 400.0 + k)
    return force


def dihedrals() -> openmm.Force:
    force = openmm.PeriodicTorsionForce()
    for k in range(ATOMS - 3):
        force.addTorsion(k, k + 1, k + 2, k + 3, 1 + k % 4, 0.3 * k, 5.0 - k)
    return force


def powers() -> openmm.Force:
    force = openmm.RBTorsionForce()
    force.addTorsion(0, 1, 2, 3, 1.0, 2.0, -3.0, 0.5, 0.25, -0.1)
    force.addTorsion(4, 5, 6, 7, 0.0, 2.0, 1.0, 0.5, 0.25, 0.3)
    return force


def torsion_map() -> openmm.Force:
    force, n = openmm.CMAPTorsionForce(), 12
    for seed in (1, 2):
        force.addMap(n, np.random.default_rng(seed).normal(size=n * n).tolist())
    force.addTorsion(0, 0, 1, 2, 3, 1, 2, 3, 4)
    force.addTorsion(1, 5, 6, 7, 8, 6, 7, 8, 9)
    force.addTorsion(0, 2, 3, 4, 5, 3, 4, 5, 6)
    return force


def charges() -> np.ndarray:
    found = np.sin(1.0 + np.arange(ATOMS)) * 0.4
    return found - found.mean()


def nonbonded(method: int, *, own: bool = False, net: float = 0.0, switch: bool = False) -> openmm.Force:
    force = openmm.NonbondedForce()
    for k, q in enumerate(charges()):
        force.addParticle(q + net / ATOMS, (0.12, 0.15, 0.1)[k % 3], (0.5, 0.8, 0.0)[k % 3])
    force.createExceptionsFromBonds([(k, k + 1) for k in range(ATOMS - 1)], 1 / 1.2, 0.5)
    if own:
        force.addException(0, 8, 0.07, 0.2, 0.3)
        force.addException(2, 9, 0.05, 0.11, 0.9)
    force.setNonbondedMethod(method)
    force.setCutoffDistance(0.9)
    force.setUseDispersionCorrection(False)
    if switch:
        force.setUseSwitchingFunction(True)
        force.setSwitchingDistance(0.6)
    return force


def custom(kind: type, text: str, terms: list[tuple[int, ...]], size: str) -> openmm.Force:
    force = kind(text)
    getattr(force, f"addPer{size}Parameter")("k")
    force.addGlobalParameter("half", 0.5)
    for number, atoms in enumerate(terms):
        getattr(force, f"add{size}")(*atoms, [3.0 + number])
    return force


def compound() -> openmm.Force:
    text = "k*(distance(p1,p2) - distance(p2,p3))^2 + angle(p1,p2,p3)*half + cos(dihedral(p1,p2,p3,p4)) + 0.1*(z4-z1)^2"
    force = openmm.CustomCompoundBondForce(4, text)
    force.addPerBondParameter("k")
    force.addGlobalParameter("half", 0.5)
    force.addBond([0, 1, 2, 3], [20.0])
    force.addBond([4, 6, 7, 9], [30.0])
    return force


def outside() -> openmm.Force:
    force = openmm.CustomExternalForce("k*(x-x0)^2*step(x-x0) + max(y, z)^2; x0 = 2*c")
    force.addPerParticleParameter("k")
    force.addGlobalParameter("c", 0.1)
    for atom in (1, 4, 7):
        force.addParticle(atom, [2.0 + atom])
    return force


def custom_pairs(switch: bool) -> openmm.Force:
    text = "4*e*(x^12-x^6) + table(kind1, kind2)*exp(-3*r); x = s/r; s = (s1+s2)/2; e = sqrt(e1*e2)"
    force = openmm.CustomNonbondedForce(text)
    for name in ("s", "e", "kind"):
        force.addPerParticleParameter(name)
    force.addTabulatedFunction("table", openmm.Discrete2DFunction(2, 2, [1.0, 3.0, 3.0, -2.0]))
    for k in range(ATOMS):
        force.addParticle([0.12 + 0.01 * (k % 2), 0.5, k % 2])
    for k in range(ATOMS - 1):
        force.addExclusion(k, k + 1)
    force.setNonbondedMethod(openmm.CustomNonbondedForce.CutoffNonPeriodic)
    force.setCutoffDistance(0.8)
    if switch:
        force.setUseSwitchingFunction(True)
        force.setSwitchingDistance(0.5)
    return force


def born() -> openmm.Force:
    force = openmm.GBSAOBCForce()
    for k, q in enumerate(charges()):
        force.addParticle(q, 0.12 + 0.02 * (k % 3), 0.7 + 0.05 * (k % 2))
    return force


def through() -> openmm.Force:
    """The model of Hawkins, Cramer and Truhlar as formulas; `or` is a word of Python."""
    force = openmm.CustomGBForce()
    for name in ("q", "or", "sr"):
        force.addPerParticleParameter(name)
    force.addGlobalParameter("solvent", 78.5)
    text = "step(r+sr2-or1)*0.5*(1/L-1/U+0.25*(r-sr2^2/r)*(1/(U^2)-1/(L^2))+0.5*log(L/U)/r); U=r+sr2; L=max(or1, D); D=abs(r-sr2)"
    force.addComputedValue("I", text, openmm.CustomGBForce.ParticlePairNoExclusions)
    force.addComputedValue("B", "1/(1/or-I)", openmm.CustomGBForce.SingleParticle)
    force.addEnergyTerm("-0.5*138.9*(1-1/solvent)*q^2/B", openmm.CustomGBForce.SingleParticle)
    pair = "-138.9*(1-1/solvent)*q1*q2/f; f=sqrt(r^2+B1*B2*exp(-r^2/(4*B1*B2)))"
    force.addEnergyTerm(pair, openmm.CustomGBForce.ParticlePairNoExclusions)
    force.addEnergyTerm("0.3*exp(-r)", openmm.CustomGBForce.ParticlePair)
    for k, q in enumerate(charges()):
        force.addParticle([q, 0.1 + 0.02 * (k % 3), 0.08 + 0.01 * (k % 2)])
    for k in range(ATOMS - 1):
        force.addExclusion(k, k + 1)
    return force


N = openmm.NonbondedForce
OPEN = {
    "bonded terms, as formulas too": lambda: [
        bonds(),
        angles(),
        dihedrals(),
        powers(),
        torsion_map(),
        compound(),
        outside(),
        custom(openmm.CustomBondForce, "half*k*(r-0.1)^4", [(0, 1), (3, 7)], "Bond"),
        custom(openmm.CustomAngleForce, "half*k*sin(theta)^2", [(0, 1, 2), (3, 7, 9)], "Angle"),
        custom(
            openmm.CustomTorsionForce,
            "half*k*min(dt, 6.28-dt)^2; dt = abs(theta-1)",
            [(0, 1, 2, 3), (5, 6, 7, 8)],
            "Torsion",
        ),
    ],
    "all pairs and solvent": lambda: [nonbonded(N.NoCutoff, own=True), born(), through()],
    "reaction field": lambda: [nonbonded(N.CutoffNonPeriodic, own=True, switch=True)],
    "pairs by a formula": lambda: [custom_pairs(True)],
}


@pytest.mark.parametrize("name", OPEN)
def test_forces_in_open_space(name):
    system = empty()
    for force in OPEN[name]():
        system.addForce(force)
    check(system)


PERIODIC = {
    "reaction field": lambda: nonbonded(N.CutoffPeriodic, own=True, switch=True),
    "ewald": lambda: nonbonded(N.Ewald),
    "mesh": lambda: nonbonded(N.PME, own=True, switch=True),
    "charged mesh": lambda: nonbonded(N.PME, net=1.5),
}


@pytest.mark.parametrize("name", PERIODIC)
def test_charges_in_a_cell(name):
    system = empty(2.0)
    system.addForce(PERIODIC[name]())
    check(system)


def test_a_whole_molecule_in_a_skewed_cell_and_its_names():
    system = empty(2.2)
    system.setDefaultPeriodicBoxVectors([2.2, 0, 0], [0.4, 2.2, 0], [-0.3, 0.5, 2.1])
    for force in (bonds(), angles(), dihedrals(), nonbonded(N.PME)):
        system.addForce(force)
    model = check(system)
    assert isinstance(model.system.space, md.Triclinic)
    assert model.names == (
        "bonds",
        "angles",
        "dihedrals",
        "lennard_jones",
        "lennard_jones_14",
        "coulomb",
        "coulomb",
        "coulomb_14",
    )
    # Two kinds of bonds in eleven bonds, and one scale of all 1-4 pairs: what a fit changes together.
    assert model.term("bonds").length.shape == (2,)
    assert float(model.term("coulomb_14").scale) == pytest.approx(1 / 1.2)
    assert "lennard_jones_14 (ListedPairs)" in repr(model)


def test_several_forces_of_pairs_share_one_table_of_species():
    system = empty()
    system.addForce(nonbonded(N.CutoffNonPeriodic))
    for switch in (False, True):
        force = custom_pairs(switch)
        for a, b in [(k, k + 2) for k in range(ATOMS - 2)] + [(k, k + 3) for k in range(ATOMS - 3)]:
            force.addExclusion(a, b)
        force.setCutoffDistance(0.9)
        system.addForce(force)
    model = check(system)
    assert "CustomNonbondedForce 2" in model.names


@pytest.mark.parametrize("switch", [False, True])
def test_the_tail_of_lennard_jones_is_that_of_openmm_but_for_its_count_of_pairs(switch):
    sigma, epsilon, box = 0.3, 0.7, 2.0
    force = openmm.NonbondedForce()
    for _ in range(ATOMS):
        force.addParticle(0.0, sigma, epsilon)
    force.setNonbondedMethod(N.CutoffPeriodic)
    force.setCutoffDistance(0.9)
    force.setUseSwitchingFunction(switch)
    force.setSwitchingDistance(0.7)
    energies = []
    for tail in (False, True):
        force.setUseDispersionCorrection(tail)
        whole = empty(box)
        whole.addForce(openmm.XmlSerializer.clone(force))
        model = md.from_openmm(whole, PLACES)
        energies.append([reference(whole, PLACES)[0], float(model.system.prepared(model.start).energy(model.start))])
    theirs, ours = np.diff(energies, axis=0)[0]
    # OpenMM counts N(N+1)/2 pairs as N^2/2 by a factor that is 1 where there is one species.
    assert ours == pytest.approx(theirs, rel=1e-6)


def water(kind: str) -> tuple[openmm.System, np.ndarray]:
    """Two molecules with sites between and out of the plane of their atoms."""
    system = openmm.System()
    force = openmm.NonbondedForce()
    places = []
    for m in range(2):
        at = np.array([0.31 * m, 0.05 * m, 0.0])
        first = system.getNumParticles()
        for mass, place, row in (
            (16.0, [0, 0, 0], (0.0, 0.315, 0.64)),
            (1.0, [0.0957, 0, 0], (0.5, 1.0, 0.0)),
            (1.0, [-0.024, 0.0927, 0], (0.5, 1.0, 0.0)),
            (0.0, [0, 0, 0], (-1.0, 1.0, 0.0)),
        ):
            system.addParticle(mass)
            force.addParticle(*row)
            places.append(at + np.array(place))
        o, h1, h2, site = range(first, first + 4)
        made = {
            "average": openmm.ThreeParticleAverageSite(o, h1, h2, 0.74, 0.13, 0.13),
            "two": openmm.TwoParticleAverageSite(o, h1, 0.8, 0.2),
            "out": openmm.OutOfPlaneSite(o, h1, h2, 0.2, 0.3, 4.0),
            "frame": openmm.LocalCoordinatesSite(
                (o, h1, h2), (0.8, 0.1, 0.1), (-1.0, 0.5, 0.5), (0.0, -1.0, 1.0), (0.03, 0.01, 0.02)
            ),
        }[kind]
        system.setVirtualSite(site, made)
        for a in range(first, first + 4):
            for b in range(a + 1, first + 4):
                force.addException(a, b, 0.0, 1.0, 0.0)
        for a, b, length in ((o, h1, 0.0957), (o, h2, 0.0957), (h1, h2, 0.1513)):
            system.addConstraint(a, b, length)
    force.setNonbondedMethod(N.NoCutoff)
    system.addForce(force)
    context = openmm.Context(system, openmm.VerletIntegrator(0.001), openmm.Platform.getPlatformByName("Reference"))
    context.setPositions(np.asarray(places))
    context.applyConstraints(1e-12)
    context.computeVirtualSites()
    rough = np.asarray(context.getState(getPositions=True).getPositions(asNumpy=True)._value)
    model = md.from_openmm(system, rough)  # distances to rounding, where OpenMM's are right to 1e-7
    placed = np.empty_like(rough)
    placed[list(model.order)] = model.system.sites.placed(model.system.space, model.start.position)
    return system, placed


@pytest.mark.parametrize("kind", ["average", "two", "out", "frame"])
def test_virtual_sites_carry_their_forces_to_atoms(kind):
    system, places = water(kind)
    model = check(system, places)
    assert model.order == (0, 1, 2, 4, 5, 6, 3, 7)
    assert isinstance(model.system.constraints, md.RigidWater)
    if kind == "two":
        return
    system = model.system.prepared(model.start)

    def drift(step: float) -> float:
        run = simkit.simulate(system, model.start, jnp.array([0.0, 0.02]), step=step)
        total = jax.vmap(lambda y: system.invariants(0.0, y)["energy"])(run.ys)
        return float(total[1] - total[0])

    assert drift(0.0005) / drift(0.00025) == pytest.approx(4.0, rel=0.02)  # an integrator of the second order


@pytest.mark.parametrize("kind", ["average", "out", "frame"])
def test_the_virial_of_sites_is_the_derivative_by_a_deformation(kind):
    made, places = water(kind)
    model = md.from_openmm(made, places + 0.5)
    pairs = md.LennardJones(model.system.potential.terms[0].sigma, model.system.potential.terms[0].epsilon, cutoff=0.6)
    potential = pairs + md.CoulombDSF(cutoff=0.6, damping=3.0)
    space = md.Triclinic([[1.5, 0.0, 0.0], [0.2, 1.4, 0.0], [0.1, -0.2, 1.6]])
    start = dataclasses.replace(model.start, cell=None)
    system = dataclasses.replace(model.system, potential=potential, space=space, constraints=None).prepared(start)

    def energy(strain):
        moved = jnp.eye(3) + strain
        atoms = dataclasses.replace(start, position=start.position @ moved.T)
        return dataclasses.replace(system, space=space.scaled(strain)).energy(atoms)

    wanted = jax.jacfwd(energy)(jnp.zeros((3, 3)))
    found = system.gradients(start).virial
    assert jnp.abs(wanted).max() > 1
    assert np.allclose(found, wanted, rtol=0, atol=1e-9 * float(jnp.abs(wanted).max()))


def test_a_rounded_start_is_moved_to_its_constraints():
    system, places = water("average")
    model = md.from_openmm(system, np.round(places, 3))
    distance = lambda a, b: float(jnp.linalg.norm(model.start.position[a] - model.start.position[b]))
    assert [distance(0, 1), distance(0, 2), distance(1, 2)] == pytest.approx([0.0957, 0.0957, 0.1513], rel=1e-12)
    model.system.prepared(model.start)


def test_parameters_have_derivatives():
    system = empty()
    for force in (bonds(), nonbonded(N.NoCutoff), born()):
        system.addForce(force)
    model = md.from_openmm(system, PLACES)
    prepared = model.system.prepared(model.start)

    def energy(charge):
        return dataclasses.replace(prepared, charge=charge).energy(model.start)

    charge = prepared.charge
    slope, h = jax.grad(energy)(charge), 1e-4
    some = jnp.zeros_like(charge).at[3].set(h)
    assert float(slope[3]) == pytest.approx(float(energy(charge + some) - energy(charge - some)) / (2 * h), rel=1e-7)


def thermostat() -> openmm.Force:
    return openmm.AndersenThermostat(300.0, 1.0)


def charges_twice() -> openmm.Force:
    force = born()
    force.setParticleParameters(0, 0.9, 0.12, 0.8)
    return force


def groups() -> openmm.Force:
    force = custom_pairs(False)
    force.addInteractionGroup([0, 1], [2, 3])
    return force


def smooth_table() -> openmm.Force:
    force = openmm.CustomNonbondedForce("f(r)")
    force.addTabulatedFunction("f", openmm.Continuous1DFunction([0.0, 1.0, 2.0], 0.0, 1.0))
    for _ in range(ATOMS):
        force.addParticle([])
    return force


REFUSED = {
    "AndersenThermostat. Give `dynamics=`": [thermostat],
    "GBSAOBCForce has other charges": [lambda: nonbonded(N.NoCutoff), charges_twice],
    "interaction groups": [groups],
    "a table `f` of the type Continuous1DFunction": [smooth_table],
    "LJPME": [lambda: nonbonded(N.LJPME)],
    "must leave out the same pairs": [lambda: nonbonded(N.CutoffNonPeriodic), lambda: custom_pairs(False)],
    "must hold a force": [],
    "GayBerneForce": [openmm.GayBerneForce],
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_simkit_has_not_is_refused_by_name(message):
    system = empty(2.0)
    for force in REFUSED[message]:
        system.addForce(force())
    with pytest.raises(simkit.ArgumentError, match=message):
        md.from_openmm(system, PLACES)


def test_frozen_atoms_and_other_sites_are_refused():
    system = empty()
    system.addForce(bonds())
    system.setParticleMass(3, 0.0)
    with pytest.raises(simkit.ArgumentError, match="particle 3 has none"):
        md.from_openmm(system, PLACES)
    system.addParticle(1.0)
    frame = ([1, 0, 0, 0], [-1, 1, 0, 0], [-1, 0, 0, 1], [0.1, 0, 0])
    system.setVirtualSite(3, openmm.LocalCoordinatesSite([0, 1, 2, system.getNumParticles() - 1], *frame))
    with pytest.raises(simkit.ArgumentError, match="site 3 is a LocalCoordinatesSite"):
        md.from_openmm(system, np.concatenate([np.asarray(PLACES), np.ones((1, 3))]))
    system = empty()
    system.addForce(bonds())
    with pytest.raises(simkit.ArgumentError, match="shape"):
        md.from_openmm(system, PLACES[:3])


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"axes": [1.0, 1.0]}, "`axes` must have the shape"),
        ({"axes": [[1.0, 1.0], [2.0, 2.0]]}, "not parallel"),
        ({"local": [0.0, 1.0]}, "`local` must have the shape"),
        ({"local": "far"}, "`local` must be numbers"),
        ({"local": None}, "go together"),
    ],
)
def test_a_frame_that_is_none(given, words):
    frame = {"local": [0.0, 0.0, 1.0], "axes": [[1.0, 0.0], [0.0, 1.0]]} | given
    with pytest.raises(simkit.ArgumentError, match=words):
        md.VirtualSites([[0, 1, 2]], [0.1, 0.1], **frame)
