"""Write the structure of one picture of each kind, after they were looked at: python tests/unit/plots/make_reference.py."""

import json
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]

from samples import pictures  # noqa: E402

from pictures import structure  # noqa: E402

if __name__ == "__main__":
    found = {name: structure(picture.svg) for name, picture in pictures().items()}
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(value)}" for name, value in found.items())
    (HERE / "reference.json").write_text("{\n" + lines + "\n}\n")
