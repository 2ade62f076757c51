// The page of a plan in a real browser, from file://: desktop and phone, light and dark.
//   node plan_page_test.mjs HEADROOM [--screenshots FOLDER]
// Needs Chromium and `npm ci` in web/; exits 77 (skipped) where one of them is absent.
import assert from 'node:assert/strict';
import {spawnSync} from 'node:child_process';
import {mkdirSync, writeFileSync} from 'node:fs';
import {join} from 'node:path';
import {check_accessibility, check_width, close_browser, folder, HOSTILE_NAME, on_all_screens, SIZES, web, with_page, writer as headroom} from './browser.mjs';

const quoted = JSON.stringify(HOSTILE_NAME);
const budget = `
title = ${quoted}
[device]
total = "3GiB"
[rules]
buffer = "500MB"
[[component]]
name = "camera driver"
memory = "100MB"
frames = { resolution = "1920x1080", channels = 3, depth = 8, count = 30 }
notes = ${quoted}
[[component]]
name = "detector"
load_peak = "900MB"
run_peak = "600MB"
[[component]]
name = "segmentation"
memory = "700MB"
group = "second stage"
[[component]]
name = "depth estimation"
memory = "800MB"
group = "second stage"
[[component]]
name = "language model"
load_peak = "2.6GB"
run_mean = "1.2GB"
run_peak = "1.5GB"
[[component.variant]]
precision = "int8"
memory = "800MB"
estimate = "half of it"
`;

function write_page(kind, file, ...flags) {
  mkdirSync(join(folder, kind));
  const result = spawnSync(headroom, ['plan', file, '--html', join(folder, kind, 'report.html'), ...flags], {encoding: 'utf8'});
  assert.ok(result.status === 0 || result.status === 1, result.stderr);
}

const file = join(folder, 'budget.toml');
writeFileSync(file, budget);
write_page('tight', file);
write_page('guide', join(web, '../docs/examples/budget-perception.toml'));

await on_all_screens('tight', async (page) => {
  assert.equal(await page.textContent('h1'), HOSTILE_NAME);
  assert.match(await page.textContent('.verdict'), /Does not fit.*language model is loaded/);
  assert.match(await page.textContent('main'), /At the peak.*Moment by moment.*while detector is loaded and 1 other runs.*while all run.*Components.*Components that fit.*What to change first.*estimate: half of it/);
  assert.equal(await page.locator('.moment').count(), 9);  // the worst, five starts, all running, two that take turns
  assert.ok(await page.locator('.bar .part').count() > 15, 'the bars have parts');
  assert.ok(await page.locator('.bar .limit-line').count() > 5, 'the limit is marked');
});
await with_page('guide', SIZES[1], 'dark', async (page) => {
  assert.match(await page.textContent('.verdict'), /Healthyat most 8\.0 GB of 16\.0 GB are used \(50 %\)/);
  assert.match(await page.textContent('.sum'), /8\.0 GB50 % utilisation/);
  await check_width(page);
  await check_accessibility(page);
});
await close_browser();
