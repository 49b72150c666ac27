"""Estimators for scikit-learn that take SMILES or PyG graphs. It needs ``pip install 'reign[train]'``, and ``'reign[chem]'`` for SMILES."""

import reign._pyg  # noqa: F401
from reign.sklearn._estimators import ReignClassifier, ReignRegressor

__all__ = ["ReignClassifier", "ReignRegressor"]
