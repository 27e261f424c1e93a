#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Reads metrics with Prometheus' own parser.

insp_metrics.py SCRAPE [OLDER-SCRAPE]: families, types and samples must be as docs/metrics.md lists them; since
the older one nothing that counts may have shrunk. Then prints the value of each "name{labels}" on standard input.
"""
import json
import re
import sys

from prometheus_client.parser import text_string_to_metric_families as parse


def families(path):
    return {f.name: f for f in parse(open(path).read())}


def documented():
    out = {}
    for line in open("docs/metrics.md"):
        row = re.match(r"\| `(mroce_\w+)` \| (\w+) \| ([\w, ]*)\|", line)
        if row:
            out[row[1]] = (row[2], set(filter(None, re.split(r"[ ,]+", row[3]))))
    return out


def check_list(got):
    want = documented()
    # The parser takes _total off the names of counters.
    names = {f.name + ("_total" if f.type == "counter" else ""): f for f in got.values()}
    assert set(names) == set(want), set(names) ^ set(want)
    for name, family in names.items():
        kind, labels = want[name]
        assert family.type == kind and family.documentation, (name, family.type, kind)
        assert family.samples, name
        for sample in family.samples:
            assert set(sample.labels) - {"le"} == labels, (name, sample.labels)
            assert kind == "gauge" or sample.value >= 0


def check_histogram(family):
    buckets = [(float(s.labels["le"]), s.value) for s in family.samples if s.name.endswith("_bucket")]
    count = [s.value for s in family.samples if s.name.endswith("_count")][0]
    assert buckets == sorted(buckets) and buckets[-1] == (float("inf"), count), family.name
    assert all(a[1] <= b[1] for a, b in zip(buckets, buckets[1:])), family.name
    total = [s.value for s in family.samples if s.name.endswith("_sum")][0]
    low = sum((b[1] - a[1]) * a[0] for a, b in zip([(0, 0)] + buckets[:-1], buckets))
    assert low <= total, (family.name, low, total)


def values(got):
    return {(s.name, tuple(sorted(s.labels.items()))): s.value for f in got.values() for s in f.samples if f.type != "gauge"}


def check_names(got):
    """Rules and dashboard ask for nothing that is not there."""
    known = {s.name for f in got.values() for s in f.samples}
    dashboard = json.load(open("contrib/grafana/mroce.json"))
    texts = [t["expr"] for p in dashboard["panels"] for t in p["targets"]]
    texts.append(re.sub(r"(?m)#.*$", "", open("contrib/prometheus/mroce-alerts.yml").read()))
    used = set(re.findall(r"\bmroce_\w+", " ".join(texts)))
    assert len(used) > 15 and used <= known, used - known
    reasons = {s.labels.get("reason", s.labels.get("outcome")) for f in got.values() for s in f.samples}
    for pattern in re.findall(r'(?:reason|outcome)=~?"([^"]+)"', " ".join(texts)):
        assert any(re.fullmatch(pattern, r) for r in reasons if r), pattern


def main():
    got = families(sys.argv[1])
    check_list(got)
    check_names(got)
    for family in got.values():
        if family.type == "histogram":
            check_histogram(family)
    now = values(got)
    if len(sys.argv) > 2:
        for key, value in values(families(sys.argv[2])).items():
            assert now[key] >= value, key
    flat = {s.name + ("{" + ",".join(f"{k}={v}" for k, v in sorted(s.labels.items())) + "}" if s.labels else ""): s.value
            for f in got.values() for s in f.samples}
    for line in sys.stdin:
        if line.strip():
            print(int(flat[line.strip()]))


main()
