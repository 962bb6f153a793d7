// Runs statements that may fail through the built extension in DuckDB's Node client.
//
// usage: node hostile.mjs EXTENSION STATEMENTS.json VERSION
//
// Every statement succeeds or gives a SQL error. The exit code is 1 when one gave
// an internal error or states stayed behind; a crash shows in the exit code too.
import {readFileSync, writeSync} from 'node:fs';
import {install, open} from './client.mjs';

const [extension, file, version] = process.argv.slice(2);
if (!version) {
  console.error('usage: node hostile.mjs EXTENSION STATEMENTS.json VERSION');
  process.exit(2);
}
const api = install(version);
const {con, close} = await open(api, extension);
const crash = /internal error|fatal|INTERNAL|segmentation|nil pointer|index out of range|slice bounds|runtime error|assertion/i;
const kinds = {};
let bad = 0;
for (const [i, sql] of JSON.parse(readFileSync(file, 'utf8')).entries()) {
  try {
    await con.run(sql);
    kinds.ok = (kinds.ok ?? 0) + 1;
  } catch (e) {
    if (crash.test(e.message)) {
      bad++;
      writeSync(1, `statement ${i}: ${sql}\n${e.message}\n`);
    }
    const kind = e.message.split(':')[0];
    kinds[kind] = (kinds[kind] ?? 0) + 1;
  }
}
await con.run('SELECT bglm_purge()');
const left = (await con.runAndReadAll('SELECT bglm_state().live_states::INT')).getRows()[0][0];
const mib = Math.round(process.memoryUsage().rss / 2 ** 20);
console.log(`DuckDB ${version}: ${Object.entries(kinds).sort().map(([k, n]) => `${k} ${n}`).join(', ')}; ${left} states left, resident ${mib} MiB`);
close();
process.exit(bad || left ? 1 : 0);
