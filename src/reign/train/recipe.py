"""A recipe: all settings of one run. Error messages name the field."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import Field, ValidationError, model_validator

from reign.disk import write_text
from reign.train.config import DataConfig, ModelConfig, Seed, TrainingConfig
from reign.train.overrides import read_yaml
from reign.train.settings import Settings, explain


class Recipe(Settings):
    """The settings of one run: data, model, training, and one or several seeds."""

    data: DataConfig
    model: ModelConfig = ModelConfig()
    train: TrainingConfig = TrainingConfig()
    seeds: list[Seed] = Field([0], min_length=1)
    folds: Annotated[int, Field(ge=2)] | None = Field(
        None, description="number of cross-validation folds; the reported epoch has the best mean over folds"
    )

    @model_validator(mode="after")
    def _check(self) -> "Recipe":
        if len(set(self.seeds)) != len(self.seeds):
            raise ValueError(f"seeds are {self.seeds}, expected distinct numbers")
        return self

    @classmethod
    def check(cls, values: Mapping[str, Any], source: str = "the recipe") -> "Recipe":
        """Make settings from plain values. A single ``ValueError`` lists every wrong field, with the closest existing names."""
        try:
            return cls.model_validate(dict(values))
        except ValidationError as error:
            raise ValueError(f"{source}: {explain(error, cls)}") from None

    def save(self, file: Path) -> None:
        """Write as YAML."""
        write_text(file, yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False))

    @classmethod
    def load(cls, file: Path) -> "Recipe":
        """Read what ``save`` wrote. Runs of versions without ``data.stereo`` have OGB's feature of chirality."""
        values = read_yaml(file)
        data = values.get("data")
        if isinstance(data, dict) and data.get("name", "csv") == "csv":
            values = {**values, "data": {"stereo": "ogb", **data}}
        return cls.check(values, str(file))
