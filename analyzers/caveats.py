"""What a reader must know before believing a figure: damage, missing files, matching and clocks, each in a sentence."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath
from typing import Final

from rankscope.analyzers.analysis import Analysis
from rankscope.analyzers.quantities import count, duration, plural, ranks, spans
from rankscope.analyzers.run import LoadedRank

_DAMAGE: Final = {
    "negative": "a negative time",
    "zero_start": "a start of zero",
    "duplicate": "an exact copy",
    "out_of_reach": "a time weeks away from all others",
    "absurd_duration": "an absurd duration",
}


def caveats(analysis: Analysis) -> list[str]:
    """All warnings of a run, those of the loader first."""
    found = list(analysis.run.warnings)
    for loaded in analysis.run.ranks:
        found += [f"{PurePath(loaded.path).name}: {text}" for text in _of_file(loaded)]
    found += _of_steps(analysis)
    found += analysis.matches.warnings
    found += _of_matching(analysis)
    found += _of_clocks(analysis)
    found += _of_pings(analysis)
    return found


def _of_file(loaded: LoadedRank) -> Iterator[str]:
    meta, facts = loaded.record.meta, loaded.record.facts
    yield from meta.warnings
    for category, n in meta.unknown_categories.items():
        yield f"{plural(n, 'event')} of category {category or '(none)'} not understood: neither work nor host activity"
    damage = [f"{count(n)} with {_DAMAGE.get(kind, kind)}" for kind, n in facts.set_aside.items() if n]
    if damage:
        yield (
            f"{plural(sum(facts.set_aside.values()), 'event')} set aside ({', '.join(damage)}); their time is "
            "unexplained"
        )
    if facts.begin_ns is None:
        yield "holds no timed event"
    if facts.inverted_launches:
        yield (
            f"{plural(facts.inverted_launches, 'device event begins', 'device events begin')} before the launch; "
            "latency counted as 0"
        )


def _of_steps(analysis: Analysis) -> Iterator[str]:
    without = [loaded.rank for loaded in analysis.run.ranks if not loaded.record.facts.has_marks]
    if without:
        whose = (
            "The trace has"
            if len(analysis.run.ranks) == 1
            else f"Traces of {plural(len(without), 'rank')} ({spans(without)}) have"
        )
        yield f"{whose} no step marks: one row covers the whole file; call prof.step() once a step to tell steps apart"
    elif not analysis.usable and analysis.ranks:
        yield "No whole step is left to judge by; rules see nothing"
    if any(partial.any() for partial in analysis.partial):
        ranks = [
            loaded.rank for loaded, partial in zip(analysis.run.ranks, analysis.partial, strict=True) if partial.any()
        ]
        yield f"Partial steps on {plural(len(ranks), 'rank')} ({spans(ranks)}) stay out of the rules"


def _of_matching(analysis: Analysis) -> Iterator[str]:
    matches = analysis.matches
    inferred = sum(m.inferred for m in matches.found)
    if inferred:
        yield f"{plural(inferred, 'collective')} matched without sequence numbers, by aligning their ends"
    incomplete = 0
    for match in matches.found:
        group = matches.pool.groups[match.group]
        if match.kind != "point_to_point" and group.known and len(match.records) < len(group.ranks):
            incomplete += 1
    if incomplete:
        yield (
            f"{plural(incomplete, 'collective lacks', 'collectives lack')} the record of a member; split among the "
            "ranks that have it"
        )
    loose = analysis.splits.clock_free
    if loose.any():
        lanes = sorted({int(lane) for lane in matches.pool.lane[loose]})
        names = spans(analysis.ranks[lane] for lane in lanes)
        yield f"No common clock for ranks {names}: waits taken from durations (shortest = transfer), clock-free"


def _of_clocks(analysis: Analysis) -> Iterator[str]:
    """One host name is one clock; where its ranks' collectives do not even overlap in time, it is not one machine's name."""
    matches = analysis.matches
    pool, clocks = matches.pool, matches.clocks
    apart: dict[int, list[bool]] = {}
    for match in matches.found:
        hosts = {clocks.host_of[lane] for lane in pool.lane[match.records].tolist()}
        if match.kind == "symmetric" and len(hosts) == 1:
            never = int(pool.end[match.records].min()) < int(pool.start[match.records].max())
            apart.setdefault(hosts.pop(), []).append(never)
    for host, seen in apart.items():
        if 2 * sum(seen) > len(seen):
            ranks = [analysis.ranks[lane] for lane, at in enumerate(clocks.host_of) if at == host]
            yield (
                f"Ranks {spans(ranks)} carry one host name, but their collectives do not overlap in time: are these several "
                "machines of one name? Waits between them cannot be trusted"
            )


def _of_pings(analysis: Analysis) -> Iterator[str]:
    """Pings and collectives measure the same clocks; where they disagree beyond what either leaves open, one is wrong."""
    clocks = analysis.matches.clocks
    for wrong in clocks.contradicted:
        who = ranks(analysis.ranks[lane] for lane, at in enumerate(clocks.host_of) if at == wrong.host)
        yield (
            f"Pings put the clock of {who} {duration(wrong.by_ns)} from where ends of collectives put it: they are left "
            "out, and no smaller difference to other hosts is believed"
        )
