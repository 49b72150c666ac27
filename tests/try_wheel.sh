#!/bin/sh
# Install a wheel into an empty environment, and use it in an empty folder, so that whatever the wheel lacks is missed.
# usage: tests/try_wheel.sh PYTHON TORCH_VERSION WHEEL
set -eu
python=$1 torch=$2 wheel=$(realpath "$3") demo=$(realpath "$(dirname "$0")/../examples/demo.py")
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
unset PYTHONPATH

echo "1/4  installing $(basename "$wheel") with torch $torch"
"$python" -m venv "$place/env"
"$place/env/bin/python" -m pip install --quiet "torch==$torch"
"$place/env/bin/python" -m pip install --quiet "$wheel[train,chem]"
PATH="$place/env/bin:$PATH"
export REIGN_CACHE="$place/cache" OMP_NUM_THREADS=1
mkdir "$place/work"
cd "$place/work"

echo "2/4  what the wheel holds"
reign --version
python -c "import pathlib, reign; folder = pathlib.Path(reign.__file__).parent; assert 'env' in folder.parts, folder
assert (folder / 'py.typed').is_file() and len(list((folder / 'experiments/recipes').glob('*.yaml'))) > 5
assert all((folder / 'explore/page' / name).is_file() for name in ('index.html', 'explore.js', 'explore.css'))"
reign recipes zinc >/dev/null
reign models >/dev/null

echo "3/4  the training of the demo, for one epoch"
python -c "import runpy; demo = runpy.run_path('$demo'); demo['SETTINGS']['train']['epochs'] = 1; demo['main']()"

echo "4/4  training on a table of molecules, and predicting"
printf 'smiles,y\nC,1\nCC,2\nCCC,3\nCCO,3\nCCCC,4\nCCCO,4\nCCCCC,5\nCCCCO,5\nc1ccccc1,6\nCc1ccccc1,7\n' >mols.csv
reign train -i mols.csv --target-columns y -o run --epochs 2 -q
reign predict -i mols.csv --model-paths run -o out.csv -q
test "$(wc -l <out.csv)" -eq 11
head -n 3 out.csv
