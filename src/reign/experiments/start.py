"""Where the training on a table of molecules starts: from the weights of an encoder, or from random ones."""

from reign.train.runs.encoders import Encoder, list_encoders
from reign.train.settings.yaml import RawSettings

PRETRAINED = "molecules-pretrained"  # the recipe that starts from an encoder
FREE = {"dropout"}  # settings of the model that do not change which weights it has


def recipe_of_table(changes: RawSettings) -> tuple[str, str]:
    """The recipe for a table of molecules with these changes of settings, and why it does not start from an encoder, where that is worth a note.

    >>> recipe_of_table({"data": {"task": "classification"}})
    ('molecules-classification', '')
    >>> recipe_of_table({"model": {"name": "gin"}})
    ('molecules', 'Training starts from random weights, because the settings of the model are not those of the encoder.')
    >>> recipe_of_table({"model": {"name": "gin"}, "train": {"checkpoint": None}})
    ('molecules', '')

    Args:
        changes: the settings that a user changes; ``train.checkpoint`` is None for random weights.
    """
    data, model, train = (dict(part) if isinstance(part := changes.get(name), dict) else {} for name in ("data", "model", "train"))
    if data.get("task", "regression") != "regression":
        return "molecules-classification", ""
    if not list_encoders():
        return "molecules", ""
    if "checkpoint" in train:
        return (PRETRAINED if train["checkpoint"] is not None and Encoder.find(train["checkpoint"]) else "molecules"), ""
    why = None
    if set(model) - FREE:
        why = "the settings of the model are not those of the encoder"
    elif len(data.get("smiles_columns", ["smiles"])) > 1:
        why = "there are several columns of SMILES"
    elif any(data.get(name) for name in ("descriptors_columns", "descriptors_path", "molecule_featurizers")):
        why = "the model gets descriptors, which the encoder does not know"
    elif data.get("stereo", "parity") != "parity":
        why = f"data.stereo is {data['stereo']}, and the encoder learned from molecules with parity"
    return (PRETRAINED, "") if why is None else ("molecules", f"Training starts from random weights, because {why}.")
