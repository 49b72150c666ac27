"""Imports torch_geometric without the warnings of its own import about ``torch.jit.script``, which newer versions of PyTorch deprecate.

Packages of reign import this module first. The filter acts during that import alone, so that a user's filters stay as they are.
"""

import warnings

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", message="`torch.jit.script` is deprecated")
    import torch_geometric  # noqa: F401
