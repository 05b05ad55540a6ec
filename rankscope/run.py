"""Run: one run, read and analysed, for notebooks and scripts. What `rankscope.load` returns.

Tables are pandas DataFrames: times integer nanoseconds, sizes integer bytes, absent values `<NA>`. What each column
means is in `help(run.attribution)`, in `frame.attrs["columns"]` and in docs/tables.md.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from rankscope.analyzers.one_rank.operators import OperatorTable, operators
from rankscope.analyzers.results import collectives as collective_results
from rankscope.analyzers.results import pulse as pulse_results
from rankscope.analyzers.results import rows as results
from rankscope.analyzers.results import tables as result_tables
from rankscope.analyzers.trace.table import Table

if TYPE_CHECKING:
    import pandas as pd

    from rankscope.analyzers.analysis import Analysis
    from rankscope.analyzers.findings import Diagnosis
    from rankscope.analyzers.one_rank.rank_record import RecordOptions
    from rankscope.analyzers.trace.model import Trace
    from rankscope.reports.exports.source import Source

Method = TypeVar("Method", bound=Callable[..., object])


def frame(table: Table) -> pd.DataFrame:
    """A table as a DataFrame; `attrs["columns"]` says what each column means."""
    import pandas as pd

    columns: dict[str, object] = {}
    for name, column in table.declared.items():
        values, valid = table.columns[name], table.valid(name)
        if column.dtype == object:
            columns[name] = pd.array([v if ok else None for v, ok in zip(values, valid, strict=True)], dtype="string")
        elif not column.nullable:
            columns[name] = values
        elif column.dtype.kind == "f":
            columns[name] = pd.arrays.FloatingArray(values.astype("float64"), ~valid)
        else:
            columns[name] = pd.arrays.IntegerArray(values.astype("int64"), ~valid)
    made = pd.DataFrame(columns)
    made.attrs["columns"] = {name: column.doc for name, column in table.declared.items()}
    return made


def _columns_of(kind: type[Table]) -> Callable[[Method], Method]:
    """Ends the docstring of a method with the columns of the table that it returns."""

    def documented(method: Method) -> Method:
        lines = [f"        {name}: {column.doc}" for name, column in kind.declared.items()]
        method.__doc__ = "\n".join([f"{method.__doc__}\n", f"        {kind.__doc__}\n", *lines, ""])
        return method

    return documented


@dataclass
class Run:
    """One run. Everything is computed when it is first asked for; `read` gives one rank's whole trace."""

    analysis: Analysis
    options: RecordOptions  # what was added to the tables of names
    read: Callable[[int], Trace] = field(repr=False)

    @property
    def id(self) -> str:
        """What `run=` chooses this run by."""
        return self.analysis.run.id

    @property
    def ranks(self) -> list[int]:
        """The ranks that were read: with a trace, or in the run directory."""
        recording = self.analysis.run.recording
        return sorted({*self.analysis.ranks, *(recording.ranks if recording else ())})

    @property
    def damaged(self) -> list[str]:
        """Files that could not be read whole."""
        return list(self.analysis.run.damaged)

    def traces(self) -> Iterator[tuple[int, Trace]]:
        """Each rank with its whole trace, one in memory at a time; from the cache where it has them.

        Raises `UnreadableTrace` when a file has gone or changed since.
        """
        for rank in self.analysis.ranks:
            yield rank, self.read(rank)

    @_columns_of(result_tables.AttributionTable)
    def attribution(self) -> pd.DataFrame:
        """Where the time went, by rank, device and window."""
        return frame(results.attribution(self.analysis))

    @_columns_of(result_tables.StepTable)
    def steps(self) -> pd.DataFrame:
        """The steps: how long, what with, and who held the others up."""
        return frame(results.steps(self.analysis))

    @_columns_of(collective_results.CollectiveTable)
    def collectives(self) -> pd.DataFrame:
        """Every collective of every rank, with its arrival, wait and transfer."""
        return frame(collective_results.collectives(self.analysis))

    @_columns_of(result_tables.TrafficTable)
    def traffic(self) -> pd.DataFrame:
        """Collectives by group, name and size, with bandwidth."""
        return frame(results.traffic(self.diagnose()))

    @_columns_of(result_tables.WaitTable)
    def waits(self) -> pd.DataFrame:
        """Who waited, and who is charged with it, by rank and step."""
        return frame(results.waits(self.analysis))

    @_columns_of(result_tables.WaitedForTable)
    def waited_for(self) -> pd.DataFrame:
        """Who waited for whom."""
        return frame(results.waited_for(self.diagnose()))

    @_columns_of(result_tables.KernelTable)
    def kernels(self) -> pd.DataFrame:
        """Kernels and copies by rank and name."""
        return frame(results.kernels(self.analysis))

    @_columns_of(OperatorTable)
    def operators(self) -> pd.DataFrame:
        """Operators by rank and name. Reads the whole traces again, one at a time."""
        return frame(self.operator_table)

    @_columns_of(result_tables.ClockTable)
    def clocks(self) -> pd.DataFrame:
        """The ranks' clocks against each other."""
        return frame(results.clocks(self.diagnose()))

    @_columns_of(pulse_results.PulseTable)
    def pulse(self) -> pd.DataFrame:
        """Every step that the collector recorded, by rank, with its stages. Empty without a run directory."""
        return frame(pulse_results.pulse(self.analysis))

    @_columns_of(pulse_results.StageTable)
    def stages(self) -> pd.DataFrame:
        """The stages of a step by rank, and whose the group's step is made of. Empty without a run directory."""
        return frame(pulse_results.stages(self.analysis))

    @_columns_of(result_tables.FindingTable)
    def findings(self) -> pd.DataFrame:
        """The findings of all rules. `diagnose` has their evidence too."""
        return frame(results.findings(self.diagnose()))

    def diagnose(self, rules: Collection[str] | None = None, *, gpu_hour_price: float | None = None) -> Diagnosis:
        """Apply the rules with these ids (None: all). `gpu_hour_price`: of one device, in any currency."""
        from rankscope.analyzers import diagnose as judge
        from rankscope.analyzers.rules import load_rules

        if rules is None and gpu_hour_price is None:
            return self._diagnosis
        return judge.diagnose(self.analysis, load_rules(rules), gpu_hour_price=gpu_hour_price)

    def tables(self) -> dict[str, Table]:
        """All tables by name as columns of numpy, operators too: what the exports write."""
        return results.results(self.analysis, self.diagnose()) | {"operators": self.operator_table}

    def source(self) -> Source:
        """What `rankscope.reports.exports` writes from."""
        from rankscope.reports.exports.source import Source

        return Source(self.analysis, self.diagnose(), self.options, self.read)

    @cached_property
    def operator_table(self) -> OperatorTable:
        """`operators` as columns of numpy."""
        return operators(self.traces())

    @cached_property
    def _diagnosis(self) -> Diagnosis:
        from rankscope.analyzers import diagnose as judge
        from rankscope.analyzers.rules import load_rules

        return judge.diagnose(self.analysis, load_rules(None))

    @property
    def _judged(self) -> list[int]:
        pulse = self.analysis.pulse
        return self.analysis.steps or (pulse.steps if pulse else [])

    def __repr__(self) -> str:
        return f"<rankscope.Run {self.id!r}: {len(self.ranks)} ranks, {len(self._judged)} judged steps>"

    def _repr_html_(self) -> str:
        """The verdict, and the whole report folded below it: its style and script touch nothing else of the page."""
        from rankscope.reports.names import visible
        from rankscope.reports.renderers import html as page

        diagnosis = self.diagnose()
        whole = html.escape(page.render(diagnosis), quote=True)
        title = html.escape(visible(f"{self.id}: {len(self.ranks)} ranks"))
        return (
            f"<p><b>{title}</b><br>{html.escape(visible(diagnosis.verdict))}</p><details><summary>the whole report"
            f'</summary><iframe sandbox="allow-scripts" srcdoc="{whole}" width="100%" height="800" '
            'style="border:0"></iframe></details>'
        )
