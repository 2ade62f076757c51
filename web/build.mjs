// Builds the pages. Each page is one HTML file with its TypeScript and CSS bundled in; it loads no other file.
//   node build.mjs [FOLDER]
// Headroom replaces the marker in src/page.html with data (src/report/page.cpp).
import {createHash} from 'node:crypto';
import {mkdirSync, readFileSync, writeFileSync} from 'node:fs';
import {dirname, join} from 'node:path';
import {fileURLToPath} from 'node:url';
import * as esbuild from 'esbuild';

const here = dirname(fileURLToPath(import.meta.url));
const folder = process.argv[2] ?? join(here, 'dist');
// Limit for the code alone, without images and data, so that a page stays small enough for an email.
const LARGEST_PAGE = 250_000;
const PAGES = [
  {
    name: 'report.html', entry: 'src/main.tsx', title: 'Headroom report',
    without_script: 'The same figures are in report.md and report.json of the run.',
  },
  {
    name: 'recording.html', entry: 'src/recording/main.tsx', title: 'Headroom recording',
    without_script: '"headroom report FILE.hrec" prints the same figures, and "--json" all of them.',
  },
  {
    name: 'snapshot.html', entry: 'src/snapshot/main.tsx', title: 'Headroom memory snapshot',
    without_script: '"headroom report SNAPSHOT.pickle" prints the same figures, and "--json" all of them.',
  },
  {
    name: 'plan.html', entry: 'src/plan/main.tsx', title: 'Headroom plan',
    without_script: '"headroom plan BUDGET.toml" prints the same figures, and "--json" all of them.',
  },
  {
    name: 'live.html', entry: 'src/live/main.tsx', title: 'Headroom live', connects: true,
    without_script: '/metrics and /api/v1/sample serve the same figures.',
  },
  {
    name: 'history.html', entry: 'src/history/main.tsx', title: 'Headroom history',
    without_script: '"headroom history show METRIC" prints the same figures, and "--json" all of them.',
  },
  {
    name: 'watch.html', entry: 'src/watch/main.tsx', title: 'Headroom watch',
    without_script: '"headroom watch" prints the same figures.',
  },
];

const hash = (text) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`;

for (const {name, entry, title, without_script, connects} of PAGES) {
  const bundle = await esbuild.build({
    entryPoints: [join(here, entry)],
    bundle: true,
    write: false,
    minify: true,
    format: 'iife',
    target: ['es2021', 'chrome100', 'firefox100', 'safari15'],
    jsx: 'automatic',
    jsxImportSource: 'preact',
    outdir: 'out',
    legalComments: 'none',
    charset: 'ascii',  // the page is correct even if it is decoded with another charset
  });
  const text_of = (extension) => bundle.outputFiles.find((file) => file.path.endsWith(extension)).text.trim();
  const script = text_of('.js');
  const style = text_of('.css');
  if (/<\/script|<!--/i.test(script) || /<\/style/i.test(style)) throw new Error('the bundle contains a closing tag of its own element');

  // The policy allows only this script and this style, and no requests, so data cannot inject code or send anything.
  // The live page may connect to its own server.
  const policy = `default-src 'none'; img-src data:; script-src ${hash(script)}; style-src ${hash(style)}${connects ? "; connect-src 'self'" : ''}`;
  const page = readFileSync(join(here, 'src/page.html'), 'utf8')
    .replace('{{policy}}', () => policy)
    .replace('{{title}}', () => title)
    .replace('{{without_script}}', () => without_script)
    .replace('{{style}}', () => style)
    .replace('{{script}}', () => script);
  if (page.split('<!--headroom:data-->').length !== 2) throw new Error('src/page.html must contain the data marker exactly once');
  if (page.length > LARGEST_PAGE) throw new Error(`${name} has ${page.length} bytes; the limit is ${LARGEST_PAGE}`);
  mkdirSync(folder, {recursive: true});
  writeFileSync(join(folder, name), page);
  console.log(`${join(folder, name)}: ${page.length} bytes`);
}
