// The export of a real recording in the real speedscope page (npm `speedscope`), as a person would load it.
//   speedscope_test.mjs HEADROOM [--screenshots FOLDER]
// Needs Chromium and `npm ci` in web/; exits 77 (skipped) where one of them is absent.
import assert from 'node:assert/strict';
import {execFileSync} from 'node:child_process';
import {existsSync, readFileSync} from 'node:fs';
import {join} from 'node:path';
import {pathToFileURL} from 'node:url';
import {close_browser, folder, screenshots, SIZES, skip, web, with_address, writer as headroom} from './browser.mjs';

const index = join(web, 'node_modules/speedscope/dist/release/index.html');
if (!existsSync(index)) skip('speedscope is not installed; run npm ci --ignore-scripts in web/');

const recording = join(folder, 'listing.hrec');
const file = join(folder, 'listing.speedscope.json');
execFileSync(headroom, ['trace', '--full', '--out', recording, '--', '/bin/ls', '-lR', '/usr/include/linux'], {stdio: 'ignore'});
execFileSync(headroom, ['export', recording, '--to', 'speedscope', '--metric', 'allocated']);
const written = JSON.parse(readFileSync(file, 'utf8'));
const profile = written.profiles[written.activeProfileIndex];

// Bytes that each frame allocated itself: the table of the sandwich view begins with the largest.
const own = new Map();
profile.samples.forEach((stack, i) => own.set(stack.at(-1), (own.get(stack.at(-1)) ?? 0) + profile.weights[i]));
const [largest, bytes] = [...own].sort(([, a], [, b]) => b - a)[0];
const name = written.shared.frames[largest].name;
assert.ok(bytes > 0 && profile.endValue >= bytes);

await with_address(pathToFileURL(index).href, SIZES[0], 'light', async (page, requests, complaints) => {
  await page.locator('input[type=file]').setInputFiles(file);
  await page.waitForFunction((words) => document.body.innerText.includes(words), profile.name);
  assert.match(await page.title(), /listing/);
  await page.waitForSelector('canvas');
  if (screenshots) await page.screenshot({path: join(screenshots, 'speedscope-time-order.png')});
  await page.getByText('Sandwich').click();  // a table of the frames
  await page.waitForFunction((words) => document.body.innerText.includes(words), name);
  const words = await page.evaluate(() => document.body.innerText);
  assert.doesNotMatch(words, /Something went wrong|Unrecognized format|failed to load/i);
  if (screenshots) await page.screenshot({path: join(screenshots, 'speedscope-sandwich.png')});
  assert.deepEqual(complaints.filter((words) => /^[A-Za-z]*error|^dialog/i.test(words)), [], 'speedscope complained');
  // Its own parts, from the package's folder, and nothing from elsewhere.
  for (const request of requests) assert.match(request, /^(file:.*\/speedscope\/dist\/release\/|blob:)/);
});
console.log(`ok: speedscope shows ${profile.samples.length} stacks and ${name}`);
await close_browser();
