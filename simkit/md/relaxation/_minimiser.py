"""Minimisers: how one trial point follows another. They see a vector, its energy and its slope, and one evaluation a step."""

import abc
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array


class Search(eqx.Module):
    """State of a search: its best point with energy and slope, and the variables of the method."""

    point: Array
    energy: Array
    slope: Array
    kept: Any


class Minimiser(eqx.Module):
    """Method of minimisation."""

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """Name of the method."""

    @abc.abstractmethod
    def begun(self, point: Array, energy: Array, slope: Array, weight: Array) -> Search:
        """The search at its start. `weight` measures how far a step goes: the largest of |weight * step| is bounded."""

    @abc.abstractmethod
    def proposed(self, search: Search, weight: Array) -> tuple[Array, Search]:
        """The next point to be looked at."""

    @abc.abstractmethod
    def judged(self, search: Search, trial: Array, energy: Array, slope: Array, weight: Array) -> Search:
        """The search after the trial point was looked at."""


def bounded(step: Array, weight: Array, most: float) -> Array:
    """A step shortened to go at most so far."""
    size = jnp.max(jnp.abs(weight * step))
    return step * jnp.where(size > most, most / jnp.where(size > 0, size, 1.0), 1.0).astype(step.dtype)
