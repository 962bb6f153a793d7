// Runs the case files through the built extension in DuckDB's Node client.
//
// usage: node run.mjs EXTENSION CASES-DIR VERSION [FILE-TO-LEAVE-OUT...]
//
// Prints the blocks that fail and a last line 'N passed, N failed'; the exit code is 1
// when one failed.
import {mkdtempSync, readdirSync, rmSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {install, open} from './client.mjs';
import {cell, parse, same} from './format.mjs';

const [extension, cases, version, ...out] = process.argv.slice(2);
if (!version) {
  console.error('usage: node run.mjs EXTENSION CASES-DIR VERSION [FILE-TO-LEAVE-OUT...]');
  process.exit(2);
}
const api = install(version);

async function check(con, b, tmp) {
  const sql = b.sql.replaceAll('${TMP}', tmp);
  if (b.kind !== 'query') {
    try {
      await con.run(sql);
    } catch (e) {
      if (b.kind === 'ok') return `error: ${e.message}`;
      return b.pattern.test(e.message) ? '' : `error: ${e.message}\nwant one matching ${b.pattern.source}`;
    }
    return b.kind === 'ok' ? '' : `no error; want one matching ${b.pattern.source}`;
  }
  let got;
  try {
    got = (await con.runAndReadAll(sql)).getRows().map(row => row.map(cell).join('\t'));
  } catch (e) {
    return `error: ${e.message}`;
  }
  const want = [...b.rows];
  if (b.sort) { got.sort(); want.sort(); }
  for (let i = 0; i < Math.max(got.length, want.length); i++) {
    const g = got[i] ?? '(no row)', w = want[i] ?? '(no row)';
    const gc = g.split('\t'), wc = w.split('\t');
    if (gc.length !== wc.length || !wc.every((c, k) => same(gc[k], c, b.rtol, b.atol))) {
      return `row ${i + 1}\n got  ${g}\n want ${w}`;
    }
  }
  return '';
}

const release = v => Number(v.split('.')[0]) * 1000 + Number(v.split('.')[1]);
let passed = 0, failed = 0;
for (const name of readdirSync(cases).filter(n => n.endsWith('.test')).sort()) {
  const file = parse(join(cases, name));
  if (out.includes(name.replace('.test', '')) || file.only === 'embedded' || release(file.from) > release(version) || release(file.to) < release(version)) continue;
  const {con, close} = await open(api, extension);
  const tmp = mkdtempSync(join(tmpdir(), 'bglm-cases-'));
  for (const b of file.blocks) {
    const bad = await check(con, b, tmp);
    if (!bad) { passed++; continue; }
    failed++;
    console.log(`${name}:${b.line}: ${b.sql}\n${bad}\n`);
  }
  close();
  rmSync(tmp, {recursive: true, force: true});
}
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
