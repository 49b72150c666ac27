"""Import RDKit, or raise an error that says what to install."""

try:
    from rdkit import Chem
    from rdkit.rdBase import BlockLogs
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError("reading SMILES needs rdkit: pip install 'reign[chem]'.", name=missing.name) from None

__all__ = ["BlockLogs", "Chem"]
