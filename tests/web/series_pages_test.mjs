// The pages of `history show --html` and of `watch --plot` in a real browser (browser.mjs).
//   node series_pages_test.mjs WRITE_PAGE [--screenshots FOLDER]
import assert from 'node:assert/strict';
import {check_accessibility, check_canvases, close_browser, HOSTILE_NAME, on_all_screens, SIZES, tab_stops, with_page, write_sample} from './browser.mjs';

for (const kind of ['history', 'watch', 'empty watch']) write_sample(kind);

await on_all_screens('history', async (page) => {
  assert.equal(await page.textContent('h1'), 'run_peak');
  assert.match(await page.textContent('header'), /3 models, 49 runs/);
  const [summary, ...models] = await page.$$eval('section', (sections) => sections.map((section) => section.textContent));
  assert.match(summary, /detector on xavier12901\.0 MiB991\.0 MiB\+10\.0 %/);
  assert.ok(summary.includes(`${HOSTILE_NAME}12667.6 MiB667.6 MiB+0.0 %`));
  assert.match(models[0], /00c0ffee12901\.0 MiB3900\.0 MiB909\.0 MiB2026-11-10 10:30.*03c0ffee12991\.0 MiB\+10\.0 %3990\.0 MiB999\.0 MiB2026-11-13 10:30/);
  await check_canvases(page, 3);
  assert.ok((await tab_stops(page)).filter((stop) => stop === 'plot').length === 3);
  await page.locator('.plot').first().focus();
  await page.keyboard.press('End');
  assert.match(await page.locator('.readout').first().textContent(), /^11c0ffee12median991\.0 MiB/);
  // Runs that differ by 0.002 %: the line is flat, so it is in few rows of pixels.
  const rows = await page.locator('canvas').nth(1).evaluate((canvas) => {
    const {width, height} = canvas;
    const copy = Object.assign(document.createElement('canvas'), {width, height}).getContext('2d');
    copy.drawImage(canvas, 0, 0);
    const {data} = copy.getImageData(0, 0, width, height);
    const line = getComputedStyle(document.documentElement).getPropertyValue('--series-1').trim().slice(1);
    const [r, g, b] = [0, 2, 4].map((at) => parseInt(line.slice(at, at + 2), 16));
    const found = new Set();
    for (let i = 0; i < data.length; i += 4) if (data[i] === r && data[i + 1] === g && data[i + 2] === b) found.add(Math.floor(i / 4 / width));
    return found.size;
  });
  assert.ok(rows > 0 && rows < 20, `the flat line is ${rows} pixels high`);
});

await on_all_screens('watch', async (page) => {
  assert.equal(await page.textContent('h1'), HOSTILE_NAME);
  assert.match(await page.textContent('header'), /Time\d min \d+ s.*RAM of the machine8\.00 GiB/);
  assert.match(await page.textContent('main'), /Swap usedfirst500\.0 MiBlowest500\.0 MiBhighest500\.0 MiBlast500\.0 MiB/);
  assert.deepEqual(await page.$$eval('h2', (heads) => heads.map((head) => head.textContent)), ['RAM used', 'Swap used', 'Followed processes (PSS)']);
  await check_canvases(page, 3);
});

await with_page('empty watch', SIZES[1], 'light', async (page) => {
  assert.match(await page.textContent('main'), /No sample had a figure of memory/);
  await check_accessibility(page);
});
await close_browser();
