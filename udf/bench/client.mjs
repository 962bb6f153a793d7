// Times queries in DuckDB's Node client with the extension loaded; prints the
// medians in seconds as JSON. Run by main.go from the top of the project.
import {execFileSync} from 'node:child_process';
import {existsSync, mkdirSync, writeFileSync} from 'node:fs';
import {createRequire} from 'node:module';
import {homedir} from 'node:os';
import {join, resolve} from 'node:path';

const version = '1.5.6-r.1';
const {extension, prepare, queries, threads, repeats} = JSON.parse(process.argv[2]);
const dir = process.env.BGLM_CLIENT_CACHE ? join(process.env.BGLM_CLIENT_CACHE, version) : join(homedir(), '.cache', 'bglm-clients', version);
if (!existsSync(join(dir, 'node_modules/@duckdb/node-api'))) {
  mkdirSync(dir, {recursive: true});
  writeFileSync(join(dir, 'package.json'), '{"private":true}');
  execFileSync('npm', ['install', '--silent', '--no-audit', '--no-fund', `@duckdb/node-api@${version}`], {cwd: dir, stdio: 'ignore'});
}
const {DuckDBInstance} = createRequire(join(dir, 'x.js'))('@duckdb/node-api');
const db = await DuckDBInstance.create(':memory:', {allow_unsigned_extensions: 'true'});
const con = await db.connect();
await con.run(`LOAD '${resolve(extension)}'`);
await con.run(prepare);
await con.run(`SET threads = ${threads}`);
const out = [];
for (const q of queries) {
  const secs = [];
  for (let i = 0; i < repeats; i++) {
    const start = performance.now();
    await con.runAndReadAll(q.sql);
    secs.push((performance.now() - start) / 1000);
  }
  secs.sort((a, b) => a - b);
  out.push(secs[Math.floor(secs.length / 2)]);
}
console.log(JSON.stringify(out));
