"""What a person finds in the morning: the night in words, drafts of issues, a report for tools.

Everything here is a function of the state alone, so the merged state of two shards reads the same
whichever was merged first.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from diffuzz.cache import atomic_write
from diffuzz.nightly.asking import reason
from diffuzz.nightly.drafts import draft
from diffuzz.nightly.join import Data
from diffuzz.nightly.state import StateFolder
from diffuzz.nightly.status import FIXED, FLAKY, Status, is_accepted, leads, status
from diffuzz.report import data as report_data
from diffuzz.report.escaping import code, prose, table
from diffuzz.report.issue import title
from diffuzz.report.wording import clean, plural


def newest(state: Data) -> str | None:
    """The newest night in a state."""
    return max(state["nights"], default=None)


def write(state: StateFolder, night: str, *, file: bool) -> list[str]:
    """Write the night's report and the drafts; returns the ids whose drafts changed.

    ``file`` fixes which findings have an issue of their own: only a state that holds all of a
    night may say so, that is, an undivided night or a merged one.
    """
    changed = []
    wanted = drafted(state.data)
    if file:
        for key in wanted:
            state.data["drafted"].setdefault(key, night)
        state.save()
    for key in wanted:
        text = draft(state.data, key)
        path = state.folder / "issues" / f"{key}.md"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            atomic_write(path, text.encode())
            changed.append(key)
    atomic_write(state.folder / "report.md", markdown(state.data, night).encode())
    return changed


def drafted(state: Data) -> list[str]:
    """The findings that have an issue of their own: those that ever had one keep it."""
    findings = state["findings"]
    lead = leads(findings)
    found = []
    for key, finding in sorted(findings.items()):
        own = lead[key] == key and status(finding).word != FIXED
        if key in state["drafted"] or (own and not is_accepted(finding, newest(state) or "")):
            found.append(key)
    return found


def markdown(state: Data, night: str) -> str:
    """The morning's report, as for a job summary."""
    return "\n\n".join(_blocks(state, night)) + "\n"


def lines(state: Data, night: str) -> Iterator[str]:
    """The same in a few lines for a terminal."""
    shards = state["nights"][night]
    for entry in list(shards.values())[:1]:
        head = entry["head"]
        yield clean(f"night {night}: {head['commit'][:10]} {head['date'][:10]} {head['subject']}")
    for shard, entry in shards.items():
        ended = "" if entry["finished"] else ", did not end"
        if len(shards) > 1 or ended:
            yield f"shard {shard}{ended}: {entry['seconds']} s"
    yield headline(state, night)
    lead = leads(state["findings"])
    for key, finding in _reported(state, night):
        if lead[key] != key:
            continue
        now = status(finding)
        yield clean(f"  {key}: {_standing(finding)}: {title(finding['record']['report'])}")
        yield f"    {answer_text(now)}"
        others = sum(leader == key for leader in lead.values()) - 1
        if others:
            yield f"    {others} more findings come with it"
    for entry in shards.values():
        for device in entry["devices"]["quarantined"]:
            yield clean(f"  quarantined for the night: {device['device']}: {device['why']}")
        for note in entry["notes"]:
            yield clean(f"  note: {note}")
    yield "account:"
    for _, item in _account(shards):
        mark = "" if item["done"] else "NOT DONE: "
        unit = f" {item['unit']}:" if item["unit"] else ""
        yield clean(f"  {item['what']}:{unit} {mark}{item['text']}")


def headline(state: Data, night: str) -> str:
    """The one sentence that a maintainer reads first."""
    fresh, gone = news(state, night), fixed(state, night)
    said = []
    if fresh:
        said.append(plural(len(fresh), "new finding"))
    if gone:
        said.append(f"{plural(len(gone), 'finding')} fixed")
    lead = leads(state["findings"])
    open_now = [
        key
        for key, finding in state["findings"].items()
        if lead[key] == key and status(finding).word != FIXED
    ]
    rest = f"{len(open_now)} open" if open_now else "none open"
    return f"{', '.join(said) or 'nothing new'}; {rest}"


def news(state: Data, night: str) -> list[str]:
    """Findings that came, or came back, this night; what follows from another one, or is the work
    of the same commit, is no further news."""
    findings = state["findings"]
    lead = leads(findings)
    return [
        key
        for key, finding in sorted(findings.items())
        if lead[key] == key
        and status(finding).since == night
        and status(finding).word != FIXED
        and not is_accepted(finding, night)
    ]


def fixed(state: Data, night: str) -> list[str]:
    """Findings that went this night."""
    found = {k: status(f) for k, f in sorted(state["findings"].items())}
    return [key for key, now in found.items() if now.since == night and now.word == FIXED]


def answer_text(now: Status) -> str:
    """Who did it, as far as that is certain."""
    what = "fixed by" if now.word == FIXED else "brought by"
    if now.culprit is not None:
        commit = now.culprit
        inside = (now.answer or {}).get("blame") or {"carriers": []}
        carriers = f" in {', '.join(inside['carriers'])}" if inside["carriers"] else ""
        return clean(f"{what} {commit['commit'][:10]} {commit['subject']}{carriers}")
    if now.answer is None:
        if now.look["asks"]:
            return f"{what}: not looked for yet"
        return clean(f"{what}: {now.look['why'] or 'not known'}")
    return clean(f"{what}: not known: {reason(now.answer)}")


def report(state: Data, night: str) -> dict[str, Any]:
    """The night in the form of a run's report, for SARIF and the like."""
    entries = list(state["nights"][night].values())
    first = entries[0]
    head = {"revision": "head", "version": None, **_revision(first["head"])}
    findings = []
    for _, finding in sorted(state["findings"].items()):
        now = status(finding)
        if now.word == FIXED or is_accepted(finding, night):
            continue
        said = {**finding["record"]["report"], "known": None, "culprit": now.culprit}
        findings.append(said)
    targets = [target for entry in entries for target in entry["targets"]]
    return {
        "schema": report_data.SCHEMA,
        "environment": first["environment"],
        "started": first["at"],
        "seed": 0,
        "baseline": {**head, "revision": "last judged good", "commit": None, "date": None},
        "candidate": head,
        "targets": targets,
        "findings": findings,
    }


def _revision(head: Data) -> dict[str, Any]:
    return {"commit": head["commit"], "date": head["date"]}


def _blocks(state: Data, night: str) -> Iterator[str]:
    shards = state["nights"][night]
    head = next(iter(shards.values()))["head"]
    yield f"# diffuzz, night {prose(night)}"
    yield f"{code(head['commit'][:12])} {prose(head['date'][:10])} {code(head['subject'])}"
    yield f"**{prose(headline(state, night))}**"
    missing = _missing_shards(list(shards))
    if missing:
        yield "\n".join(f"- shard {name}: no result" for name in missing)
    for name, keys in (("New", news(state, night)), ("Fixed", fixed(state, night))):
        if keys:
            yield f"## {name}"
            yield "\n".join(_item(state, key) for key in keys)
    known = [(key, finding) for key, finding in sorted(state["findings"].items())]
    if known:
        yield "## All findings"
        lead = leads(state["findings"])
        rows = [_row(key, finding, lead[key]) for key, finding in known]
        yield table(["finding", "status", "since", "commit"], rows)
    yield from _machine(shards)
    yield "## What was run"
    rows = [
        [prose(shard), prose(item["what"]), code(item["unit"]), "" if item["done"] else "no",
         prose(item["text"])]
        for shard, item in _account(shards)
    ]  # fmt: skip
    yield table(["shard", "what", "target", "done", ""], rows)


def _item(state: Data, key: str) -> str:
    finding = state["findings"][key]
    now = status(finding)
    again = " (it had been fixed)" if now.returned and now.word != FIXED else ""
    return (
        f"- {code(key)}: {prose(title(finding['record']['report']))}{again}\n"
        f"  - {code(answer_text(now))}"
    )


def _standing(finding: Data) -> str:
    now = status(finding)
    return f"{now.text}{_latent(finding, now)} since {now.since}"


def _latent(finding: Data, now: Status) -> str:
    """Said of what was wrong at the baseline already, while it is."""
    is_latent = finding["record"]["direction"] == "both" and now.word != FIXED
    return ", latent" if is_latent else ""


def _row(key: str, finding: Data, lead: str) -> list[str]:
    now = status(finding)
    text = now.text if now.unseen is None else f"{now.text}: {now.unseen}"
    if now.word == FLAKY and now.look["runs"]:
        text += f" ({now.look['bad']} of {now.look['runs']} runs fail)"
    if finding["record"]["accepted"]:
        text += f" ({finding['record']['accepted']['text']})"
    text += _latent(finding, now)
    if lead != key:
        text += f", comes with {lead}"
    return [code(key), prose(text), prose(now.since), code(answer_text(now))]


def _machine(shards: Data) -> Iterator[str]:
    rows = []
    for shard, entry in shards.items():
        if not entry["finished"]:
            rows.append(f"- shard {shard} did not end")
        for device in entry["devices"]["quarantined"]:
            rows.append(f"- quarantined: {code(device['device'])}: {code(device['why'])}")
        rows += [f"- {prose(note)}" for note in entry["notes"]]
    if rows:
        yield "## To know"
        yield "\n".join(rows)


def _missing_shards(names: list[str]) -> list[str]:
    """Of each division that some shard is there of, the shards that are not."""
    wanted = set()
    for name in names:
        head, _, count = name.rpartition("/")
        of = head.rpartition(" ")[0]
        for index in range(1, int(count) + 1):
            wanted.add(f"{of} {index}/{count}".strip())
    return sorted(wanted - set(names))


def _account(shards: Data) -> list[tuple[str, Data]]:
    """What was not done first."""
    found = [(shard, item) for shard, entry in shards.items() for item in entry["account"]]
    return sorted(found, key=lambda pair: pair[1]["done"])


def _reported(state: Data, night: str) -> list[tuple[str, Data]]:
    """News first, then what else is open; fixed ones of this night last."""
    order = [*news(state, night)]
    order += [k for k, f in sorted(state["findings"].items()) if status(f).word != FIXED]
    order += fixed(state, night)
    return [(key, state["findings"][key]) for key in dict.fromkeys(order)]


__all__ = ["headline", "lines", "markdown", "news", "report", "write"]
