"""Pictures and pages: layers, orbits, reports of runs, and explanations of predictions. This needs ``pip install 'reign[plot]'``."""

import reign._pyg  # noqa: F401
from reign.plots._curves import Curve, draw_curves
from reign.plots._curves import Panel as CurvePanel
from reign.plots._generalisation import curve_tables, draw_generalisation, points_of_records, points_of_runs
from reign.plots._graphs import NAMED, Named, draw_bag_of, read_graph
from reign.plots._layer import draw_layer, draw_layers
from reign.plots._orbits import draw_orbits, draw_symmetry
from reign.plots._report import write_report

__all__ = [
    "NAMED",
    "Curve",
    "CurvePanel",
    "Named",
    "curve_tables",
    "draw_bag_of",
    "draw_curves",
    "draw_generalisation",
    "draw_layer",
    "draw_layers",
    "draw_orbits",
    "draw_symmetry",
    "points_of_records",
    "points_of_runs",
    "read_graph",
    "write_report",
]
