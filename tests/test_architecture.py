"""The house rules that no linter holds: sizes, import weight, links, rules that explain themselves, whole packages."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = {
    "analyzers": "../analyzers",
    "collector": "../collector",
    "kernels": "../kernels",
    "reports": "../reports",
    "simulator": "../tests/simulator",
    "ui": "../ui",
}
SOURCES = sorted(
    path
    for top in ("rankscope", "analyzers", "collector", "kernels", "reports", "ui", "tests/simulator", "benchmarks")
    for path in ((ROOT / top).glob("*.py") if top == "rankscope" else (ROOT / top).rglob("*.py"))
)
RULES = sorted(path for path in (ROOT / "analyzers/rules").glob("*.py") if not path.name.startswith("_"))
HEAVY = ("torch", "numpy", "polars", "pandas", "pyarrow", "msgspec", "plotly", "dash", "rich", "triton", "ray")
MAX_FILE, MAX_READER_FILE, MAX_CLASS, MAX_FUNCTION = 300, 400, 200, 50  # lines, lines, lines, statements
BROAD_EXCEPT_ALLOWED = {"analyzers/diagnose.py", "collector/session.py", "analyzers/loading/worker.py"}


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def syntax(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def calls(path: Path) -> Iterator[tuple[str, int]]:
    """Names called in the file, with their lines."""
    for node in ast.walk(syntax(path)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield node.func.id, node.lineno


def tracked() -> list[Path]:
    """Files of the repository, without symlinks."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listing = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], capture_output=True, check=True, text=True).stdout
    paths = [ROOT / entry for entry in listing.split("\0") if entry]
    return [path for path in paths if path.is_file() and not path.is_symlink()]


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_files_classes_and_functions_keep_their_budgets(path: Path) -> None:
    budget = MAX_READER_FILE if name(path) == "analyzers/trace/readers/kineto.py" else MAX_FILE
    lines = path.read_text(encoding="utf-8").count("\n")
    assert lines <= budget
    for node in ast.walk(syntax(path)):
        if isinstance(node, ast.ClassDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            assert length <= MAX_CLASS, f"class {node.name}"
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            statements = sum(isinstance(child, ast.stmt) for child in ast.walk(node)) - 1
            assert statements <= MAX_FUNCTION, f"{node.name} has {statements} statements"


def test_nothing_prints_outside_what_a_person_touches() -> None:
    silent = [p for p in SOURCES if not name(p).startswith(("ui/", "reports/renderers/", "benchmarks/"))]
    assert [(name(p), line) for p in silent for called, line in calls(p) if called == "print"] == []


def test_no_text_is_run_as_code_and_pickles_are_read_in_one_place() -> None:
    assert [(name(p), line) for p in SOURCES for called, line in calls(p) if called in ("eval", "exec")] == []
    imports = [
        (name(path), alias.name)
        for path in SOURCES
        for node in ast.walk(syntax(path))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in [*node.names, ast.alias(node.module or "") if isinstance(node, ast.ImportFrom) else ast.alias("")]
    ]
    loading = {place for place, module in imports if module.split(".")[0] in ("pickle", "marshal", "shelve", "dill")}
    assert loading == {"analyzers/hang/pickles.py"}  # plain values only, looked through before they are read


def test_everything_is_caught_only_where_failure_is_a_result() -> None:
    def broad(handler: ast.ExceptHandler) -> bool:
        last = handler.body[-1]
        if isinstance(last, ast.Raise) and last.exc is None:  # tidies up and lets the error go on
            return False
        caught = ast.unparse(handler.type) if handler.type else ""
        return caught in ("", "Exception", "BaseException")

    found = {
        name(path)
        for path in SOURCES
        for node in ast.walk(syntax(path))
        if isinstance(node, ast.ExceptHandler) and broad(node)
    }
    assert found <= BROAD_EXCEPT_ALLOWED


@pytest.mark.parametrize("module", ["rankscope", "rankscope.collector"])
def test_importing_the_face_and_the_collector_loads_no_library(module: str) -> None:
    code = f"import sys, {module}; print([name for name in {HEAVY!r} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_public_names_are_there_and_are_lazy() -> None:
    import rankscope

    assert {"diagnose", "load"} <= set(rankscope.__all__)
    for public in rankscope.__all__:
        assert getattr(rankscope, public) is not None
        assert public in dir(rankscope)


@pytest.mark.parametrize(("folder", "target"), FOLDERS.items())
def test_folders_are_linked_into_the_package_relatively(folder: str, target: str) -> None:
    link = ROOT / "rankscope" / folder
    assert link.is_symlink() and Path(os.readlink(link)).as_posix() == target
    assert (link / "__init__.py").is_file()


def test_every_package_folder_says_what_it_is_for() -> None:
    packages = [path for path in SOURCES if path.name == "__init__.py"]
    assert len(packages) > len(FOLDERS)
    assert [name(path) for path in packages if not ast.get_docstring(syntax(path))] == []


# ---- the architecture page draws what is imported ----------------------------------------------------------------------

PAGE = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
ARROWS = PAGE.partition("## Who may import whom")[2].partition("\n## ")[0]
Edge = tuple[str, str]


def drawn(block: str) -> tuple[set[Edge], set[str]]:
    """Arrows of the page, each unit by its full module name, and the units that import nothing of ours."""
    arrows, alone = set(), set()
    for line in re.findall(r"^ {4}(\S.*)", block, re.MULTILINE):
        steps = [step.split(", ") for step in line.split("  ")[0].strip().split(" -> ")]
        if steps[-1] == ["nothing of ours"]:
            alone |= {full(unit) for unit in steps[0]}
            continue
        for left, right in pairwise(steps):
            arrows |= {(full(a), full(b)) for a in left for b in right}
    return arrows, alone


def full(unit: str) -> str:
    if unit == "rankscope":
        return unit
    return f"rankscope.{unit}" if unit.partition(".")[0] in FOLDERS else f"rankscope.analyzers.{unit}"


def imports() -> set[Edge]:
    """(module, module imported) for all of ours, those for type checking left out."""
    found = set()
    for path in SOURCES:
        where = name(path).removeprefix("tests/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        if where.startswith("benchmarks") or where == "rankscope.__main__":
            continue
        module = where if where.partition(".")[0] == "rankscope" else f"rankscope.{where}"
        found |= {(module, imported) for imported in imported_by(syntax(path)) if imported.startswith("rankscope")}
    return found


def imported_by(node: ast.AST) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        if isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            for alias in child.names:
                inside = f"{child.module}.{alias.name}"
                yield (
                    inside
                    if (ROOT / inside.replace(".", "/")).with_suffix(".py").is_file() or is_package(inside)
                    else str(child.module)
                )
        else:
            yield from imported_by(child)


def is_package(module: str) -> bool:
    return (ROOT / module.replace(".", "/") / "__init__.py").is_file()


def inside(module: str, unit: str) -> bool:
    """The face is its own modules only, not the whole package."""
    if unit == "rankscope":
        return module == "rankscope" or module == "rankscope.run"
    return module == unit or module.startswith(f"{unit}.")


def unit_of(module: str, units: set[str]) -> str | None:
    return max((unit for unit in units if inside(module, unit)), key=len, default=None)


def allowed(edge: Edge, arrows: set[Edge]) -> bool:
    """Whether arrows lead from one unit, or what it is part of, to another; of a whole folder they lead to all parts."""
    first, second = edge
    if inside(first, second) or inside(second, first):
        return True
    ahead = {first, *(a for a, _ in arrows if inside(first, a))}
    reached: set[str] = set()
    while ahead:
        behind = {b for a, b in arrows if a in ahead}
        ahead, reached = behind - reached, reached | behind
    folders = {unit for unit in reached if unit.count(".") == 1 and not inside(first, unit)}
    return second in reached or any(inside(second, folder) for folder in folders)


def disagreements(block: str, taken: set[Edge]) -> list[str]:
    """What the page draws and nobody imports, and what is imported against or beside its arrows."""
    arrows, alone = drawn(block)
    units = {unit for arrow in arrows for unit in arrow} | alone
    never = [f"{a} -> {b}: never" for a, b in arrows if not any(inside(x, a) and inside(y, b) for x, y in taken)]
    between = {(unit_of(a, units), unit_of(b, units)): f"{a} -> {b}" for a, b in taken}
    return sorted(never) + sorted(
        told
        for (a, b), told in between.items()
        if a is not None and a != b and b is not None and not (inside(b, a) if a in alone else allowed((a, b), arrows))
    )


def test_the_arrows_of_the_architecture_page_are_the_imports() -> None:
    assert len(drawn(ARROWS)[0]) > 10
    assert disagreements(ARROWS, imports()) == []


def test_a_wrong_arrow_and_a_wrong_import_are_both_found() -> None:
    taken = imports()
    against = ("rankscope.analyzers.one_rank.steps", "rankscope.analyzers.rules.slow_link")
    past = ("rankscope.analyzers.rules.slow_link", "rankscope.analyzers.trace.readers.kineto")
    out = ("rankscope.collector.run_dir", "rankscope.analyzers.intervals")
    for wrong in (against, past, out):
        assert disagreements(ARROWS, taken | {wrong}) == [" -> ".join(wrong)]
    stale = disagreements(f"{ARROWS}\n    simulator -> trace\n", taken)
    assert "rankscope.simulator -> rankscope.analyzers.trace: never" in stale


def test_every_folder_of_analyzers_is_in_the_layout() -> None:
    layout = PAGE.partition("## Layout")[2].partition("\n## ")[0]
    folders = {path.parent.name for path in (ROOT / "analyzers").glob("*/__init__.py")}
    assert folders <= set(re.findall(r"^ +(\w+)/ ", layout, re.MULTILINE))


# ---- rules explain themselves ----------------------------------------------------------------------------------------


def test_the_first_ten_rules_are_there() -> None:
    assert {path.stem for path in RULES} >= {
        "straggler_rank", "data_starved", "exposed_collectives", "host_bound_launch", "sync_points", "checkpoint_stall",
        "pageable_copy", "allocator_retries", "slow_link", "missing_communication",
    }  # fmt: skip


@pytest.mark.parametrize("path", RULES, ids=lambda path: path.stem)
def test_a_rule_documents_itself(path: Path) -> None:
    doc = ast.get_docstring(syntax(path)) or ""
    headings = ["Why it matters", "How it is measured", "What to do"]
    places = [doc.find(heading) for heading in headings]
    assert -1 not in places and places == sorted(places)
    defined = {
        n.id
        for node in syntax(path).body
        for n in ast.walk(node)
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    }
    assert "TITLE" in defined
    assert any(isinstance(node, ast.FunctionDef) and node.name == "check" for node in syntax(path).body)


@pytest.mark.parametrize("path", RULES, ids=lambda path: path.stem)
def test_thresholds_of_rules_say_where_they_come_from(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    for node in syntax(path).body:
        value = getattr(node, "value", None)
        if (
            isinstance(node, ast.Assign | ast.AnnAssign)
            and isinstance(value, ast.Constant)
            and isinstance(value.value, int | float)
        ):
            above = lines[node.lineno - 2].strip() if node.lineno > 1 else ""
            assert "#" in lines[node.lineno - 1] or above.startswith("#"), f"line {node.lineno}: no source"


# ---- what is tracked, and what is shipped ----------------------------------------------------------------------------


def test_no_file_speaks_of_the_machine_it_was_written_on() -> None:
    absolute = re.compile(r"(?<![\w/.:~<>{}\\-])/(?:root|work|workspace|farm)/\w")
    registry = re.compile(r"(?:index-url|find-links|extra-index-url|file://)")
    found = []
    for path in tracked():
        if path == Path(__file__) or path.suffix in (".png", ".gz", ".svg"):
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        found += [(name(path), match.group()) for pattern in (absolute, registry) for match in pattern.finditer(text)]
    assert found == []


def test_no_tracked_file_is_large() -> None:
    assert [name(path) for path in tracked() if path.stat().st_size > 1_000_000] == []


def test_a_sub_folder_of_the_package_is_never_imported_by_its_short_name() -> None:
    short = re.compile(rf"^\s*(?:from|import) ({'|'.join(FOLDERS)})\b", re.MULTILINE)
    tests = sorted((ROOT / "tests").rglob("*.py"))
    assert [
        (name(path), found) for path in [*SOURCES, *tests] for found in short.findall(path.read_text("utf-8"))
    ] == []


def test_wheel_and_sdist_hold_every_file_of_the_package(tmp_path: Path) -> None:
    copy, out = tmp_path / "checkout", tmp_path / "out"
    out.mkdir()
    skip = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "build", "dist", "demo")
    shutil.copytree(
        ROOT,
        copy,
        symlinks=True,
        ignore=lambda at, names: skip(at, names) if at == str(ROOT) else {"__pycache__"} & set(names),
    )
    build = f"from setuptools import build_meta as b; b.build_wheel({str(out)!r}); b.build_sdist({str(out)!r})"
    result = subprocess.run([sys.executable, "-c", build], cwd=copy, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr[-2000:]
    (wheel,), (sdist,) = out.glob("*.whl"), out.glob("*.tar.gz")
    expected = {"rankscope/py.typed", "rankscope/__init__.py", "rankscope/__main__.py"}
    for folder in FOLDERS:
        inside = (copy / "rankscope" / folder).resolve()
        expected |= {
            f"rankscope/{folder}/{path.relative_to(inside).as_posix()}" for path in inside.rglob("*") if path.is_file()
        }
    in_wheel = set(zipfile.ZipFile(wheel).namelist())
    with tarfile.open(sdist) as archive:
        assert not [member.name for member in archive if member.issym() or member.islnk()]
        in_sdist = {member.name.partition("/")[2] for member in archive}
    assert expected - in_wheel == set()
    assert expected - in_sdist == set()
    assert {"LICENSE", "README.md", "pyproject.toml"} <= in_sdist
