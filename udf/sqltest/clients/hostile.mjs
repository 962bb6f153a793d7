// Runs statements that may fail through the built extension in DuckDB's Node client.
//
// usage: node hostile.mjs EXTENSION STATEMENTS.json VERSION [FROM]
//
// Every statement succeeds or gives a SQL error; one marked zero gives 0 when it
// succeeds, one marked must succeeds. The exit code is 1 when one did otherwise, gave an
// internal error, or states stayed behind, and 3 when one ran over the limit: of processor
// time, for other work on the machine makes all slow, or ten times as long by the clock. The
// number of the statement that runs stands in STATEMENTS.json.at, for when the process ends
// in it.
import {closeSync, ftruncateSync, openSync, readFileSync, writeSync} from 'node:fs';
import {install, open} from './client.mjs';

const [extension, file, version, from = '0'] = process.argv.slice(2);
if (!version) {
  console.error('usage: node hostile.mjs EXTENSION STATEMENTS.json VERSION [FROM]');
  process.exit(2);
}
const {setup, statements, limit} = JSON.parse(readFileSync(file, 'utf8'));
const at = openSync(file + '.at', 'w');
const api = install(version);
let con, close;
// An error inside an aggregate with ORDER BY leaks DuckDB's own memory until the database
// is closed (docs/duckdb.md), so that a memory_limit is met in the end: a fresh one now and
// then.
const each = 1000;
const fresh = async () => {
  ({con, close} = await open(api, extension));
  for (const sql of setup) await con.run(sql);
};
await fresh();
const crash = /internal error|fatal|INTERNAL|segmentation|nil pointer|index out of range|slice bounds|runtime error|assertion/i;
const escapes = /bglm_\w+: [^\n]*[\x00-\x09\x0b-\x1f\x7f\u0080-\u009f\u202a-\u202e]/;
const kinds = {};
const count = kind => { kinds[kind] = (kinds[kind] ?? 0) + 1; };
let bad = 0;
const fail = (i, sql, text) => {
  bad++;
  writeSync(1, `statement ${i}: ${JSON.stringify(sql)}\n${text}\n`);
};
const began = Date.now();
for (let i = Number(from); i < statements.length; i++) {
  const {sql, zero, must} = statements[i];
  if (i % each === 0 && i > Number(from)) {
    close();
    await fresh();
  }
  ftruncateSync(at);
  writeSync(at, String(i), 0);
  const start = Date.now(), used = process.cpuUsage();
  let watch;
  const look = () => {
    const {user, system} = process.cpuUsage(used);
    if ((user + system) / 1000 < limit && Date.now() - start < 10 * limit) {
      watch = setTimeout(look, limit / 10);
      return;
    }
    writeSync(1, `statement ${i} runs over ${limit / 1000} s: ${sql}\n`);
    process.exit(3);
  };
  watch = setTimeout(look, limit);
  try {
    if (zero) {
      const [differ, shown] = (await con.runAndReadAll(sql)).getRows()[0];
      if (differ) fail(i, sql, `${differ} rows differ without an error: ${shown}`);
      else count('equal');
    } else {
      await con.run(sql);
      count('ok');
    }
  } catch (e) {
    if (crash.test(e.message) || escapes.test(e.message) || must) fail(i, sql, JSON.stringify(e.message));
    else count((zero ? 'refused: ' : '') + e.message.split(':')[0]);
  } finally {
    clearTimeout(watch);
  }
}
const seconds = (Date.now() - began) / 1000;
closeSync(at);
await con.run('SELECT bglm_purge()');
const left = (await con.runAndReadAll('SELECT bglm_state().live_states::INT')).getRows()[0][0];
const mib = Math.round(process.memoryUsage().rss / 2 ** 20);
console.log(`DuckDB ${version}: ${Math.round((statements.length - from) / seconds)} statements a second: ` +
  `${Object.entries(kinds).sort().map(([k, n]) => `${k} ${n}`).join(', ')}; ${bad} bad, ${left} states left, resident ${mib} MiB`);
close();
process.exit(bad || left ? 1 : 0);
