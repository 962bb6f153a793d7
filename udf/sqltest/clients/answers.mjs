// Prints what queries answer through the built extension in DuckDB's Node client.
//
// usage: node answers.mjs EXTENSION VERSION SETUP QUERIES-JSON
//
// SETUP is statements separated by ';'. Each query gives one VARCHAR; the output is
// the JSON list of them.
import {install, open} from './client.mjs';

const [extension, version, setup, queries] = process.argv.slice(2);
if (!queries) {
  console.error('usage: node answers.mjs EXTENSION VERSION SETUP QUERIES-JSON');
  process.exit(2);
}
const {con, close} = await open(install(version), extension);
for (const sql of setup.split(';')) await con.run(sql);
const out = [];
for (const sql of JSON.parse(queries)) out.push((await con.runAndReadAll(sql)).getRows()[0][0]);
console.log(JSON.stringify(out));
close();
