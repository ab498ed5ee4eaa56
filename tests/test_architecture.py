"""Imports only go downwards, every module has its place, and importing the package costs next to nothing."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import nanfold

ROOT = Path(nanfold.__file__).parent

# From the ground up: a module may use what stands on the lines above its own, and nothing beside it. A package is one
# place; within it only circles are forbidden. A new module has to be placed here, and those of later plans already are.
LAYERS = (
    ("_kernels", "_krylov", "_threads", "_vectors"),
    ("_passes", "chunked"),
    ("observed",),
    ("observation",),
    ("gram", "least_squares", "likelihood"),
    ("spectrum",),
    ("assist", "diagonal", "loadings", "datasets", "gp", "_cells"),
    ("_clusterings",),
    ("smoothing", "refinement"),
    ("correction",),
    ("components", "neighbors", "dropout"),
    ("pca",),
    ("representation",),
    ("together",),
    ("tsne", "umap", "gplvm", "baselines", "io"),
    ("imputation", "inspection"),
    ("_anndata",),
    ("pp", "tl", "pl"),
    ("bench", "demo", "paper", "study"),
    ("report",),
    ("commands",),
    ("cli", "__main__"),
)
HEIGHT = {place: height for height, layer in enumerate(LAYERS) for place in layer}

# What is not needed to fit a model, or takes long to import: nowhere at the top of a module, bar those that are
# themselves imported only when they are needed.
HEAVY = {"umap", "openTSNE", "pandas", "anndata", "scanpy", "matplotlib"}
HEAVY |= {"h5py", "pyarrow", "dask", "distributed", "torch"}
DRAWS = {"demo.pictures", "paper.figures"}


def name_of(path: Path) -> str:
    """The module's name below nanfold: "gram", "observed.dense"; "observed" for its __init__."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for path in sorted(ROOT.rglob("*.py")) if path != ROOT / "__init__.py"}


def imports_of(tree: ast.Module) -> set[str]:
    """The modules below nanfold that a file imports, inside functions too."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name.removeprefix("nanfold.") for alias in node.names if alias.name.startswith("nanfold.")}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are written in full"
            if node.module == "nanfold":
                found |= {alias.name for alias in node.names if alias.name in MODULES}
            elif node.module and node.module.startswith("nanfold."):
                module = node.module.removeprefix("nanfold.")
                below = {f"{module}.{alias.name}" for alias in node.names} & MODULES.keys()
                found |= below or {module}
    return found


IMPORTS = {name: imports_of(ast.parse(path.read_text())) for name, path in MODULES.items()}


def place(name: str) -> str:
    return name.split(".")[0]


@pytest.mark.parametrize("name", MODULES)
def test_every_module_has_its_place(name):
    assert place(name) in HEIGHT, f"place {place(name)} in LAYERS: below all that import it, above all that it imports"


@pytest.mark.parametrize("name", MODULES)
def test_imports_go_downwards(name):
    here = place(name)
    for other in IMPORTS[name]:
        there = place(other)
        assert there == here or HEIGHT[there] < HEIGHT[here], f"{name} must not import {other}"


def test_no_circles_within_packages():
    done: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, f"a circle of imports: {' -> '.join((*path, name))}"
        if name in done or name not in IMPORTS:
            return
        for other in IMPORTS[name]:
            visit(other, (*path, name))
        done.add(name)

    for name in IMPORTS:
        visit(name, ())


@pytest.mark.parametrize("name", MODULES)
def test_heavy_imports_are_inside_functions(name):
    tree = ast.parse(MODULES[name].read_text())
    top = set()
    for node in tree.body:
        if isinstance(node, ast.Import):
            top |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            top.add(node.module.split(".")[0])
    assert name in DRAWS or not top & HEAVY


def test_the_test_itself():
    """It sees imports in functions, of modules and of names in them."""
    tree = ast.parse(
        "import nanfold.gram\nfrom nanfold import pca, __version__\nfrom nanfold.observed import dense, observe\n"
        "def f():\n    from nanfold.spectrum import eigenpairs\nimport numpy\n"
    )
    assert imports_of(tree) == {"gram", "pca", "observed.dense", "spectrum"}
    assert place("observed.dense") == "observed"
    assert {"gram", "observed", "observed.contract", "pca"} <= MODULES.keys()
    assert len(HEIGHT) == sum(map(len, LAYERS))


def loaded_by(statement: str) -> set[str]:
    """The top-level modules that a statement loads in a fresh interpreter."""
    code = f"import sys; before = set(sys.modules); {statement}; print(*(set(sys.modules) - before))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return {name.split(".")[0] for name in result.stdout.split()}


def test_importing_the_package_loads_nothing_heavy():
    loaded = loaded_by("import nanfold")
    assert not loaded & (HEAVY | {"numpy", "scipy", "sklearn", "numba", "joblib"})
    assert "numpy" in loaded_by("import nanfold; nanfold.PCA")


def test_fitting_needs_no_optional_package():
    """Nothing heavy beyond what scikit-learn brings with it."""
    loaded = loaded_by("import nanfold, numpy; nanfold.PCA(1).fit(numpy.eye(4)); nanfold.unbiased_gram(numpy.eye(4))")
    assert not (loaded - loaded_by("import sklearn.decomposition")) & HEAVY


def test_public_names():
    for name in nanfold.__all__:
        assert getattr(nanfold, name) is not None
        assert name in dir(nanfold)
    with pytest.raises(AttributeError, match="module 'nanfold' has no attribute 'pcaa'"):
        nanfold.pcaa  # noqa: B018
