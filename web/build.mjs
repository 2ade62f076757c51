// Builds the report's page: TypeScript and CSS bundled into one HTML file that needs nothing else.
// `to_html` (src/report/html.cpp) later puts a run's data in place of the marker below.
import {createHash} from 'node:crypto';
import {mkdirSync, readFileSync, writeFileSync} from 'node:fs';
import {dirname, join} from 'node:path';
import {fileURLToPath} from 'node:url';
import * as esbuild from 'esbuild';

const here = dirname(fileURLToPath(import.meta.url));
const output = process.argv[2] ?? join(here, 'dist', 'report.html');
// The code alone, without the images and figures of a run, stays small enough to mail.
const LARGEST_PAGE = 250_000;

const bundle = await esbuild.build({
  entryPoints: [join(here, 'src/main.tsx')],
  bundle: true,
  write: false,
  minify: true,
  format: 'iife',
  target: ['es2021', 'chrome100', 'firefox100', 'safari15'],
  jsx: 'automatic',
  jsxImportSource: 'preact',
  outdir: 'out',
  legalComments: 'none',
  charset: 'ascii',  // the page stays right even where it is read with another charset
});
const text_of = (extension) => bundle.outputFiles.find((file) => file.path.endsWith(extension)).text.trim();
const script = text_of('.js');
const style = text_of('.css');
if (/<\/script|<!--/i.test(script) || /<\/style/i.test(style)) throw new Error('the bundle would end its own element');

const hash = (text) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`;
// Only this very script and style run, and nothing can be fetched: a run's data cannot bring code or call home.
const policy = `default-src 'none'; img-src data:; script-src ${hash(script)}; style-src ${hash(style)}`;
const page = readFileSync(join(here, 'src/page.html'), 'utf8')
  .replace('{{policy}}', () => policy)
  .replace('{{style}}', () => style)
  .replace('{{script}}', () => script);
if (page.split('<!--headroom:data-->').length !== 2) throw new Error('src/page.html must hold the data marker once');
if (page.length > LARGEST_PAGE) throw new Error(`the page has ${page.length} bytes; ${LARGEST_PAGE} are allowed`);
mkdirSync(dirname(output), {recursive: true});
writeFileSync(output, page);
console.log(`${output}: ${page.length} bytes`);
