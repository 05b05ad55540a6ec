"""One rank, or the ranks of one host or group together, come late to collectives and make the others wait.

Why it matters: every rank of a group moves at the pace of its slowest; the time shows up as communication on the ranks
that wait, which are not at fault.
How it is measured: each exposed nanosecond of waiting is charged to the ranks that had not yet arrived, a delay that
was itself caused by waiting is passed on to its origin, and the rank with most charges is named if it leads step after
step (one-sided sign test at 1 %, corrected for the number of ranks; on fewer steps, above 10 % of the step in every
one). The cost is what fixing it alone returns: the longest exposed wait in the gap before it came; for ranks late
together, in the gap before the first of them; they are named where that returns twice as much, or where none of them
leads alone. What computes longer because it has more tokens or rows is left to `uneven-work`, a group late after slow
transfers to `slow-link`. A rank that waited for another stage of its pipeline, longer than the same stage of the other
pipelines does and by half of its delay, is not named; nor does it count who comes last to collectives that join the
stages of a pipeline, which is its schedule. Without traces the pulse names the rank and the stage, at 5 % of the step:
own time is a stage's time without its waits, and at each boundary of stages the furthest rank is the frontier.
What to do: look at what the rank does longer than its peers (the cause): its kernels and clocks, its loader, its host
process. Do not tune the network.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from rankscope.analyzers.analysis import Analysis
from rankscope.analyzers.causes import ADVICE, ADVICE_CPU_ONLY, Excess, excess
from rankscope.analyzers.findings import CannotTell, Cause, Evidence, Finding, MissingSignal
from rankscope.analyzers.late_for_a_stage import late_for_a_stage
from rankscope.analyzers.persistence import Persistence, persistence, steps_needed
from rankscope.analyzers.pricing import SILENT, of_the_step, step_share, time_finding, unsure
from rankscope.analyzers.pulse.straggler import judged
from rankscope.analyzers.quantities import duration, plural, share, spans
from rankscope.analyzers.rules.slow_link import behind_slow_links
from rankscope.analyzers.rules.uneven_work import with_more_bytes

TITLE = "Straggler rank"
TOGETHER = 2.0  # ranks are named together when that returns so many times what the worst alone does (ours)
READS = ("traces", "pulse")
RECORD = "prof.export_chrome_trace(f'trace/rank{dist.get_rank()}.json.gz')  # on every rank, into one folder"
WORDS: dict[Cause, str] = {
    "compute": "{it} compute{s} longer than the others",
    "data": "{it} wait{s} longer for data than the others",
    "host": "{its} host asks for work later than the others'",
    "unknown": "the trace does not show why",
}


@dataclass(frozen=True, slots=True)
class Suspect:
    """Lanes late together (or one), the wall time they cost in each usable step, and whether they lead in it."""

    lanes: frozenset[int]
    cost_ns: npt.NDArray[np.float64]
    lead_ns: npt.NDArray[np.float64]

    @property
    def typical_ns(self) -> float:
        """Median over steps."""
        return float(np.median(self.cost_ns)) if self.cost_ns.size else 0.0


def check(analysis: Analysis) -> Iterable[Finding]:
    """Name the rank, or the ranks together, that persistently hold the others up."""
    return judged(analysis, by_traces)


def by_traces(analysis: Analysis) -> Iterator[Finding]:
    """The same, as traces show it."""
    if len(analysis.ranks) < 2:
        if (analysis.run.world_size or 1) < 2:
            return
        raise MissingSignal("only one rank's file was given, so nobody can be seen waiting for another", RECORD)
    if not analysis.matches.found:
        raise MissingSignal("no collective could be matched across ranks", RECORD)
    if not analysis.usable:
        return
    suspect, persists = _suspect(analysis)
    if persists is Persistence.NONE or step_share(analysis, suspect.typical_ns) < SILENT:
        return
    if persists is Persistence.TOO_FEW:
        needed = steps_needed(len(analysis.ranks))
        raise CannotTell(
            f"ranks do wait for each other, but {plural(len(analysis.usable), 'usable step')} cannot tell a slow rank "
            f"from chance: record {needed} steps or more"
        )
    finding = _finding(analysis, suspect)
    uneven = finding.cause == "compute" and with_more_bytes(analysis).issuperset(finding.ranks)
    if uneven or behind_slow_links(analysis).issuperset(finding.ranks):
        return
    yield finding if persists is Persistence.TESTED and analysis.steps else unsure(finding)


def _suspect(analysis: Analysis) -> tuple[Suspect, Persistence]:
    """The lane charged most, and how well its lead persists; or lanes late together, when fixing them returns far more,
    or when each of them leads before all others and it does not lead alone.
    """
    caused, alone = np.where(late_for_a_stage(analysis)[:, None], 0.0, analysis.caused), analysis.alone
    worst = int(caused.sum(axis=1).argmax())
    others = np.delete(caused, worst, axis=0).max(axis=0)
    single = Suspect(frozenset({worst}), alone[worst], np.where(caused[worst] > others, alone[worst], -1.0))
    together = [_together(analysis, lanes, np.mean) for lanes in analysis.faults.together]
    best = max(together, key=lambda s: s.typical_ns, default=single)
    first = best if best.typical_ns > TOGETHER * single.typical_ns else single
    persists = persistence(first.lead_ns, analysis.step_ns, len(analysis.ranks))
    if first is best or persists in (Persistence.TESTED, Persistence.LARGE):
        return first, persists
    candidates = len(analysis.ranks) + len(together)
    each = [_together(analysis, lanes, np.min) for lanes in analysis.faults.together]
    leading = [(s, persistence(s.lead_ns, analysis.step_ns, candidates)) for s in each]
    found = [(s, how) for s, how in leading if how in (Persistence.TESTED, Persistence.LARGE)]
    return max(found, key=lambda pair: pair[0].typical_ns, default=(first, persists))


def _together(analysis: Analysis, lanes: frozenset[int], of_members: Callable[..., npt.NDArray[np.float64]]) -> Suspect:
    """`of_members`: which of the members' charges has to be above everybody else's in a step."""
    cost = analysis.faults.together[lanes][analysis.usable].astype(np.float64)
    caused = analysis.caused
    members = sorted(lanes)
    outside = [lane for lane in range(len(analysis.ranks)) if lane not in lanes]
    leads = of_members(caused[members], axis=0) > caused[outside].max(axis=0)
    return Suspect(lanes, cost, np.where(leads, cost, -1.0))


def _finding(analysis: Analysis, suspect: Suspect) -> Finding:
    ranks = sorted(analysis.ranks[lane] for lane in suspect.lanes)
    lanes, cost = sorted(suspect.lanes), suspect.typical_ns
    more = excess(analysis, suspect.lanes)
    cause = more.cause(cost)
    one = len(ranks) == 1
    words = WORDS[cause].format(it="it" if one else "they", its="its" if one else "their", s="s" if one else "")
    who = f"Rank {ranks[0]} makes" if one else f"Ranks {spans(ranks)} together make"
    finding = time_finding(
        analysis,
        message=f"{who} the others wait {of_the_step(analysis, cost)}; {words}.",
        cost_ns=cost,
        evidence=_evidence(analysis, lanes, suspect, more),
        advice=ADVICE_CPU_ONLY if cause == "compute" and analysis.places[0].device is None else ADVICE[cause],
        where=_where(analysis, ranks, more, cause),
        ranks=ranks,
        sure=0.95 if cause != "unknown" else 0.8,
    )
    return replace(finding, cause=cause)


def _evidence(analysis: Analysis, lanes: list[int], suspect: Suspect, more: Excess) -> list[Evidence]:
    caused = analysis.caused
    total = caused.sum()
    mine = caused[lanes].sum()
    waits = analysis.waits
    return [
        Evidence("wall time a step that fixing it alone returns", round(suspect.typical_ns), "ns"),
        Evidence("waiting of others charged to it, rank-time over the usable steps", round(float(mine)), "ns"),
        Evidence("of all waiting in the run", float(mine / total) if total else 0.0, "share"),
        Evidence("steps in which it leads", int((suspect.lead_ns > 0).sum()), "count"),
        Evidence("usable steps", len(analysis.usable), "count"),
        Evidence("collectives it came to last", int(waits.last_arrivals[lanes].sum()), "count"),
        Evidence("computes longer than its peers a step", round(more.compute), "ns"),
        Evidence("waits longer for data a step", round(more.data), "ns"),
        Evidence("host takes longer a step", round(more.host), "ns"),
    ]


def _where(analysis: Analysis, ranks: list[int], more: Excess, cause: Cause) -> str:
    hosts = sorted({h for loaded in analysis.run.ranks if loaded.rank in ranks and (h := loaded.record.meta.host)})
    place = f"Rank{'' if len(ranks) == 1 else 's'} {spans(ranks)}" + (f" on {', '.join(hosts)}" if hosts else "")
    amounts = {"compute": more.compute, "data": more.data, "host": more.host}
    if cause not in amounts:
        return f"{place}: no part of its own step is longer than its peers' by enough."
    name = {"compute": "computation", "data": "data loading", "host": "host time"}[cause]
    step = analysis.step_ns
    return (
        f"{place}: {duration(amounts[cause])} more {name} a step than its peers ({share(amounts[cause] / step)} of "
        "the step)."
    )
