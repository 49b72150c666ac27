"""The words of chemprop's commands: options with the same meaning are accepted, and all others name our word or say why there is none."""

from collections.abc import Collection, Iterator

TRAIN = {  # options of chemprop train with the same meaning under another name
    "--save-dir": "--output-dir",
    "--split": "--split-type",
    "--data-seed": "--split-seed",
    "--metric": "--metrics",
    "--features-generators": "--molecule-featurizers",
    "-w": "--weight-column",
    "-k": "--num-folds",
}
PREDICT = {"--test-path": "--data-path", "--preds-path": "--output", "--model-path": "--model-paths", "-n": "--num-workers"}
SAME = {"train": TRAIN, "predict": PREDICT}

SETTINGS = {  # options of chemprop train that are settings here; {} is the value, or a list of values with commas
    "--depth": "model.num_layers={}",
    "--message-hidden-dim": "model.hidden_channels={}",
    "--ffn-hidden-dim": "model.head.hidden=[{}]",
    "--max-lr": "train.optimiser.lr={}",
    "--grad-clip": "train.clip={}",
    "--pytorch-seed": "seeds=[{}]",
}

_ATOMS = "reign takes features of atoms and bonds from RDKit alone; --descriptors-path and --descriptors-columns add numbers about molecules"
_OF_ATOMS = "reign predicts for whole molecules, not for their atoms or bonds"
_REACTIONS = "reign reads molecules, not reactions; --smiles-columns can name several columns"
_HYDROGENS = "graphs have the atoms that RDKit keeps when it reads SMILES, without explicit hydrogens"
_SCALED = "descriptors are always scaled by the training rows"
_RATES = "the learning rate is set by train.optimiser.lr, and its course by train.schedule: --set train.schedule.warmup=0.05 and train.schedule.floor=0.01 are shares"
_RUN = "a run always has its splits and weights: RUN/seed-0/splits.json, RUN/seed-0/best and RUN/seed-0/last"
_READ = "molecules are read once, before the training"
_AS_TRAINED = "it is as in training, which a run remembers"
_CALIBRATED = "uncertainties are calibrated on the validation rows of the training; --calibration-method chooses how for classes"

SHARED = {  # refused options of both commands, with reasons
    "-r --reaction-columns --rxn-mode --reaction-mode": _REACTIONS,
    "--no-header-row": "a table needs names of columns in its first row",
    "--multi-hot-atom-featurizer-mode --atom-features-path --atom-descriptors-path --bond-features-path --bond-descriptors-path": _ATOMS,
    "--keep-h --add-h": _HYDROGENS,
    "--reorder-atoms": "predictions do not depend on the order of atoms",
    "--no-descriptor-scaling": _SCALED,
    "--no-atom-feature-scaling --no-atom-descriptor-scaling --no-bond-feature-scaling --no-bond-descriptor-scaling": _ATOMS,
    "--constraints-path --constraints-to-targets": _OF_ATOMS,
    "--use-cuikmolmaker-featurization": "molecules are read by RDKit; in reign predict --num-workers is the number of processes for it",
}
OF_TRAIN = {
    "-n --num-workers --no-cache": _READ,
    "--config-path": "settings in a file are a recipe: reign train RECIPE.yaml",
    "--remove-checkpoints --save-smiles-splits --save-data-splits": _RUN,
    "--model-frzn": "use --checkpoint RUN --freeze-encoder",
    "--frzn-ffn-layers": "--freeze-encoder freezes all but the head, and --freeze-epochs N does so for N epochs",
    "--message-bias": "layers have biases or not as their formulas say; reign models lists models",
    "--undirected --atom-messages --mpn-shared": "what passes messages is the model: --model and --policy",
    "--aggregation --agg --aggregation-norm": "what is summed is part of the model: --model, and --set model.needle=sum for some models",
    "--activation --activation-args": "use --set model.act=relu, or another activation by its name",
    "--ffn-num-layers": "--ffn-hidden-dim takes the width of each hidden layer of the head, as in --ffn-hidden-dim 128 128",
    "--batch-norm": "use --set model.norm=batch_norm (the default), layer_norm or null, for the norms in layers",
    "--multiclass-num-classes": "classes are those in the table",
    "--mol-target-columns": "use --target-columns",
    "--atom-target-columns --bond-target-columns --atom-task-weights --bond-task-weights --atom-multiclass-num-classes": _OF_ATOMS,
    "--bond-multiclass-num-classes --atom-ffn-hidden-dim --atom-ffn-num-layers --bond-ffn-hidden-dim --bond-ffn-num-layers": _OF_ATOMS,
    "--atom-constrainer-ffn-hidden-dim --atom-constrainer-ffn-num-layers": _OF_ATOMS,
    "--bond-constrainer-ffn-hidden-dim --bond-constrainer-ffn-num-layers": _OF_ATOMS,
    "--v-kl --evidential-regularization --eps": "there is no evidential loss; --loss-function mve predicts a variance",
    "--alpha": "there is no quantile loss; reign predict --conformal-alpha gives intervals",
    "--tracking-metric": "the first of --metrics chooses the best epoch and ends the training early",
    "--show-individual-scores": "the metrics of each target are always shown",
    "--warmup-epochs --init-lr --final-lr": _RATES,
    "--min-delta": "--patience counts every improvement of the validation metric",
    "--split-key-molecule": "several columns of SMILES form one molecule, which is split as a whole",
}
OF_PREDICT = {
    "--drop-extra-columns": "the output has all columns of the table",
    "--callback --callback-params": "in Python, reign.load(RUN).predict(...) gives a table to work with",
    "--cal-path --cal-descriptors-path --calibration-interval-percentile": _CALIBRATED,
    "--cal-atom-features-path --cal-atom-descriptors-path --cal-bond-features-path --cal-bond-descriptors-path": _ATOMS,
    "--cal-constraints-path": _OF_ATOMS,
    "--evaluation-methods --evaluation-method": "use reign evaluate RUN -i FILE.csv",
    "--uncertainty-dropout-p": "--uncertainty-method dropout has the probability of the training",
    "--dropout-sampling-size": "--uncertainty-method dropout always takes ten samples",
    "-b --batch-size": "the batch is as in training, and smaller if there is too little memory",
    "--devices": "one device is used; --engine ray predicts for a folder of tables on several machines",
    "--ignore-stereo --molecule-featurizers --features-generators --descriptors-columns": _AS_TRAINED,
}
REFUSED = {command: {**SHARED, **own} for command, own in {"train": OF_TRAIN, "predict": OF_PREDICT}.items()}


def translate(command: str, words: Collection[str], own: Collection[str]) -> Iterator[str]:
    """The words of a command line in our words. ``ValueError`` for an option of chemprop that has no counterpart here.

    >>> list(translate("train", ["--save-dir", "RUN", "--depth=5", "--ffn-hidden-dim", "64", "32"], ["--output-dir", "--set"]))
    ['--output-dir', 'RUN', '--set', 'model.num_layers=5', '--set', 'model.head.hidden=[64,32]']

    Args:
        command: the name of the command.
        words: the words after it.
        own: the options of the command, which mean what they mean here.
    """
    same, reasons = SAME.get(command, {}), REFUSED.get(command, {})
    option, values = "", list[str]()
    for place, word in enumerate([*words, "--"]):  # the last one ends a list of values
        name, sign, value = word.partition("=")
        if option and not is_number(word) and (values or name.startswith("-")):  # after the first value, only numbers are values
            yield from _setting(option, values)
            option, values = "", []
        if option:
            values.append(word)
        elif name in same and name not in own:
            yield same[name] + sign + value
        elif word[:2] in same and word[:2] not in own:  # as in -k5
            yield from (same[word[:2]], word[2:])
        elif command == "train" and name in SETTINGS and name not in own:
            option, values = name, [value] if sign else []
        elif name not in own and (reason := next((why for names, why in reasons.items() if name in names.split()), None)):
            raise ValueError(f"{name} is an option of chemprop that reign {command} does not have: {reason}.")
        elif place < len(words):
            yield word


def is_number(text: str) -> bool:
    """Whether a word is a number, which may be negative, and not an option."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def _setting(option: str, values: list[str]) -> Iterator[str]:
    """A setting in the place of an option and its values."""
    form = SETTINGS[option]
    if not values or (len(values) > 1 and "[" not in form):
        raise ValueError(f"{option} is {' '.join(values) or 'given without a value'}, expected one value.")
    yield from ("--set", form.format(",".join(values)))
