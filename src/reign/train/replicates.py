"""Train on several splits of a table."""

from pathlib import Path

from reign.train.settings.config import Recipe


def replicates(recipe: Recipe, folder: Path, number: int) -> list[tuple[Recipe, Path]]:
    """Recipes with the split seeds s, s + 1, ..., and their folders, ``folder/replicate-0`` and so on."""
    if recipe.data.name != "csv" or recipe.data.splits_column is not None:
        raise ValueError(
            "--num-replicates draws several splits, but the splits are given; leave --splits-column out, or use --seeds."
        )
    plans = []
    for r in range(number):
        data = recipe.data.model_copy(update={"split_seed": recipe.data.split_seed + r})
        plans.append((recipe.model_copy(update={"data": data}), folder / f"replicate-{r}"))
    return plans
