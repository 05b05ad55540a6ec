from __future__ import annotations

import os
from pathlib import Path

import pytest
from kineto_file import write

from rankscope.analyzers.errors import NothingToRead
from rankscope.analyzers.loading import discovery
from rankscope.analyzers.loading.discovery import discover


def names(found: discovery.Found) -> list[str]:
    return [os.path.basename(path) for path in found.files]


def test_a_folder_is_searched_through_and_only_names_of_traces_are_taken(tmp_path: Path) -> None:
    for name in ("a.json", "b.json.gz", "deep/er/c.pt.trace.json", "d.pt.trace.json.tmp", "notes.txt", "e.csv"):
        write(tmp_path / name)
    assert sorted(names(discover([str(tmp_path)]))) == ["a.json", "b.json.gz", "c.pt.trace.json", "d.pt.trace.json.tmp"]


def test_a_file_that_is_named_is_taken_whatever_its_name(tmp_path: Path) -> None:
    odd = write(tmp_path / "odd.bin")
    assert discover([str(odd)]).files == [str(odd)]


def test_patterns_reach_nested_folders(tmp_path: Path) -> None:
    write(tmp_path / "run/x/rank0.json")
    write(tmp_path / "run/y/rank1.json")
    assert names(discover([str(tmp_path / "**/rank*.json")])) == ["rank0.json", "rank1.json"]


def test_a_file_reached_twice_is_taken_once(tmp_path: Path) -> None:
    file = write(tmp_path / "a.json")
    os.link(file, tmp_path / "b.json")
    assert len(discover([str(tmp_path), str(file)]).files) == 1


@pytest.mark.parametrize("path", ["absent", "absent-*.json"])
def test_a_path_that_leads_nowhere_is_an_error_that_names_it(tmp_path: Path, path: str) -> None:
    with pytest.raises(NothingToRead, match=path.replace("*", r"\*")):
        discover([str(tmp_path / path)])


def test_a_fifo_is_refused_and_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "rank0.json")
    assert discover([str(tmp_path)]).files == []
    (refused,) = discover([str(tmp_path / "rank0.json")]).refused
    assert "FIFO" in refused.reason


def test_a_device_is_refused() -> None:
    (refused,) = discover(["/dev/null"]).refused
    assert "device" in refused.reason


def test_links_out_of_the_folder_are_refused_by_name_and_loops_do_no_harm(tmp_path: Path) -> None:
    write(tmp_path / "outside/secret.json")
    write(tmp_path / "inside/rank0.json")
    (tmp_path / "inside/rank1.json").symlink_to(tmp_path / "outside/secret.json")
    (tmp_path / "inside/again").symlink_to(tmp_path / "inside")
    (tmp_path / "inside/away").symlink_to(tmp_path / "outside")
    (tmp_path / "inside/nowhere").symlink_to(tmp_path / "absent")
    (tmp_path / "inside/rank2.json").symlink_to(tmp_path / "inside/rank0.json")
    found = discover([str(tmp_path / "inside")])
    assert names(found) == ["rank0.json"]
    assert [os.path.basename(r.path) for r in found.refused] == ["away", "rank1.json"]


def test_a_link_that_is_named_itself_is_followed(tmp_path: Path) -> None:
    file = write(tmp_path / "a.json")
    (tmp_path / "link").symlink_to(file)
    (tmp_path / "folder").symlink_to(tmp_path)
    assert discover([str(tmp_path / "link")]).files == [str(tmp_path / "link")]
    assert names(discover([str(tmp_path / "folder")])) == ["a.json"]


def test_hidden_folders_are_left_alone(tmp_path: Path) -> None:
    write(tmp_path / ".git/a.json")
    assert discover([str(tmp_path)]).files == []


def test_a_scan_is_bounded_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(30):
        (tmp_path / f"stray{number}").touch()
    monkeypatch.setattr(discovery, "MOST_ENTRIES", 20)
    found = discover([str(tmp_path)])
    assert found.looked_at == 20
    assert "first 20 entries" in found.warnings[0]


def test_of_too_many_json_files_those_named_like_traces_come_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(30):
        (tmp_path / f"config{number}.json").touch()
    write(tmp_path / "zz_rank0.json")
    monkeypatch.setattr(discovery, "MOST_FILES", 3)
    found = discover([str(tmp_path)])
    assert names(found)[0] == "zz_rank0.json"
    assert len(found.files) == 3 and "3 of 31" in found.warnings[0]


def test_a_name_that_is_not_text_can_be_shown() -> None:
    assert discovery.shown(os.fsdecode(b"/t/\xff.json")) == r"/t/\udcff.json"


def test_a_folder_that_is_named_like_a_trace_is_searched_through(tmp_path: Path) -> None:
    write(tmp_path / "run.pt.trace.json/rank0.json")
    assert names(discover([str(tmp_path)])) == ["rank0.json"]
