"""The verdict says what was found, no more, and accuses no rank without a finding that names it."""

from __future__ import annotations

from dataclasses import replace

from sample import MS, cpu_only, empty, single, straggling

from rankscope.analyzers.findings import Diagnosis, Finding, RuleOutcomes
from rankscope.analyzers.verdict import verdict


def with_findings(*findings: Finding, passed: tuple[str, ...] = (), **run: object) -> Diagnosis:
    whole = straggling(8, 6)
    facts = replace(whole.run, **run)
    return replace(whole, run=facts, findings=list(findings), rules=RuleOutcomes(list(passed), [], [], []))


LATE, DATA = straggling(8, 6).findings


def test_a_late_rank_is_named_and_priced() -> None:
    text = verdict(with_findings(LATE, DATA))
    assert text == "Rank 5 makes the other 7 wait 38.0 ms of every 210 ms step: it computes longer than its peers."


def test_the_cause_is_said_only_when_it_is_known() -> None:
    assert "waits longer for its data" in verdict(with_findings(replace(LATE, cause="data")))
    assert "its host asks for work later" in verdict(with_findings(replace(LATE, cause="host")))
    assert "does not show why" in verdict(with_findings(replace(LATE, cause="unknown")))


def test_ranks_late_together_are_named_together() -> None:
    text = verdict(with_findings(replace(LATE, ranks=[2, 3])))
    assert text.startswith("Ranks 2, 3 make the other 6 wait") and "they compute longer than their peers" in text


def test_what_costs_most_comes_first_and_the_late_rank_is_still_named() -> None:
    text = verdict(with_findings(replace(DATA, cost_ns=63 * MS), LATE))
    assert text.startswith("30.0 % of the step is starved for data; rank 5 makes the other 7 wait")


def test_no_rank_is_accused_where_the_rule_passed() -> None:
    text = verdict(with_findings(DATA, passed=("straggler-rank",)))
    assert text == "No single rank holds the others up; 4.29 % of the step is starved for data."


def test_a_healthy_run_is_healthy() -> None:
    text = verdict(with_findings(passed=("straggler-rank", "data-starved")))
    assert text == "No single rank holds the others up, and nothing above 1 % of the step was found."
    assert "ank 5" not in text


def test_rules_without_a_signal_are_counted_and_a_pass_is_not_claimed() -> None:
    text = verdict(single())
    assert "No single rank holds" not in text
    assert "2 rules had no signal" in text and "1 of 8 ranks recorded" in text


def test_nothing_judged_is_not_nothing_found() -> None:
    text = verdict(replace(with_findings(), rules=RuleOutcomes([], single().rules.skipped, [], [])))
    assert text.startswith("No rule could be judged; 2 rules had no signal.")


def test_few_steps_lower_the_voice() -> None:
    text = verdict(with_findings(replace(LATE, confidence=0.5), usable_steps=[1, 2]))
    assert text.endswith("(low confidence: only 2 steps could be judged).")


def test_a_trace_without_steps_says_so() -> None:
    text = verdict(with_findings(LATE, steps=0, usable_steps=[], median_step_ns=None))
    assert "38.0 ms of the capture" in text and "no step marks" in text


def test_a_cpu_run_reads_the_same() -> None:
    assert verdict(cpu_only()).startswith("Rank 2 makes the other 3 wait 38.0 ms")


def test_no_event_is_no_verdict() -> None:
    assert verdict(empty()) == "Nothing could be measured: 1 file held no timed event."


def test_a_doubt_about_the_data_leads_when_no_time_was_found() -> None:
    doubt = replace(
        LATE, rule="missing-communication", kind="validity", message="No rank communicates.", cost_ns=None, ranks=[]
    )
    assert verdict(with_findings(doubt)).startswith("No rank communicates; no loss of time above 1 %")
