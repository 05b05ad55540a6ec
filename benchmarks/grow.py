"""Grow a trace to any size: python benchmarks/grow.py OUT.json --mb 200 [--from TRACE] [--rank 3 --world 8] [--steps 6]

The source's events are repeated with later times and fresh ids (correlation, External id, flow, Ev Idx, Python id,
Seq), in Kineto's own text layout, under a few long ProfilerSteps as a real capture has. Without --from the source is a
simulated rank.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from isal import igzip

from rankscope.simulator import Scenario, simulate

SHARED_IDS = ("correlation", "External id", "id")  # one number range: flows and operators refer to launches
IDS = (*SHARED_IDS, "Ev Idx", "Python id", "Python parent id", "Record function id", "Seq")
MOVED = re.compile(rf'"(ts|{"|".join(IDS)})": (\d+)')
FIRST_STEP = 10


@dataclass(frozen=True)
class Template:
    """A trace's text, cut at every number that differs between its copies."""

    head: str
    tail: str
    once: list[str]  # names, markers: written a single time
    pieces: list[str]
    keys: list[str]
    values: npt.NDArray[np.int64]
    step: str  # the format of a ProfilerStep
    events: int  # in one copy
    begin_us: int
    span_us: int

    @classmethod
    def of(cls, text: str) -> Template:
        """From a file's text; other layouts than Kineto's are laid out anew first."""
        head, events, tail = split(
            text if "\n  },\n  {" in text[:200_000] else laid_out(json.loads(text, parse_float=Decimal))
        )
        once = [e for e in events if '"ph": "M"' in e or '"cat": "Trace"' in e or '"Record Window End"' in e]
        kept = [e for e in events if e not in once and '"name": "ProfilerStep#' not in e]
        body = ",\n".join(kept)
        found = list(MOVED.finditer(body))
        edges = [0, *(edge for match in found for edge in match.span(2)), len(body)]
        times = [int(match[2]) for match in found if match[1] == "ts"]
        return cls(
            head, tail, once,
            [body[a:b] for a, b in zip(edges[::2], edges[1::2], strict=True)],
            [match[1] for match in found],
            np.array([int(match[2]) for match in found], np.int64),
            step_format(events),
            len(kept), min(times), max(times) - min(times) + 2_000,
        )  # fmt: skip

    def strides(self, period_us: int) -> npt.NDArray[np.int64]:
        """What each number grows by from one copy to the next."""
        keys = np.array(self.keys)
        largest = {key: int(self.values[keys == key].max(initial=-1)) + 1 for key in IDS}
        largest |= dict.fromkeys(SHARED_IDS, max(largest[key] for key in SHARED_IDS))
        largest["Python parent id"] = largest["Python id"]
        return np.array([(largest | {"ts": period_us})[key] for key in self.keys], np.int64)

    def copies(self, count: int, period_us: int, delay_us: int) -> Iterator[str]:
        """The events `count` times, each copy `period_us` after the last."""
        strides = self.strides(period_us)
        values = self.values + delay_us * (np.array(self.keys) == "ts")
        for copy in range(count):
            numbers = [*map(str, (values + strides * copy).tolist()), ""]
            yield "".join(text for pair in zip(self.pieces, numbers, strict=True) for text in pair)

    def step_marks(self, count: int, steps: int, period_us: int, delay_us: int) -> Iterator[str]:
        """ProfilerSteps that divide the copies evenly."""
        steps = min(steps, count)
        for step in range(steps):
            begin, end = step * count // steps, (step + 1) * count // steps
            start = self.begin_us + delay_us + begin * period_us
            yield self.step.format(
                step=FIRST_STEP + step, ts=f"{start}.000", dur=f"{(end - begin) * period_us - 1}.000"
            )


def split(text: str) -> tuple[str, list[str], str]:
    """Head, events and tail of a file in Kineto's layout."""
    begin = text.index("\n", text.index('"traceEvents": [')) + 1
    end = text.rindex("\n  }\n  ]") + len("\n  }")
    events = text[begin:end].split("\n  },\n")
    return text[:begin], [*(event + "\n  }" for event in events[:-1]), events[-1]], text[end:]


def step_format(events: Iterable[str]) -> str:
    """The template of a ProfilerStep on the thread of the source's own, or on that of its first operator."""
    marks = [e for e in events if '"name": "ProfilerStep#' in e and '"gpu_user_annotation"' not in e]
    operators = (e for e in events if re.search(r'"cat": "(?:cpu_op|Operator)"', e))
    model = marks[0] if marks else next(operators)
    pid, tid = (re.search(rf'"{key}": (\d+)', model)[1] for key in ("pid", "tid"))  # type: ignore[index]
    where = f'"name": "ProfilerStep#{{step}}", "pid": {pid}, "tid": {tid}'
    return f'  {{{{\n    "ph": "X", "cat": "user_annotation", {where},\n    "ts": {{ts}}, "dur": {{dur}}\n  }}}}'


def laid_out(trace: dict[str, Any]) -> str:
    """A parsed trace as Kineto prints it."""

    def plain(value: object) -> str:
        return json.dumps(value, ensure_ascii=False, default=float)

    def event(fields: dict[str, Any]) -> str:
        args = fields.pop("args", None)
        times = {key: fields.pop(key) for key in ("ts", "dur") if key in fields}
        lines = ", ".join(f"{plain(key)}: {plain(value)}" for key, value in fields.items())
        lines += "".join(
            f',{" " if i else chr(10) + "    "}"{key}": {value}' for i, (key, value) in enumerate(times.items())
        )
        inside = ", ".join(f"{plain(key)}: {plain(value)}" for key, value in (args or {}).items())
        return f"  {{\n    {lines}" + (f',\n    "args": {{\n      {inside}\n    }}' if args else "") + "\n  }"

    events = trace.pop("traceEvents")
    head = "".join(f"  {plain(key)}: {plain(value)},\n" for key, value in trace.items())
    return "{\n" + head + '  "traceEvents": [\n' + ",\n".join(map(event, events)) + "\n  ]\n}\n"


def as_rank(head: str, rank: int, world: int) -> str:
    """The head of another rank of a run of this size."""
    if '"distributedInfo"' not in head:
        info = json.dumps({"backend": "nccl", "rank": rank, "world_size": world})
        return head.replace("{\n", f'{{\n  "distributedInfo": {info},\n', 1)
    return re.sub(r'"world_size": \d+', f'"world_size": {world}', re.sub(r'"rank": \d+', f'"rank": {rank}', head))


def copies_for(template: Template, *, mb: float = 0, events: int = 0) -> int:
    """How many copies make up a file of this size."""
    size = sum(map(len, template.pieces)) + 7 * len(template.keys)
    return max(1, round(mb * 1e6 / size) if mb else round(events / template.events))


def grow(
    template: Template, path: Path, copies: int, *, rank: int, world: int, steps: int = 6, period_us: int = 0
) -> int:
    """Write the file (gzip if it ends in .gz) and return how many events it holds. Ranks of a run share a period."""
    period, delay = period_us or template.span_us, 0 if period_us else rank * 137
    chunks: list[Iterable[str]] = [
        template.step_marks(copies, steps, period, delay),
        template.copies(copies, period, delay),
    ]
    opened = igzip.open(path, "wb", compresslevel=2) if path.suffix == ".gz" else path.open("wb")
    with opened as out:
        out.write(as_rank(template.head, rank, world).encode())
        for chunk in chunks:
            for text in chunk:
                out.write(text.encode() + b",\n")
        out.write((",\n".join(template.once) + template.tail).encode())
    return copies * template.events + min(steps, copies) + len(template.once)


def source_text(path: Path | None) -> str:
    """The text of the trace to grow; without a path, of one simulated rank."""
    if path is None:
        return simulate(Scenario(ranks=2, steps=4, seed=1)).traces[0].text()
    packed = path.read_bytes()
    return (gzip.decompress(packed) if packed[:2] == b"\x1f\x8b" else packed).decode(errors="replace")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--mb", type=float, default=0)
    parser.add_argument("--events", type=int, default=0)
    parser.add_argument("--from", dest="source", type=Path)
    parser.add_argument("--rank", type=int, default=0)
    parser.add_argument("--world", type=int, default=8)
    parser.add_argument("--steps", type=int, default=6)
    args = parser.parse_args(arguments)
    template = Template.of(source_text(args.source))
    copies = copies_for(template, mb=args.mb, events=args.events)
    events = grow(template, args.out, copies, rank=args.rank, world=args.world, steps=args.steps)
    print(f"{args.out}: {events:,} events, {args.out.stat().st_size / 1e6:,.0f} MB")


if __name__ == "__main__":
    main()
