"""Every option of chemprop 2.3 is accepted, or refused in one line that says what to use here or why there is nothing."""

from typing import Any

import pandas as pd
import pytest
from typer.main import get_command

from commands import fails, works
from reign.cli import app
from reign.cli.chemprop import OF_PREDICT, OF_TRAIN, SAME, SETTINGS, SHARED, translate
from reign.train import load

BOTH = """-s --smiles-columns -r --reaction-columns --no-header-row -n --num-workers -b --batch-size --accelerator --devices --rxn-mode --reaction-mode
--multi-hot-atom-featurizer-mode --keep-h --add-h --ignore-stereo --reorder-atoms --molecule-featurizers --features-generators --descriptors-path
--descriptors-columns --no-descriptor-scaling --no-atom-feature-scaling --no-atom-descriptor-scaling --no-bond-feature-scaling --no-bond-descriptor-scaling
--atom-features-path --atom-descriptors-path --bond-features-path --bond-descriptors-path --constraints-path --constraints-to-targets
--use-cuikmolmaker-featurization -q"""
OPTIONS = {
    "train": f"""{BOTH} --config-path -i --data-path -o --output-dir --save-dir --remove-checkpoints --checkpoint --freeze-encoder --model-frzn --frzn-ffn-layers
--from-foundation --ensemble-size --message-hidden-dim --message-bias --depth --undirected --dropout --mpn-shared --aggregation --agg --aggregation-norm
--atom-messages --activation --activation-args --ffn-hidden-dim --ffn-num-layers --batch-norm --multiclass-num-classes --atom-task-weights
--atom-ffn-hidden-dim --atom-ffn-num-layers --atom-multiclass-num-classes --bond-task-weights --bond-ffn-hidden-dim --bond-ffn-num-layers
--bond-multiclass-num-classes --atom-constrainer-ffn-hidden-dim --atom-constrainer-ffn-num-layers --bond-constrainer-ffn-hidden-dim
--bond-constrainer-ffn-num-layers -w --weight-column --target-columns --mol-target-columns --atom-target-columns --bond-target-columns --ignore-columns
--no-cache --splits-column -t --task-type -l --loss-function --v-kl --evidential-regularization --eps --alpha --metrics --metric --tracking-metric
--show-individual-scores --task-weights --warmup-epochs --init-lr --max-lr --final-lr --epochs --patience --min-delta --grad-clip --class-balance --split
--split-type --split-sizes --split-key-molecule --num-replicates -k --num-folds --save-smiles-splits --save-data-splits --splits-file --data-seed
--pytorch-seed""",
    "predict": f"""{BOTH} -i --test-path -o --output --preds-path --drop-extra-columns --model-paths --model-path --callback --callback-params --cal-path
--uncertainty-method --calibration-method --evaluation-methods --evaluation-method --uncertainty-dropout-p --dropout-sampling-size
--calibration-interval-percentile --conformal-alpha --cal-descriptors-path --cal-atom-features-path --cal-atom-descriptors-path --cal-bond-features-path
--cal-bond-descriptors-path --cal-constraints-path""",
}


def own(command: str) -> set[str]:
    group: Any = get_command(app)
    return {name for option in group.commands[command].params for name in option.opts}


def translated(command: str, option: str, known: set[str]) -> list[str]:
    try:
        return list(translate(command, [option, "1"], known))
    except ValueError:
        return []


@pytest.mark.parametrize("command", ["train", "predict"])
def test_no_option_is_unknown(command: str) -> None:
    options, known = OPTIONS[command].split(), own(command)
    assert len(options) == len(set(options))
    for option in options:
        if not (words := translated(command, option, known)):
            assert option not in known
            assert f"{option} is an option of chemprop that reign {command} does not have: " in fails(command, option, "1")
        else:
            assert words[0] in known, option
    said = " ".join(
        [*SHARED, *(OF_TRAIN if command == "train" else OF_PREDICT), *(SETTINGS if command == "train" else ()), *SAME[command]]
    ).split()
    assert len(said) == len(set(said))
    assert set(said) <= set(options) | {"-n"}  # no word of ours is one that chemprop does not have


def test_refusals_are_one_line() -> None:
    said = fails("train", "-i", "any.csv", "--reaction-columns", "rxn", "-o", "run")
    assert said == (
        "reign: --reaction-columns is an option of chemprop that reign train does not have: reign reads molecules, not reactions; --smiles-columns can name "
        "several columns.\n"
    )
    assert "use --checkpoint RUN --freeze-encoder" in fails("train", "--model-frzn=old")
    assert "use reign evaluate RUN" in fails("predict", "--evaluation-methods", "nll")
    assert "--depth is 3 4, expected one value" in fails("train", "--depth", "3", "4")
    assert "--depth is given without a value, expected one value" in fails("train", "-i", "any.csv", "--depth")
    assert "No such option" in fails("train", "--no-word-of-chemprop")
    assert "--num-folds" in fails("train", "-i", __file__, "--split", "CV", "-o", "run")
    assert "is the number of folds" in fails("train", "-i", __file__, "--split", "CV", "-o", "run")
    assert "give only one of them" in fails("train", "zinc/gin", "--set", "seeds=[3, 5]", "--ensemble-size", "2", "-o", "run")


def test_where_values_end() -> None:
    assert list(translate("train", ["--ffn-hidden-dim", "64", "32", "mine.yaml"], ["--set"])) == [
        "--set", "model.head.hidden=[64,32]", "mine.yaml",
    ]  # fmt: skip
    assert list(translate("train", ["--max-lr=0.1", "mine.yaml", "-k5"], ["--set"])) == [
        "--set", "train.optimiser.lr=0.1", "mine.yaml", "--num-folds", "5",
    ]  # fmt: skip


def test_a_command_in_the_words_of_chemprop(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(str(tmp_path))
    smiles = [start + "C" * n for start in ("O", "N", "c1ccccc1") for n in range(1, 15)]
    columns = {"a": [float(len(text)) for text in smiles], "b": [0.5 * text.count("C") for text in smiles]}
    pd.DataFrame({"smiles": smiles, **columns, "noise": range(3, 3 + len(smiles))}).to_csv("mols.csv", index=False)
    words = "--save-dir run --split SCAFFOLD_BALANCED --data-seed 3 --depth 1 --message-hidden-dim=8 --ffn-hidden-dim 6 4 --patience 3 --epochs 1 --max-lr 0.01"
    more = "--task-weights 1 2 -l mae --ignore-columns noise --grad-clip 5 --pytorch-seed 7 --ensemble-size 2 -w noise -b 16"
    works("train", "-i", "mols.csv", *words.split(), *more.split(), "-q", "--no-report")
    run = load("run")
    recipe = run.recipe
    assert (recipe.data.split, recipe.data.split_seed, recipe.data.weight_column) == ("scaffold_balanced", 3, "noise")
    assert (recipe.model.num_layers, recipe.model.hidden_channels, recipe.model.options["head"]) == (1, 8, {"hidden": [6, 4]})
    assert (recipe.train.patience, recipe.train.optimiser.lr, recipe.train.clip, recipe.seeds) == (3, 0.01, 5, [7, 8])
    assert (recipe.train.loss, recipe.train.metric, recipe.train.task_weights) == ("l1", "mae", [1.0, 2.0])
    assert run.targets == ["a", "b"]
    works("train", "--resume", "run", "--ensemble-size", "3", "-q", "--no-report")
    assert load("run").recipe.seeds == [7, 8, 9]
    works("predict", "--test-path", "mols.csv", "--model-path", "run", "--preds-path", "out.csv", "-n", "1", "-q")
    assert {"a_pred", "b_pred"} < set(pd.read_csv("out.csv").columns)
