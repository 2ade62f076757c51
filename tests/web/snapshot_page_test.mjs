// The page of a memory snapshot in a real browser, from file://, as a reader opens it (browser.mjs).
//   node snapshot_page_test.mjs WRITE_PAGE [--screenshots FOLDER]
import assert from 'node:assert/strict';
import {check_accessibility, check_width, close_browser, colors_of_canvas, HOSTILE_NAME, on_all_screens, SIZES, tab_stops, with_page, write_sample} from './browser.mjs';

const live_title = (page) => page.textContent('#live-title');

async function check_words(page) {
  assert.equal(await page.textContent('h1'), 'train step 24.pickle');
  assert.ok((await page.textContent('.command')).includes(HOSTILE_NAME), 'a setting is text');
  assert.ok((await page.textContent('.warnings')).includes(HOSTILE_NAME), 'a problem is text');
  assert.ok((await page.textContent('#leaks')).includes('<!--<script>alert(2)'), 'the name of a file is text');
  assert.match(await page.textContent('.figures'), /Peak allocated.*Peak reserved.*Live at the end.*Trace/);
  assert.match(await page.textContent('#oom'), /Out of memory 3 times230\.0 MiB requested .*Requested by attention \(model\.py:33\).*How to free enough memory.*Places that held the memory.*to \(module\.py:1300\)/);
  assert.match(await page.textContent('#leaks'), /Leak: .*Places that grow.*All called from train \(train\.py:41\).*keep_history \(history\.py:12\)/);
  assert.match(await page.textContent('#time'), /By place, at the maximum of each period.*all other places/);
  assert.match(await page.textContent('#fragmentation'), /At the peak, .* was free in \d+ piece/);
  assert.match(await page.textContent('#segments'), /waiting for another stream/);
}

async function check_charts(page) {
  const canvases = await page.$$('canvas');
  assert.equal(canvases.length, 4, 'memory, memory by place, live memory, fragmentation over time');
  for (const canvas of canvases) assert.ok(await canvas.evaluate(colors_of_canvas) > 3, 'a chart is blank');
  assert.ok(await page.locator('#segments svg rect.live').count() > 2, 'segments have blocks');
  assert.equal(await page.locator('#segments svg rect.waiting').count(), 1);
}

// Peak, end and any moment between them.
async function check_moments(page) {
  const peak = await live_title(page);
  assert.match(peak, /after the first entry, the peak: [\d.]+ MiB in \d+ blocks/);
  await page.getByRole('button', {name: 'At the end'}).click();
  assert.match(await live_title(page), /^Live at the end: 4[0-9]\.\d MiB/);
  await page.getByRole('slider', {name: 'Moment'}).fill('5');
  assert.match(await live_title(page), /after the first entry: /);
  await page.getByRole('button', {name: 'At the peak'}).click();
  assert.equal(await live_title(page), peak);
  await page.getByRole('searchbox', {name: 'Search'}).fill('relu');
  assert.match(await page.textContent('.flame-words'), /found in [\d.]+ MiB, /);
  await page.getByRole('searchbox', {name: 'Search'}).fill('');
  await page.getByRole('button', {name: 'By entry'}).click();
  assert.ok(await page.locator('#time canvas').first().evaluate(colors_of_canvas) > 3, 'the chart by entries is blank');
}

for (const kind of ['training', 'state', 'empty snapshot']) write_sample(kind);
await on_all_screens('training', async (page, scheme) => {
  await check_words(page);
  await check_charts(page);
  const stops = await tab_stops(page);
  for (const what of ['skip', 'plot', 'flame-frame', 'scroll']) assert.ok(stops.includes(what), `tab stops: ${stops}`);
  if (scheme === 'light') await check_moments(page);  // colours change nothing of what the page does
});
await with_page('state', SIZES[1], 'light', async (page) => {
  assert.match(await page.textContent('#page'), /No trace: the snapshot has no allocation history/);
  assert.match(await live_title(page), /^Live at the end: /);
  assert.match(await page.textContent('#live'), /\(no stack\) blocks of /);
  assert.equal(await page.locator('#leaks, #time, #oom').count(), 0);
  await page.getByRole('button', {name: /^Device 1/}).click();
  assert.equal(await page.textContent('main h2'), 'Device 1');
  await check_accessibility(page);
  await check_width(page);
});
console.log('ok: two devices without a trace');
await with_page('empty snapshot', SIZES[0], 'dark', async (page) => {
  assert.match(await page.textContent('#page'), /held no memory on any device/);
  await check_accessibility(page);
});
console.log('ok: a snapshot without anything in it');
await close_browser();
