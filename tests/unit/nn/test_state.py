"""Values on a bag, and what is computed once."""

import re

import pytest
import torch

import reign
from model_inputs import batch
from reign.nn import TERMS, State, list_terms


def test_everything_is_computed_once() -> None:
    bag = reign.policy("nm").from_data(batch())
    state = State(torch.randn(bag.num_pairs, 2), bag, aggregation={"needle": "mean"})
    for name in TERMS:
        for where in ("off", "on"):
            assert state.get(TERMS[name], where) is state.get(TERMS[name], where), (name, where)
            assert state.sum(TERMS[name], where) is state.sum(TERMS[name], where), (name, where)
    assert state.readout is state.readout
    assert state.get(TERMS["readout"]) is state.readout
    assert state.sum(TERMS["needle"]) is state.needle


def test_terms_say_which_sums_they_are_computed_from() -> None:
    """Terms that name sums are computed from these alone, without the values of pairs."""
    bag = reign.policy("nm").from_data(batch())
    known = State(torch.randn(bag.num_pairs, 2), bag)
    sums = {"readout": known.readout, "needle": known.needle, "root": known.root}
    for term in list_terms():
        for where in ("off", "on"):
            if needs := term.needs(where):
                state = State(torch.full((bag.num_pairs, 2), torch.nan), bag)
                state.add({name: sums[name] for name in needs})
                assert torch.equal(state.get(term, where), known.get(term, where)), (term.name, where)


def test_terms_say_whether_they_stay_inside() -> None:
    for term in list_terms():
        assert term.stays_inside == (set(re.findall(r"x\[(\w)", term.formula)) == {"k"}), term.name


def test_a_mean_leaves_the_sum_as_it_is() -> None:
    bag = reign.policy("ego:1").from_data(batch(), domain="members")
    h = torch.randn(bag.num_pairs, 2)
    plain, mean = State(h, bag, "members"), State(h, bag, "members", {"needle": "mean"})
    assert torch.equal(mean.sum(TERMS["needle"]), plain.get(TERMS["needle"]))
    count = torch.bincount(bag.node, minlength=bag.num_nodes)[:, None]
    torch.testing.assert_close(mean.get(TERMS["needle"]), plain.get(TERMS["needle"]) / count)


def test_values_and_domains_that_do_not_fit() -> None:
    bag = reign.policy("ego:1").from_data(batch(), domain="members")
    with pytest.raises(ValueError, match="the bag stores members only, but this layer sums over all pairs"):
        State(torch.randn(bag.num_pairs, 2), bag, "all")
    with pytest.raises(ValueError, match=f"h has 1 rows, expected one per pair of the bag: {bag.num_pairs}"):
        State(torch.randn(1, 2), bag, "members")
