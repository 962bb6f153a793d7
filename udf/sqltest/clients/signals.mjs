// A handler of the host for SIGURG, set before the extension is loaded, still runs.
//
// usage: node signals.mjs EXTENSION VERSION
import {install, open} from './client.mjs';

const [extension, version] = process.argv.slice(2);
let got = 0;
process.on('SIGURG', () => { got++; });
const {con} = await open(install(version), extension);
await con.run('SELECT bglm_adf(i % 3 = 0, [i / 3e5]) FROM range(300000) t(i)'); // Go interrupts its threads meanwhile
const before = got;
process.kill(process.pid, 'SIGURG');
for (let i = 0; i < 100 && got === before; i++) await new Promise(done => setTimeout(done, 20));
console.log(`${before} before, ${got} after`);
process.exit(before === 0 && got === 1 ? 0 : 1);
