// Imports a TypeScript module of src/, bundled by the esbuild that builds the pages. The packages are in web/ (after
// `npm ci`), or in the folder given by HEADROOM_WEB_MODULES.
import {createRequire} from 'node:module';
import {dirname, join} from 'node:path';
import {fileURLToPath} from 'node:url';

const web = dirname(dirname(fileURLToPath(import.meta.url)));
const modules = process.env.HEADROOM_WEB_MODULES ?? join(web, 'node_modules');
const esbuild = createRequire(join(modules, 'any.js'))('esbuild');

export async function load(name) {
  const {outputFiles} = esbuild.buildSync({
    entryPoints: [join(web, 'src', name)], bundle: true, write: false, format: 'esm', platform: 'neutral',
  });
  return import(`data:text/javascript;base64,${Buffer.from(outputFiles[0].contents).toString('base64')}`);
}
