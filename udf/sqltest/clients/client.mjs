// DuckDB's Node client at a given version, with bglm's extension loaded.
import {execFileSync} from 'node:child_process';
import {existsSync, mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync} from 'node:fs';
import {createRequire} from 'node:module';
import {homedir, tmpdir} from 'node:os';
import {dirname, join, resolve} from 'node:path';

const pkg = '@duckdb/node-api';

// install puts the client's npm package into the cache directory, once per version:
// BGLM_CLIENT_CACHE/VERSION, by default ~/.cache/bglm-clients/VERSION.
export function install(version) {
  const dir = join(process.env.BGLM_CLIENT_CACHE || join(homedir(), '.cache', 'bglm-clients'), version);
  if (!existsSync(join(dir, 'node_modules', pkg))) {
    mkdirSync(dirname(dir), {recursive: true});
    const part = mkdtempSync(dir + '.part-'); // renamed when complete
    writeFileSync(join(part, 'package.json'), '{"private":true}');
    execFileSync('npm', ['install', '--silent', '--no-audit', '--no-fund', `${pkg}@${version}`],
        {cwd: part, stdio: ['ignore', 'ignore', 'inherit']});
    try {
      renameSync(part, dir);
    } catch (e) {
      rmSync(part, {recursive: true, force: true});
      if (!existsSync(join(dir, 'node_modules', pkg))) throw e; // else another run was faster
    }
  }
  return createRequire(join(dir, 'package.json'))(pkg);
}

// open returns a connection to a fresh in-memory database with the extension loaded. It spills
// to a folder of its own: DuckDB's is the same for all processes in one folder, which then read
// each other's blocks (docs/duckdb.md).
export async function open(api, extension) {
  const spill = mkdtempSync(join(tmpdir(), 'bglm-spill-'));
  const remove = () => rmSync(spill, {recursive: true, force: true});
  process.once('exit', remove);
  const instance = await api.DuckDBInstance.create(':memory:', {allow_unsigned_extensions: 'true', temp_directory: spill});
  const con = await instance.connect();
  await con.run(`LOAD '${resolve(extension).replaceAll("'", "''")}'`);
  return {con, close() { con.closeSync?.(); instance.closeSync?.(); remove(); process.removeListener('exit', remove); }};
}
