"""A plot of how the figures in docs/benchmarks.md grow, as an SVG without any library.

python bench/plot.py >docs/growth.svg
"""

from __future__ import annotations

import math

SIZES = (1_000, 10_000, 100_000)
# The p50 figures of the last run of speed.py, in milliseconds.
LINES = {
    "search, words": ("#1b6ac9", (9.5, 24.2, 26.8)),
    "search, hybrid": ("#c9471b", (13.3, 28.2, 49.8)),
    "FTS5 and numpy alone": ("#888888", (1.6, 11.5, 211.5)),
    "no-op reconcile": ("#2b8a3e", (6.8, 43.5, 623.6)),
}
WIDTH, HEIGHT, LEFT, BOTTOM = 640, 360, 60, 40


def main() -> None:
    print(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}">')
    print(f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>')
    for power in range(4):
        y = down(10.0**power)
        print(f'<line x1="{LEFT}" y1="{y}" x2="{WIDTH - 10}" y2="{y}" stroke="#dddddd"/>')
        print(text(8, y + 4, f"{10**power} ms"))
    for size in SIZES:
        print(text(across(size) - 20, HEIGHT - 14, f"{size:,}"))
    for number, (name, (colour, values)) in enumerate(LINES.items()):
        points = " ".join(f"{across(n)},{down(v)}" for n, v in zip(SIZES, values, strict=True))
        print(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        print(text(LEFT + 14, 24 + 18 * number, name, colour))
    print("</svg>")


def across(size: float) -> float:
    return round(LEFT + 20 + (math.log10(size) - 3) / 2 * (WIDTH - LEFT - 70), 1)


def down(milliseconds: float) -> float:
    return round(HEIGHT - BOTTOM - math.log10(milliseconds) / 3 * (HEIGHT - BOTTOM - 20), 1)


def text(x: float, y: float, words: str, colour: str = "#333333") -> str:
    style = 'font-family="sans-serif" font-size="12"'
    return f'<text x="{x}" y="{y}" fill="{colour}" {style}>{words}</text>'


if __name__ == "__main__":
    main()
