// The format of the case files: parse, print a cell, compare. README.md describes it;
// sqltest.go is the same in Go.
import {readFileSync} from 'node:fs';

export function parse(path) {
  const file = {path, only: '', from: '1.0', to: '9.0', blocks: []};
  const lines = readFileSync(path, 'utf8').replaceAll('\r\n', '\n').split('\n');
  for (let i = 0; i < lines.length;) {
    const line = lines[i];
    if (line.trim() === '') { i++; continue; }
    const fail = text => { throw new Error(`${path}:${i + 1}: ${text}`); };
    if (line.startsWith('#')) {
      const w = line.slice(1).trim().split(/\s+/);
      if (w.length === 2 && w[0] === 'threads') file.blocks.push({line: i + 1, kind: 'ok', sql: `SET threads = ${w[1]}`});
      if (w.length === 2 && w[0] === 'only') file.only = w[1];
      if (w.length === 2 && (w[0] === 'from' || w[0] === 'to')) file[w[0]] = w[1];
      i++;
      continue;
    }
    const b = {line: i + 1, kind: 'ok', rtol: 1e-9, atol: 0, sort: false, rows: []};
    if (line.startsWith('statement error ')) {
      b.kind = 'error';
      b.pattern = new RegExp(line.slice('statement error '.length));
    } else if (/^query(\s|$)/.test(line)) {
      b.kind = 'query';
      for (const w of line.split(/\s+/).slice(1)) {
        const [key, value] = w.split('=');
        if (w === 'sort') b.sort = true;
        else if ((key === 'rtol' || key === 'atol') && Number.isFinite(Number(value))) b[key] = Number(value);
        else fail(`found ${w}`);
      }
    } else if (line !== 'statement ok') fail(`found ${line}`);
    const sql = [];
    for (i++; i < lines.length && lines[i].trim() !== '' && lines[i] !== '----'; i++) sql.push(lines[i]);
    b.sql = sql.join('\n');
    if (b.kind === 'query') {
      if (lines[i] !== '----') fail('no line ----');
      for (i++; i < lines.length && lines[i].trim() !== ''; i++) b.rows.push(lines[i]);
    }
    file.blocks.push(b);
  }
  return file;
}

export function cell(v) {
  if (v === null || v === undefined) return 'NULL';
  switch (typeof v) {
    case 'boolean': case 'bigint': return String(v);
    case 'number': return Number.isNaN(v) ? 'nan' : v === Infinity ? 'inf' : v === -Infinity ? '-inf' : String(v);
    case 'string': return v === '' ? '(empty)' : v.replaceAll('\t', '\\t').replaceAll('\n', '\\n');
  }
  throw new Error(`a value ${v}: cast it to VARCHAR in the query`);
}

const word = /[0-9A-Za-z_#\u0080-\uffff]/;

function tokens(s) {
  const out = [];
  for (let i = 0; i < s.length;) {
    const signed = i === 0 || ' [({,:=\t'.includes(s[i - 1]);
    if (/[0-9]/.test(s[i]) || (signed && '-+.'.includes(s[i]))) {
      const m = /^[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?/.exec(s.slice(i));
      if (m && (i + m[0].length === s.length || !word.test(s[i + m[0].length]))) {
        out.push({text: m[0], number: true});
        i += m[0].length;
        continue;
      }
    }
    let j = i + 1;
    if (word.test(s[i])) while (j < s.length && word.test(s[j])) j++;
    out.push({text: s.slice(i, j), number: false});
    i = j;
  }
  return out;
}

export function same(got, want, rtol, atol) {
  if (got === want) return true;
  const g = tokens(got), w = tokens(want);
  return g.length === w.length && w.every((t, i) => t.text === g[i].text ||
    (t.number && g[i].number && Math.abs(Number(g[i].text) - Number(t.text)) <= atol + rtol * Math.abs(Number(t.text))));
}
