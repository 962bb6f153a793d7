// Runs statements in a fresh process with the extension and prints the rows of the last.
//
// usage: node query.mjs EXTENSION VERSION STATEMENT...
import {install, open} from './client.mjs';
import {cell} from './format.mjs';

const [extension, version, ...statements] = process.argv.slice(2);
if (!statements.length) {
  console.error('usage: node query.mjs EXTENSION VERSION STATEMENT...');
  process.exit(2);
}
try {
  const {con} = await open(install(version), extension);
  for (const s of statements.slice(0, -1)) await con.run(s);
  for (const row of (await con.runAndReadAll(statements.at(-1))).getRows()) console.log(row.map(cell).join('\t'));
} catch (e) {
  console.log(`error: ${e.message}`);
  process.exit(1);
}
process.exit(0);
