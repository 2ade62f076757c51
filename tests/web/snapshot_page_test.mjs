// The page of a memory snapshot in a real browser, from file://, as a reader opens it: desktop and phone, light and dark.
//   node snapshot_page_test.mjs WRITER [--screenshots FOLDER]
// WRITER is tests/write_snapshot_page of the build folder; it writes the page with the real snapshot_to_html. Needs
// Chromium and `npm ci` in web/; exits 77 (skipped) where one of them is absent.
import assert from 'node:assert/strict';
import {execFileSync} from 'node:child_process';
import {mkdirSync} from 'node:fs';
import {join} from 'node:path';
import {check_accessibility, check_width, close_browser, colors_of_canvas, folder, HOSTILE_NAME, screenshots, SIZES, tab_stops, with_page, writer} from './browser.mjs';

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

for (const kind of ['training', 'state', 'empty']) {
  mkdirSync(join(folder, kind));
  execFileSync(writer, [join(folder, kind), kind]);
}
for (const size of SIZES) {
  for (const scheme of ['light', 'dark']) {
    await with_page('training', size, scheme, async (page) => {
      await check_words(page);
      await check_charts(page);
      await check_width(page);
      if (screenshots) await page.screenshot({path: join(screenshots, `snapshot-${size.name}-${scheme}.png`), fullPage: true});
      const stops = await tab_stops(page);
      for (const what of ['skip', 'plot', 'flame-frame', 'scroll']) assert.ok(stops.includes(what), `tab stops: ${stops}`);
      if (scheme === 'light') await check_moments(page);  // colours change nothing of what the page does
      await page.evaluate(() => document.querySelectorAll('details').forEach((details) => { details.open = true; }));
      await check_accessibility(page);
      for (const width of [320, 600, 800, 1000, size.width]) {
        await page.setViewportSize({width, height: size.height});
        await check_width(page);
      }
      if (size.name === 'desktop') await page.pdf({format: 'A4'});  // printing runs the page's own handlers
    });
    console.log(`ok: ${size.name}, ${scheme}`);
  }
}
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
await with_page('empty', SIZES[0], 'dark', async (page) => {
  assert.match(await page.textContent('#page'), /held no memory on any device/);
  await check_accessibility(page);
});
console.log('ok: a snapshot without anything in it');
await close_browser();
