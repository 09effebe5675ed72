"""A trace as one self-contained HTML file with a slider over the iterations."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

import msgspec

from srcmap.i18n import text as said

if TYPE_CHECKING:
    from srcmap.render.trace_pages import TracePage

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --accent: #b34700; --dim: #777; }
body { font: 15px/1.45 system-ui, sans-serif; margin: 1.2rem auto; max-width: 1500px;
  padding: 0 1rem; }
h1 { font-size: 1.15rem; } h1 a { color: inherit; }
.bar { position: sticky; top: 0; background: Canvas; padding: .5rem 0; display: flex; gap: 1rem;
  align-items: center; border-bottom: 1px solid var(--line); }
.bar input { flex: 1; } .bar output { min-width: 8ch; font-weight: 600; }
table { border-collapse: collapse; width: 100%; }
td, th { padding: .05rem .5rem; vertical-align: top; text-align: left; }
.code td:first-child { color: var(--dim); text-align: right; user-select: none; }
.code pre { margin: 0; font: 13px/1.45 ui-monospace, monospace; white-space: pre-wrap; }
.code tr.now { background: #b3470014; }
.values { font: 12px/1.5 ui-monospace, monospace; color: var(--accent); overflow-wrap: anywhere; }
.values b { font-weight: 600; } .values .outside { color: var(--dim); }
.concept { color: var(--dim); font-size: 12px; white-space: nowrap; }
.over td, .over th { border-bottom: 1px solid var(--line); font: 12px ui-monospace, monospace; }
.over tr.now { background: #b3470030; }
"""

_SCRIPT = """
const data = JSON.parse(document.getElementById('trace').textContent);
const slider = document.getElementById('step'), name = document.getElementById('name');
function show(step) {
  const last = data.steps.length - 1, cells = {};
  for (const value of data.values) {
    const inside = value.step !== null && value.step >= 0;
    if (inside ? value.step !== step : value.step !== null && step !== last) continue;
    (cells[value.line] = cells[value.line] || []).push([value, inside]);
  }
  for (const row of document.querySelectorAll('.code tbody tr')) {
    const found = cells[row.dataset.line] || [], cell = row.querySelector('.values');
    cell.textContent = '';
    row.classList.toggle('now', found.some(([, inside]) => inside));
    for (const [value, inside] of found) {
      const line = document.createElement('div'), bold = document.createElement('b');
      bold.textContent = (value.role ? value.role + ' ' : '') + value.buffer;
      line.append(bold, ' = ' + value.text + (value.times > 1 ? '  \\u00d7' + value.times : ''));
      if (!inside) line.className = 'outside';
      line.title = value.values.join(', ');
      cell.append(line);
    }
  }
  document.querySelectorAll('.over tbody tr').forEach(
    (row, n) => row.classList.toggle('now', n === step));
  name.value = data.steps.length ? data.steps[step] : '';
}
slider.addEventListener('input', () => show(Number(slider.value)));
document.querySelectorAll('.over tbody tr').forEach((row, n) =>
  row.addEventListener('click', () => { slider.value = n; show(n); }));
show(Number(slider.value));
"""


def trace_html(page: TracePage, step: int, lang: str) -> str:
    """Return the page, opened at one iteration. It loads nothing from anywhere."""
    title = escape(page.title)
    link = f'<a href="{escape(page.url, quote=True)}">{title}</a>' if page.url else title
    rows = "\n".join(
        f'<tr data-line="{line.number}"><td>{line.number}</td>'
        f'<td><pre>{escape(line.text)}</pre></td><td class="values"></td>'
        f'<td class="concept">{escape(line.concept)}</td></tr>'
        for line in page.lines
    )
    head = "".join(
        f"<th>{escape(said(key, lang))}</th>"
        for key in ("trace.code", "trace.values", "trace.concept")
    )
    last = max(len(page.steps) - 1, 0)
    label = escape(said("trace.slider", lang))
    return f"""<!DOCTYPE html>
<html lang="{lang}"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width">
<style>{_STYLE}</style></head><body>
<h1>{link}</h1>
<div class="bar"><label for="step">{label}</label>
<input id="step" type="range" min="0" max="{last}" value="{step}"><output id="name"></output></div>
{_table(page, lang)}
<table class="code"><thead><tr><th></th>{head}</tr></thead><tbody>
{rows}
</tbody></table>
<script type="application/json" id="trace">{_data(page)}</script>
<script>{_SCRIPT}</script>
</body></html>
"""


def _table(page: TracePage, lang: str) -> str:
    names, rows = page.table()
    if not names:
        return ""
    head = "".join(f"<th>{escape(name)}</th>" for name in (said("trace.slider", lang), *names))
    body = "\n".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f'<table class="over"><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table>'


def _data(page: TracePage) -> str:
    """Return what the script reads; no text in it can end the element that holds it."""
    values: dict[str, Any] = {
        "steps": list(page.steps),
        "values": [msgspec.to_builtins(value) for value in page.values],
    }
    text = msgspec.json.encode(values).decode()
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
