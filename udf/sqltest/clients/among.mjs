// Loads add-ons that use static TLS into Node, then the extension, twice, into two
// databases.
//
// usage: node among.mjs EXTENSION VERSION OBJECT...
import {install, open} from './client.mjs';

const [extension, version, ...objects] = process.argv.slice(2);
for (const path of objects) process.dlopen({exports: {}}, path);
const api = install(version);
const check = 'SELECT bglm_adf(i % 3 = 0, {a: i / 1e3} ORDER BY i).n::INT FROM range(20000) t(i)';
for (let k = 0; k < 2; k++) {
  const {con} = await open(api, extension);
  await con.run(`LOAD '${extension.replaceAll("'", "''")}'`);
  const n = (await con.runAndReadAll(check)).getRows()[0][0];
  if (n !== 20000) throw new Error(`n = ${n}`);
}
console.log(`${objects.length} objects`);
process.exit(0);
