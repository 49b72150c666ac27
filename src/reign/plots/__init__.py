"""Pictures of what the library knows: layers, orbits, reports of runs, explanations of predictions. Needs ``pip install 'reign[plot]'``."""

from reign.plots._bag import draw_bag_of
from reign.plots._graphs import Named, read_graph
from reign.plots._layer import draw_layer, draw_layers
from reign.plots._orbits import draw_orbits, draw_symmetry

__all__ = ["Named", "draw_bag_of", "draw_layer", "draw_layers", "draw_orbits", "draw_symmetry", "read_graph"]
