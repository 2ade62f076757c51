// The report in a real browser, from file://, as a reader opens it (browser.mjs).
//   node report_page_test.mjs WRITE_PAGE [--screenshots FOLDER]
import assert from 'node:assert/strict';
import {existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync} from 'node:fs';
import {join, resolve} from 'node:path';
import {check_width, close_browser, colors_of_canvas, folder, HOSTILE_NAME, on_all_screens, screenshots, SIZES, tab_stops, web, with_page, write_sample} from './browser.mjs';

// Only the first model is open at the start; a link to another model opens it. Then all are opened for the next checks.
async function check_folding(page) {
  const open = () => page.$$eval('.model > details', (models) => models.map((model) => model.open));
  assert.deepEqual(await open(), [true, false, false]);
  const folded = await page.evaluate(() => document.documentElement.scrollHeight);
  await page.locator('table.models tbody a').nth(2).click();
  await page.waitForFunction(() => document.querySelectorAll('.model > details')[2].open);
  await page.locator('.model > details > summary').nth(1).click();
  assert.deepEqual(await open(), [true, true, true]);
  await page.waitForTimeout(300);  // charts are laid out when they are first seen
  assert.ok(await page.evaluate(() => document.documentElement.scrollHeight) > folded + 500, 'closing a model saves no space');
  // Reloads the page, so that the keyboard focus starts at the top.
  await page.evaluate(() => history.replaceState(null, '', location.pathname));
  await page.reload();
  await page.waitForSelector('.model');
  await page.evaluate(() => document.querySelectorAll('.model > details').forEach((model) => { model.open = true; }));
  await page.waitForTimeout(300);
}

async function check_charts(page) {
  const canvases = await page.$$('canvas');
  assert.ok(canvases.length >= 5, `memory of three models and the machine's figures, not ${canvases.length} charts`);
  for (const canvas of canvases) assert.ok(await canvas.evaluate(colors_of_canvas) > 3, 'a chart is blank');
  assert.ok(await page.locator('.histogram rect.bucket').count() > 10, 'no latency distribution');
}

async function check_layout(page) {
  await check_width(page);
  const window_width = page.viewportSize().width;
  const [table, frame] = await page.$eval('.models-frame', (element) => [element.scrollWidth, element.clientWidth]);
  assert.ok(table <= frame, `the table of models is cut off in a window of ${window_width}`);
}

async function check_words(page) {
  assert.equal(await page.textContent('h1'), '2026-11-21_10-30-00');
  const tiles = await page.$$eval('.figures dt', (names) => names.map((name) => name.textContent));
  assert.ok(!tiles.includes('Peak') && tiles.includes('Charged to the limit'), `tiles: ${tiles}`);
  assert.match(await page.textContent('table.models tbody tr'), /54\.0 MiB, 21 %/, 'the share is of what the group was charged');
  assert.match(await page.textContent('.left-out'), /yolov8n_thermal.*skipped.*no path was given/);
  assert.match(await page.textContent('table.models + p, .models-frame + p'), /Too few frames/);
  assert.match(await page.textContent('#probe-title + p'), /with a limit of 64\.0 MiB instead of 256\.0 MiB/);
  assert.match(await page.textContent('[aria-labelledby=pipeline-title]'), /the increments depend on it/);
  assert.match(await page.textContent('[aria-labelledby=options-title]'), /max-frames1000.*mem-limit256\.0 MiB/);
  assert.match(await page.textContent('.model .settings'), /confidence0\.6IoU0\.45/, 'the thresholds that the task used');
  assert.match(await page.textContent('.verdict'), /^2 of 3 models stayed inside the hard limit of 256\.0 MiB; 1 failed\./);
  assert.ok((await page.textContent('.verdict li')).startsWith(HOSTILE_NAME), 'the name of a model is text');
  assert.equal(await page.locator('table.models tbody tr').count(), 4);
  assert.equal(await page.locator('.samples img').count(), 2);
  const sizes = await page.$$eval('.samples img', (images) => images.map((image) => image.naturalWidth));
  assert.ok(sizes.every((width) => width > 0), 'a picture did not load');
}

async function check_sorting(page) {
  const names = () => page.$$eval('table.models tbody th', (heads) => heads.map((head) => head.textContent));
  const head = page.locator('table.models thead button', {hasText: 'FPS'});
  await head.focus();
  await page.keyboard.press('Enter');
  assert.deepEqual((await names()).slice(0, 2), ['yolox_nano_416', 'yolox_nano_1280']);
  await page.keyboard.press('Enter');
  assert.deepEqual((await names()).slice(0, 2), ['yolox_nano_1280', 'yolox_nano_416']);
  assert.equal(await page.getAttribute('table.models th[aria-sort=ascending]', 'role'), 'columnheader');
}

async function check_keyboard(page) {
  const stops = await tab_stops(page);
  assert.ok(stops.includes('skip') && stops.filter((what) => what === 'plot').length >= 5, `tab stops: ${stops}`);

  const plot = page.locator('.plot').first();
  await plot.focus();
  await page.keyboard.press('ArrowRight');
  assert.match(await page.locator('.readout').first().textContent(), /^0\.00 s.*MiB/, 'the arrow keys move the cursor');

  await page.locator('.samples button').first().focus();
  await page.keyboard.press('Enter');
  assert.ok(await page.locator('dialog[open] img').isVisible(), 'Enter enlarges a sample');
  await page.keyboard.press('ArrowRight');
  assert.match(await page.textContent('dialog[open] form span'), /001\.png/);
  await page.keyboard.press('Escape');
  assert.equal(await page.locator('dialog[open]').count(), 0);
}

async function check_golden(name, page) {
  const text = await page.textContent('#page');
  if (name === 'charged') {
    assert.match(text, /76\.2 MiB, 79 %/);
    assert.match(text, /up to 1280 × 853/);
    assert.match(text, /OOM kills 7/);
    assert.doesNotMatch(text, /109 %/, 'the resident peak is no share of this limit');
  }
  if (name === 'prepared') {
    assert.match(text, /prepared; not measured/);
    assert.match(text, /fastest that fits/);
    assert.match(text, /smallest within 5 %/);
  }
  if (name === 'gpu') {
    const gpu = await page.textContent('[aria-labelledby=gpu-title]');
    assert.match(gpu, /cuda:0, NVIDIA H200, 139\.80 GiB, limit 600\.0 MiB/);
    assert.match(gpu, /321\.0 MiB54 % of limit/);
    assert.match(gpu, /all at once579\.0 MiB97 % of limit/);
    assert.match(gpu, /534\.0 MiBnone/, 'memory of the driver outside the ledger, and no refused request');
    assert.match(gpu, /2 requests, 170\.0 MiB/);
    assert.match(gpu, /handlenot tried/);
    assert.match(text, /GPU limit600\.0 MiB, hard, by the GPU ledger/);
  }
  if (name === 'incomplete') {
    assert.match(text, /cut short/);
    assert.match(text, /not reached/);
    assert.doesNotMatch(text, /It failed while/);
  }
}

// The page with the data of each run in tests/golden/report.
async function check_golden_reports() {
  const golden = resolve(web, '../tests/golden/report');
  const page_of = (json) => readFileSync(join(folder, 'empty run/report.html'), 'utf8')
    .replace(/(id="report">)[^<]*/, (_, start) => start + json.replaceAll('<', '\\u003c'));
  const names = existsSync(golden) ? readdirSync(golden).filter((name) => existsSync(join(golden, name, 'report.json'))) : [];
  for (const name of names) {
    const json = readFileSync(join(golden, name, 'report.json'), 'utf8');
    mkdirSync(join(folder, `golden-${name}`));
    writeFileSync(join(folder, `golden-${name}`, 'report.html'), page_of(json));
    await with_page(`golden-${name}`, SIZES[1], 'light', async (page) => {
      const {models} = JSON.parse(json);
      const order = [...models.filter((model) => model.status !== 'skipped'), ...models.filter((model) => model.status === 'skipped')];
      assert.deepEqual(await page.$$eval('table.models tbody th', (heads) => heads.map((head) => head.textContent)), order.map((model) => model.name));
      await check_golden(name, page);
      if (models.length > 0) await check_layout(page);
      if (screenshots) await page.screenshot({path: join(screenshots, `golden-${name}.png`), fullPage: true});
    });
    console.log(`ok: golden ${name}`);
  }
}

write_sample('run');
write_sample('empty run');
await on_all_screens('run', async (page, scheme) => {
  await check_words(page);
  if (scheme === 'light') await check_folding(page);  // colours change nothing of what the page does
  await check_charts(page);
  await check_keyboard(page);  // first of what moves the focus: it starts at the top of the page
  if (scheme === 'light') await check_sorting(page);
}, check_layout);
await with_page('empty run', SIZES[0], 'light', async (page) => {
  assert.match(await page.textContent('.verdict'), /No model was measured\./);
  assert.match(await page.textContent('.banner'), /Incomplete/);
});
console.log('ok: a run without anything in it');
await check_golden_reports();
await close_browser();
