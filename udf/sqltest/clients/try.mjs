// Runs statements that may fail through the built extension in DuckDB's Node client and
// prints what each gave: a JSON list of {"rows": ["cell\\tcell"]} or {"error": "text"}.
//
// usage: node try.mjs EXTENSION VERSION STATEMENTS.json
//
// A statement that ends the process is the last one that the file STATEMENTS.json.at names.
import {readFileSync, writeFileSync} from 'node:fs';
import {install, open} from './client.mjs';
import {cell} from './format.mjs';

const [extension, version, file] = process.argv.slice(2);
if (!file) {
  console.error('usage: node try.mjs EXTENSION VERSION STATEMENTS.json');
  process.exit(2);
}
const {con, close} = await open(install(version), extension);
const out = [];
for (const sql of JSON.parse(readFileSync(file, 'utf8'))) {
  writeFileSync(file + '.at', sql);
  try {
    out.push({rows: (await con.runAndReadAll(sql)).getRows().map(row => row.map(cell).join('\t'))});
  } catch (e) {
    out.push({error: e.message});
  }
}
console.log(JSON.stringify(out));
close();
