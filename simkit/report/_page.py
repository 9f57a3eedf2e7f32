"""The frame of a report: HTML and style, light and dark."""

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
{policy}
<title>{title}</title>
<style>
:root {{ --text: #1d2329; --soft: #5c6670; --back: #ffffff; --line: #dfe3e8; --card: #f6f8fa; --mark: #a84300; --link: #0072b2; }}
@media (prefers-color-scheme: dark) {{
  :root {{ --text: #e4e8ec; --soft: #9aa5b1; --back: #15191e; --line: #333b44; --card: #1d232a; --mark: #ffb07a; --link: #6bb8e8; }}
  img.equation {{ filter: invert(0.9); }}
}}
body {{ margin: 0 auto; max-width: 60rem; padding: 2rem 1.25rem 4rem; background: var(--back); color: var(--text);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", "Liberation Sans", sans-serif; }}
h1 {{ font-size: 1.9rem; line-height: 1.2; margin: 0 0 0.5rem; }}
h2 {{ font-size: 1.2rem; margin: 2.5rem 0 0.75rem; padding-bottom: 0.25rem; border-bottom: 1px solid var(--line); }}
.question {{ font-size: 1.1rem; color: var(--soft); margin-top: 0; }}
.wide {{ overflow-x: auto; }}
table {{ border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 0.92rem; }}
thead th {{ border-bottom: 2px solid var(--line); color: var(--soft); font-weight: 600; }}
th, td {{ padding: 0.3rem 0.8rem 0.3rem 0; text-align: right; white-space: nowrap; vertical-align: top; }}
th:first-child, td:first-child, td:last-child, th:last-child {{ text-align: left; }}
td:first-child {{ font-family: ui-monospace, "DejaVu Sans Mono", monospace; }}
tbody tr {{ border-bottom: 1px solid var(--line); }}
.provenance th, .provenance td {{ text-align: left; white-space: normal; font-weight: normal; font-family: inherit;
  overflow-wrap: anywhere; }}
.provenance th {{ color: var(--soft); white-space: nowrap; }}
figure {{ margin: 1.25rem 0; padding: 0.75rem; background: #ffffff; border: 1px solid var(--line); border-radius: 8px; }}
figure img {{ display: block; max-width: 100%; height: auto; margin: 0 auto; }}
figure.drawn {{ background: var(--back); }}
figure.drawn > .scroll {{ display: none; }}
.scroll {{ overflow-x: auto; }}
figure.drawn figcaption {{ color: var(--soft); }}
figcaption {{ color: #5c6670; font-size: 0.88rem; margin-top: 0.5rem; }}
img.equation {{ display: block; margin: 1rem 0 1rem 1.5rem; max-width: calc(100% - 1.5rem); }}
pre, code {{ font-family: ui-monospace, "DejaVu Sans Mono", monospace; font-size: 0.85rem; }}
code {{ background: var(--card); padding: 0.1em 0.3em; border-radius: 3px; }}
pre {{ background: var(--card); padding: 0.9rem; border-radius: 6px; overflow-x: auto; }}
details {{ margin: 0.5rem 0; }}
summary {{ cursor: pointer; color: var(--link); }}
nav {{ font-size: 0.9rem; margin: 1rem 0 0; }}
nav a {{ display: inline-block; margin: 0 0.9rem 0.25rem 0; color: var(--link); }}
h3 {{ font-size: 1rem; margin: 1.5rem 0 0.5rem; }}
tbody th {{ font-weight: normal; font-family: ui-monospace, "DejaVu Sans Mono", monospace; }}
.words th, .words td {{ text-align: left; white-space: normal; font-family: inherit; }}
.words td:nth-child(2) {{ font-weight: 600; white-space: nowrap; }}
.verdict {{ font-size: 1.1rem; padding: 0.75rem 1rem; background: var(--card); border-left: 4px solid var(--soft);
  border-radius: 4px; }}
.verdict.yes {{ border-color: #009e73; }}
.verdict.care {{ border-color: #e69f00; }}
.verdict.no {{ border-color: #d55e00; }}
.warnings li {{ color: var(--mark); margin: 0.35rem 0; }}
.fine {{ color: var(--soft); }}
@media screen and (max-width: 40rem) {{
  body {{ padding: 1.25rem 1rem 3rem; }}
  h1 {{ font-size: 1.5rem; }}
  th, td {{ white-space: normal; padding-right: 0.6rem; }}
  figure {{ padding: 0.5rem; }}
  figure .scroll img {{ max-width: none; width: 34rem; }}
  img.equation {{ margin-left: 0; max-width: 100%; }}
}}
@media print {{
  :root {{ --text: #000000; --soft: #444444; --back: #ffffff; --line: #cccccc; --card: #f4f4f4; --mark: #8a3700; --link: #000000; }}
  body {{ max-width: none; padding: 0; font-size: 10.5pt; }}
  nav, details {{ display: none; }}
  img.equation {{ filter: none; }}
  figure.drawn > .scroll {{ display: block; }}
  figure.drawn > .wide {{ display: none; }}
  figure, tr, .verdict {{ break-inside: avoid; }}
  h2, h3 {{ break-after: avoid; }}
  .wide {{ overflow: visible; }}
  th, td {{ white-space: normal; }}
}}
</style>
</head>
<body>
<main>
{body}
</main>
{scripts}
</body>
</html>
"""
