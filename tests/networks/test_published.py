"""Networks beside trajectories that BioNetGen computed, as its own checks of releases store them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import simkit

# Calcium oscillations, Kummer et al. (2000), Biophys. J. 79:1188, doi:10.1016/S0006-3495(00)76373-9, in numbers of molecules of a
# volume of 1e-21 l: saturable laws.
CALCIUM = """
begin parameters
  Na 6.022e23
  V 1e-21
  k1 0.212*Na*V
  k2 2.85
  k3 1.52
  K4 0.19*Na*V
  k5 4.88
  K6 1.18*Na*V
  k7 1.24
  k8 32.24*Na*V
  K9 29.09*Na*V
  k10 13.58
  k11 153.0*Na*V
  K12 0.16*Na*V
  first 0.01*Na*V
end parameters
begin species
  1 none() 1
  2 g() first
  3 plc() first
  4 ca() first
end species
begin reactions
  1 1 1,2 k1
  2 2 2,2 k2
  3 2,3 3 Sat k3 K4
  4 2,4 4 Sat k5 K6
  5 2 2,3 k7
  6 3,1 1 Sat k8 K9
  7 2 2,4 k10
  8 4,1 1 Sat k11 K12
end reactions
begin groups
  1 G 2
  2 P 3
  3 C 4
end groups
"""

# Making and decay by functions of observables, chains up to rings of three, factors of symmetry and species that are held.
RINGS = """
begin parameters
  1 decay 0.5
  2 made 1.0
  3 convert 0.5
  4 catalysed 1.0
  5 removal 10.0
  6 bind 2.0
  7 unbind 1.0
  8 close 10*bind   # which follows from another
end parameters
begin functions
  1 making() catalysed*B_tot
  2 removing() removal*rings
end functions
begin species
  1 $A() 1
  2 $removed() 0
  3 $decayed() 0
  4 B() 0
  5 C(0) 0
  6 C(1) 0
  7 C(2) 0
  8 C(3) 0
  9 D1 0
  10 D2 0
  11 D3 0
  12 ring 0
end species
begin reactions
  1 1 4 made
  2 0 5 making
  3 4 3 decay
  4 5 6 convert
  5 4 2 removing
  6 6 7 convert
  7 7 8 convert
  8 8 9 convert
  9 9 3 decay
  10 9,9 10 \\
     2*bind
  11 10 3 decay
  12 10 9,9 unbind
  13 9,10 11 4*bind
  14 11 3 decay
  15 11 9,10 2*unbind
  16 11 12 close
  17 12 3 decay
  18 12 11 3*unbind
end reactions
begin groups
  1 B_tot 4
  2 C0 5
  3 C2 7
  4 D_tot 9,2*10,3*11,3*12
  5 singles 9
  6 pairs 10
  7 chains 11
  8 rings 12
  9 gone 3
end groups
"""

MICHAELIS = """
begin parameters
  kcat 1
  Km 1
end parameters
begin species
  1 S() 100
  2 E() 100
  3 P() 0
end species
begin reactions
  1 1,2 3,2 MM kcat Km
end reactions
"""

# A flagellar motor whose switching depends exponentially on a protein.
MOTOR = """
begin parameters
  1 kpy 3.5
  2 kmy 10
  3 Kd 3.06
  4 g1 35
  5 w 1.02
  6 volume 1.41e-15
  7 _Na 6.02e23
end parameters
begin functions
  1 bound() CheYp/((volume*_Na)*(10^-6))
  2 energy() (g1/2.0)*((1.0/2.0) - bound()/(Kd + bound()))
  3 forward() w*exp(energy)
  4 backward() w*exp(-energy())
end functions
begin species
  1 Y(p) 2200
  2 M(cw) 10000
  3 Y(u) 0
  4 M(ccw) 0
end species
begin reactions
  1 1 3 kmy
  2 2 4 forward
  3 3 1 kpy
  4 4 2 backward
end reactions
begin groups
  1 CheYp 1
  2 CW 2
  3 CCW 4
end groups
"""

# Times, and output -> values: rows of the files `DAT_validate/CaOscillate_Sat.gdat`, `test_fixed.gdat`, `test_MM.cdat` and
# `motor.gdat` of BioNetGen's repository.
PUBLISHED = {
    "calcium": (
        CALCIUM,
        (0.0, 1.0, 2.0, 5.0),
        {
            "G": (6.83695014e02, 6.78509028e03, 6.02245214e03),
            "P": (2.10151543e02, 2.65204991e03, 9.18827108e03),
            "C": (1.07572521e01, 9.22320839e02, 7.54568187e02),
        },
    ),
    "rings": (
        RINGS,
        (0.0, 5.0, 10.0, 60.0),
        {
            "B_tot": (1.81096907e00, 3.69319207e-01, 4.69950364e-01),
            "C0": (2.84335772e00, 1.67850034e00, 9.48668657e-01),
            "C2": (9.69566321e-01, 2.42911371e00, 9.68775002e-01),
            "D_tot": (1.68082469e-01, 1.47016986e00, 9.72172490e-01),
            "singles": (1.19402554e-01, 3.27428208e-01, 2.33887733e-01),
            "pairs": (1.64570166e-02, 1.23696580e-01, 8.18468890e-02),
            "chains": (1.14892799e-03, 4.73622618e-02, 2.85374047e-02),
            "rings": (4.10636582e-03, 2.51087237e-01, 1.62992922e-01),
            "gone": (0.0, 0.0, 0.0),
        },
    ),
    "michaelis": (
        MICHAELIS,
        (0.0, 0.25, 1.0, 4.75),
        {"S()": (7.908583802054e01, 3.801122961657e01, 9.319983545938e-01)},
    ),
    "motor": (
        MOTOR,
        (0.0, 0.04, 0.09, 0.19),
        {
            "CheYp": (1.520034189108840e03, 1.053897800579117e03, 6.957201473832082e02),
            "CW": (8.113186645956832e03, 2.547048145129960e03, 5.879991679076241e-01),
            "CCW": (1.886813354043168e03, 7.452951854870042e03, 9.999412000832104e03),
        },
    ),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_network_follows_the_trajectory_of_bionetgen(name, tmp_path):
    text, times, published = PUBLISHED[name]
    path = tmp_path / f"{name}.net"
    path.write_text(text)
    system = simkit.networks.load(path)
    run = simkit.simulate(system, system.start(), jnp.asarray(times), step=simkit.Adaptive(1e-9, 1e-9))
    found = jax.vmap(lambda t, y: system.outputs(t, y, None))(run.times, run.ys)
    for output, values in published.items():
        # BioNetGen ran at 1e-8 a step, of which some thousand add up; its files hold nine digits or more.
        scale = max(1e-6 * max(values), 1e-9)
        np.testing.assert_allclose(found[output][1:], values, rtol=2e-6, atol=scale, err_msg=output)


def test_what_is_held_does_not_move_and_what_follows_follows(tmp_path):
    path = tmp_path / "rings.net"
    path.write_text(RINGS)
    system = simkit.networks.load(path)
    assert "close" not in system.parameters
    assert float(system.parameters["bind"]) == 2.0
    run = simkit.simulate(system, system.start() | {"removed()": jnp.asarray(7.0)}, jnp.array([0.0, 3.0]))
    assert float(run.ys["A()"][-1]) == 1.0
    assert float(run.ys["removed()"][-1]) == 7.0
    # The closing of chains is ten times the binding: a ring less at a slower binding, by the formula of the file.
    slower = simkit.networks.load(path)
    slower.parameters["bind"] = jnp.asarray(1.0)
    y = {name: jnp.asarray(1.0) for name in system.rates.states}
    slope = lambda s: s.decode(s.vector_field(0.0, s.encode(y), None))["ring"]
    # close chains - decay ring - 3 unbind ring, of amounts of 1
    assert float(slope(system)) == pytest.approx(20.0 - 0.5 - 3.0, rel=1e-14)
    assert float(slope(slower)) == pytest.approx(10.0 - 0.5 - 3.0, rel=1e-14)
