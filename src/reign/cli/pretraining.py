"""``reign pretrain``."""

from pathlib import Path
from typing import Annotated

import typer

from reign.cli import options
from reign.cli.options import data_option, machine_option, model_option, output_option, training_option
from reign.cli.tools import at_least_one, fail, plain_console, user_mistakes


def pretrain(
    smiles: Annotated[Path, typer.Argument(help="A file with one SMILES in each line; it may be compressed (.xz).")],
    output: Annotated[
        Path, output_option("-o", "--output-dir", help="Folder of the training; the encoder is in its folder encoder.")
    ],
    data: Annotated[str, data_option(help="Where the molecules are from, for the card of the encoder.")] = "",
    licence: Annotated[str, data_option(help="The licences of the molecules and of the encoder, for its card.")] = "",
    corpus: Annotated[
        Path | None,
        data_option(help="File that keeps the descriptors for further trainings; OUTPUT/corpus.safetensors if not given."),
    ] = None,
    limit: Annotated[int | None, data_option(help="Learn from this many molecules only, drawn at random.")] = None,
    only_read: Annotated[bool, data_option("--only-read", help="Compute the descriptors, and do not train.")] = False,
    model: Annotated[str | None, model_option(help="A model, such as dss (reign models lists them).")] = None,
    policy: Annotated[str | None, model_option(help="A policy, such as ego+:2.")] = None,
    minutes: Annotated[float | None, training_option(help="Minutes of training, without the reading; 60 if not given.")] = None,
    settings: options.Settings = None,
    num_workers: Annotated[int, machine_option(help="Number of processes that compute descriptors.")] = 1,
    accelerator: options.Accelerator = "auto",
    quiet: options.Quiet = False,
) -> None:
    """Train an encoder on RDKit's descriptors of many molecules, without measurements.

    reign pretrain molecules.smi.xz -o ENCODER --minutes 30

    reign train -i table.csv --checkpoint ENCODER/encoder

    The same command continues a training that was stopped.
    """
    with user_mistakes():
        from reign.cli.progress import showing_progress
        from reign.data.molecules import Corpus
        from reign.experiments.pretrain import PretrainConfig
        from reign.experiments.pretrain import pretrain as run
        from reign.train.engine.execution import make_fabric
        from reign.train.settings.yaml import override

        at_least_one("--limit", limit)
        file = corpus or output / "corpus.safetensors"
        if not smiles.is_file() and not file.is_file():
            fail(f"the file {smiles} does not exist.")
        changes = [{"model": options.given(name=model, policy=policy)}]
        if minutes is not None:
            changes.append({"train": {"schedule": {"minutes": minutes}}})
        config = PretrainConfig.of(*changes, *(override(text) for text in settings or []))
        with showing_progress(not quiet) as callback:
            if file.is_file():
                found = Corpus.load(file)
            else:
                found = Corpus.read(smiles, num_workers, limit, config.seed, callback.track)
                file.parent.mkdir(parents=True, exist_ok=True)
                found.save(file)
            if only_read:
                plain_console().print(
                    f"{found.tensors['nodes'].numel():,} molecules with {len(found.names)} descriptors are in {file}."
                )
                return
            about = {"data": data, "licence": licence, "left_out": found.failed}
            problem = found.problem(config.val_share, config.seed)
            encoder = run(problem, config, output, about, make_fabric(config.train.precision, accelerator), callback)
    scores = encoder.card["validation"]
    plain_console().print(
        f"The encoder is in {encoder.folder}: {encoder.card['parameters']:,} weights, R2 {scores['r2_mean']:.3f} over the descriptors of validation molecules."
    )
