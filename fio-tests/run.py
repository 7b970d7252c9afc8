#!/usr/bin/env python3
"""Measures what a disk can do and what the SSD tier makes of it, prints the table of ratios and draws them.

    fio-tests/run.py DIR [--ziggurat PROGRAM] [--rows ROW,…] [--rounds N] [--quick] [--small-pages] [--svg FILE] [--json FILE]

For each job file: fio alone (the ceiling), then `ziggurat bench ssd`, which runs rounds of fio, tier and fio with the same job
file, then fio alone again. Needs fio and a release build of ziggurat; only the standard library of Python.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROWS = ["read_4k", "read_64k", "read_1m", "write_64k", "write_1m"]
# What each row should reach: the ratio to fio.
AIMS = {"read_4k": 0.90, "read_64k": 1.00, "read_1m": 1.00, "write_64k": 0.95, "write_1m": 0.95}
AIMS_SMALL_PAGES = {"read_64k": 0.90, "read_1m": 0.90}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir", type=Path, help="directory on the disk to measure; everything made in it is removed")
    parser.add_argument("--ziggurat", default=None, help="the program; target/release/ziggurat or the one in PATH")
    parser.add_argument("--rows", default=",".join(ROWS), help="which job files, with commas between them")
    parser.add_argument("--rounds", type=int, default=None, help="rounds of `bench ssd`")
    parser.add_argument("--quick", action="store_true", help="small files and short runs, to see that everything works")
    parser.add_argument("--small-pages", action="store_true", help="buffers of the tier in small pages, as fio has them")
    parser.add_argument("--svg", type=Path, default=Path("ssd.svg"), help="where the drawing goes")
    parser.add_argument("--json", type=Path, default=None, help="where all figures go")
    given = parser.parse_args()
    given.rows = given.rows.split(",")
    unknown = [row for row in given.rows if row not in ROWS]
    if unknown:
        parser.error(f"there is no row {unknown[0]!r}: give some of {', '.join(ROWS)}")
    if not given.dir.is_dir():
        parser.error(f"{given.dir} is not a directory: give one on the disk to measure")
    return given


def program(given):
    built = HERE.parent / "target" / "release" / "ziggurat"
    found = given.ziggurat or (built if built.exists() else shutil.which("ziggurat"))
    if not found:
        sys.exit("there is no ziggurat: build it (cargo build --release), or give --ziggurat PROGRAM")
    if not shutil.which("fio"):
        sys.exit("there is no fio: install the package fio (apt-get install fio)")
    return str(found)


def fio(row, file, size, runtime_ms):
    """Runs one job file; bytes per second."""
    environment = dict(
        os.environ,
        ZIGGURAT_FIO_FILE=str(file).replace(":", "\\:"),
        ZIGGURAT_FIO_SIZE=str(size),
        ZIGGURAT_FIO_RUNTIME=f"{runtime_ms}ms",
    )
    command = ["fio", "--output-format=json", str(HERE / f"{row}.fio")]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True)
    if ended.returncode:
        sys.exit(f"fio {row} failed: {ended.stderr.strip() or ended.stdout.strip()}")
    report = json.loads(ended.stdout[ended.stdout.index("{"):])
    side = report["jobs"][0]["read" if row.startswith("read") else "write"]
    return side["io_bytes"] / (side["runtime"] / 1e3)


def ceiling(row, folder, size, runtime_ms):
    """fio alone, on a file of its own."""
    file = folder / "ceiling"
    try:
        if row.startswith("read"):
            fio("write_1m", file, size, runtime_ms)
        return fio(row, file, size, runtime_ms)
    finally:
        file.unlink(missing_ok=True)


def bench(ziggurat, given, row):
    command = [ziggurat, "bench", "ssd", "--dir", str(given.dir), "--rows", row, "--json"]
    command += ["--quick"] if given.quick else []
    command += ["--small-pages"] if given.small_pages else []
    command += ["--rounds", str(given.rounds)] if given.rounds else []
    ended = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if ended.returncode:
        sys.exit(f"{' '.join(command)} ended with {ended.returncode}: {ended.stdout.strip()}")
    return json.loads(ended.stdout.splitlines()[-1])


def measure(given):
    ziggurat = program(given)
    size, runtime_ms = (64 << 20, 200) if given.quick else (1 << 30, 1000)
    rows = []
    with tempfile.TemporaryDirectory(prefix="ziggurat-fio-tests-", dir=given.dir) as name:
        for row in given.rows:
            print(f"{row} …", file=sys.stderr)
            before = ceiling(row, Path(name), size, runtime_ms)
            report = bench(ziggurat, given, row)
            after = ceiling(row, Path(name), size, runtime_ms)
            figures = report["rows"][0]
            figures["ceiling_gbps"] = statistics.mean([before, after]) / 1e9
            figures["aim"] = (AIMS_SMALL_PAGES if given.small_pages else {}).get(row, AIMS[row])
            rows.append(figures)
            about = {key: report[key] for key in ["fio", "engine", "pages", "bytes"]}
    return {"rows": rows, **about}


def table(report):
    headings = ["", "GB/s", "fio", "fio alone", "per s", "fio", "ratio", "(least, greatest)", "aim", "CPU s/GB", "fio", "unsteady"]
    lines = [headings]
    for row in report["rows"]:
        lines.append([
            row["name"], f"{row['gbps']:.2f}", f"{row['limit_gbps']:.2f}", f"{row['ceiling_gbps']:.2f}",
            f"{row['iops']:.0f}", f"{row['limit_iops']:.0f}", f"{row['ratio']:.2f}",
            f"({row['ratio_least']:.2f}, {row['ratio_greatest']:.2f})", f"{row['aim']:.2f}",
            f"{row['cpu_s_per_gb']:.3f}", f"{row['limit_cpu_s_per_gb']:.3f}", f"{row['unsteady']}",
        ])
    widths = [max(len(line[at]) for line in lines) for at in range(len(headings))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in lines)


def svg(report):
    """A column for each row: the rounds of the tier and the halves of fio, each against the mean of its round's halves."""
    step, height, left, top = 130, 320, 60, 40
    points = []
    for row in report["rows"]:
        ours, halves = [], []
        for one in row["rounds"]:
            limit = (one["before_gbps"] + one["after_gbps"]) / 2
            ours.append(one["gbps"] / limit)
            halves += [one["before_gbps"] / limit, one["after_gbps"] / limit]
        points.append((row, ours, halves))
    most = max(max(ours + halves) for _, ours, halves in points) * 1.08
    width = left + step * len(points) + 20

    def y(ratio):
        return top + height * (1 - ratio / most)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{top + height + 60}" font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{left}" y="20">SSD tier against {report["fio"]} (1 = the mean of the two halves of fio in the same round)</text>',
    ]
    for tick in range(int(most / 0.25) + 1):
        ratio = tick / 4
        colour = "#444" if ratio == 1 else "#ddd"
        parts.append(f'<line x1="{left}" x2="{width - 20}" y1="{y(ratio):.1f}" y2="{y(ratio):.1f}" stroke="{colour}"/>')
        parts.append(f'<text x="{left - 8}" y="{y(ratio) + 4:.1f}" text-anchor="end">{ratio:.2f}</text>')
    for at, (row, ours, halves) in enumerate(points):
        middle = left + step * at + step / 2
        ratio = row["ratio"]
        parts.append(f'<rect x="{middle - 32}" y="{y(ratio):.1f}" width="40" height="{y(0) - y(ratio):.1f}" fill="#9ecae1"/>')
        parts.append(f'<line x1="{middle - 40}" x2="{middle + 16}" y1="{y(row["aim"]):.1f}" y2="{y(row["aim"]):.1f}" stroke="#d62728" stroke-dasharray="4 3"/>')
        parts += [f'<circle cx="{middle - 12}" cy="{y(one):.1f}" r="3" fill="#08519c"/>' for one in ours]
        parts += [f'<circle cx="{middle + 28}" cy="{y(one):.1f}" r="3" fill="#999"/>' for one in halves]
        label = f'{ratio:.2f} of {row["limit_gbps"]:.2f} GB/s'
        parts.append(f'<text x="{middle}" y="{top + height + 18}" text-anchor="middle">{row["name"]}</text>')
        parts.append(f'<text x="{middle}" y="{top + height + 34}" text-anchor="middle">{label}</text>')
    parts.append(f'<text x="{left}" y="{top + height + 54}">blue: tier, bar at the median; grey: halves of fio; red: aim; buffers in {report["pages"]} pages</text>')
    return "\n".join(parts + ["</svg>", ""])


def main():
    given = arguments()
    report = measure(given)
    print(f"{report['fio']}, files of {report['bytes'] >> 20} MiB, buffers in {report['pages']} pages\n{report['engine']}\n")
    print(table(report))
    given.svg.write_text(svg(report))
    print(f"\ndrawn to {given.svg}")
    if given.json:
        given.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
