// The page of a recording in a real browser, from file://, as a reader opens it (browser.mjs).
//   node recording_page_test.mjs WRITE_PAGE [--screenshots FOLDER]
import assert from 'node:assert/strict';
import {check_accessibility, check_width, close_browser, colors_of_canvas, HOSTILE_NAME, on_all_screens, SIZES, tab_stops, with_page, write_sample} from './browser.mjs';

const live_title = (page) => page.textContent('#live-title');

async function check_words(page) {
  assert.equal(await page.textContent('h1'), 'detector');
  assert.ok((await page.textContent('.command')).includes(HOSTILE_NAME), 'an argument is text');
  assert.match(await page.textContent('.figures'), /Peak1[0-9]\.\d MiB/);
  assert.match(await live_title(page), /the peak: 1[0-9]\.\d MiB in \d+ blocks/);
  assert.match(await page.textContent('#leaks'), /Leak: .* per cycle, over 12 cycles of detector\.onnx\/Run\..*Places that grow.*Log::keep/);
  assert.match(await page.textContent('#reuse'), /convolve/);
  assert.match(await page.textContent('#fragmentation'), /When the heap was largest.*Over time.*Map of the heap.*Splitting the free memory/);
  assert.match(await page.textContent('#sizes'), /Blocks by lifetime/);
  assert.match(await page.textContent('#mapped'), /96\.0 MiB at most.*64\.0 MiB67 %64\.0 MiB.*32\.0 MiB33 %32\.0 MiBdetector::read_file.*32\.0 MiB33 %32\.0 MiBdetector\.onnx\/load/);
  assert.equal(await page.locator('.banner').count(), 0);
}

async function check_charts(page) {
  const canvases = await page.$$('canvas');
  assert.equal(canvases.length, 4, 'memory, what was live, fragmentation over time, map of the heap');
  for (const canvas of canvases) assert.ok(await canvas.evaluate(colors_of_canvas) > 3, 'a chart is blank');
}

// The mouse selects a range; the page then shows a moment inside the range, and returns to the peak.
async function check_brushing(page) {
  const before = await live_title(page);
  await page.locator('.brushable').scrollIntoViewIfNeeded();
  const plot = await page.locator('.brushable .u-over').boundingBox();
  const at = (share) => [plot.x + share * plot.width, plot.y + plot.height / 2];
  await page.mouse.move(...at(0.2));
  await page.mouse.down();
  await page.mouse.move(...at(0.3), {steps: 4});
  await page.mouse.up();
  assert.equal((await page.locator('.brushable .u-over').boundingBox()).y, plot.y, 'the chart moved under the hand');
  assert.notEqual(await live_title(page), before);
  const [, from, to] = /Selected: ([\d.]+) ms to ([\d.]+) ms/.exec(await page.textContent('.chart-tools'));
  const [, shown] = /Live at ([\d.]+) ms/.exec(await live_title(page));
  assert.ok(Number(from) <= Number(shown) && Number(shown) <= Number(to), `${shown} ms is not from ${from} to ${to}`);
  assert.ok((await page.locator('.brushable .u-select').boundingBox()).width > 0.09 * plot.width, 'the range is not marked');
  await page.getByRole('button', {name: 'Zoom to range'}).click();
  await page.waitForFunction((width) => document.querySelector('.brushable .u-select').getBoundingClientRect().width > 0.97 * width, plot.width);
  await page.getByRole('button', {name: 'Whole recording'}).click();
  await page.getByRole('button', {name: 'Back to the peak'}).click();
  assert.equal(await live_title(page), before);
  await page.locator('.brushable .u-over').click({position: {x: 0.02 * plot.width, y: 20}});
  assert.notEqual(await live_title(page), before, 'a click selects the moment under it');
  await page.locator('.brushable').press('Escape');
  assert.equal(await live_title(page), before);
}

async function check_flame_graph(page) {
  const words = () => page.textContent('.flame-words');
  const canvas = page.locator('.flame canvas');
  assert.ok((await canvas.boundingBox()).height >= 5 * 20, 'the stacks are five deep and more');
  await canvas.hover({position: {x: 5, y: 30}});
  assert.match(await words(), /^main.*MiB, /, 'the text describes the box under the mouse');
  await canvas.click({position: {x: 5, y: 50}});
  await page.mouse.move(0, 0);
  assert.match(await words(), /detector::Model::load\(\).*12\.0 MiB, .*Zoom out/, 'a click zooms');
  await page.getByRole('button', {name: 'Zoom out'}).click();
  await page.getByRole('searchbox', {name: 'Search'}).fill('keep');
  assert.match(await words(), /found in [\d.]+ KiB, /);
  await page.getByRole('searchbox', {name: 'Search'}).fill('no such function');
  assert.match(await words(), /not found/);
  await page.getByRole('searchbox', {name: 'Search'}).fill('');
  await page.getByRole('button', {name: 'By layer'}).click();
  await page.locator('.flame-frame').focus();
  await page.keyboard.press('ArrowDown');
  assert.match(await words(), /^detector\.onnx.*MiB/, 'the arrow keys go from box to box');
  await page.keyboard.press('Enter');
  assert.equal(await page.getByRole('button', {name: 'Zoom out'}).count(), 1);
  await page.keyboard.press('Escape');
  for (const [by, head] of [['By module', 'Module'], ['By thread', 'Thread that allocated'], ['By size', 'Size of the allocation']]) {
    await page.getByRole('button', {name: by}).click();
    assert.ok((await page.locator('#moment thead').textContent()).includes(head), `${by} has a table of its own`);
    assert.ok(await page.locator('#moment tbody tr').count() > 0, by);
  }
  await page.getByRole('button', {name: 'By call stack'}).click();
}

// The tensors of each node, next to the memory of its layer.
async function check_nodes(page) {
  const rows = await page.$$eval('#sessions table.sortable tbody tr', (found) => found.map((row) => [...row.children].map((cell) => cell.textContent)));
  assert.deepEqual(rows.map((row) => row.slice(0, 5)), [
    ['conv_19', 'Relu', '4.0 MiB', '2.0 MiB', '2.0 MiB'], ['conv_0', 'Conv', '3.0 MiB', '1.0 MiB', '2.0 MiB']]);
  assert.match(await page.textContent('#sessions'), /The arena’s peak was after conv_19/);
  assert.match(await page.textContent('[aria-labelledby=time-title]'), /arena grew while the node ran/, 'the chart explains the layers of nodes');
}

async function check_layers(page) {
  const names = () => page.$$eval('#layers tbody th', (heads) => heads.map((head) => head.textContent));
  const fields = await page.$$eval('#layers thead button', (heads) => heads.map((head) => head.textContent.replace(/[▲▼]/, '')));
  for (const field of ['Peak allocated', 'Peak reserved', 'Allocations', 'Deallocations', 'Fragmentation', 'Duration'])
    assert.ok(fields.includes(field), `no column ${field}`);
  assert.equal((await names()).length, 15);
  assert.equal((await names())[0], 'detector.onnx/load load');
  await page.getByRole('button', {name: 'Show all 25'}).click();
  assert.equal((await names()).length, 25);
  assert.ok((await names()).some((name) => name.includes(HOSTILE_NAME)), 'the name of a layer is text');
  const head = page.locator('#layers thead button', {hasText: 'Entries'});
  await head.focus();
  await page.keyboard.press('Enter');
  assert.equal(await page.locator('#layers th[aria-sort=descending]').textContent(), 'Entries▼');
  await page.getByRole('searchbox', {name: 'Filter'}).fill('conv_1');
  assert.equal((await names()).length, 11);
}

async function check_keyboard(page) {
  const stops = await tab_stops(page);
  for (const what of ['skip', 'plot brushable', 'flame-frame', 'scroll']) assert.ok(stops.includes(what), `tab stops: ${stops}`);
  const before = await live_title(page);
  await page.locator('.brushable').focus();
  await page.keyboard.press('Home');
  assert.match(await page.locator('.readout').first().textContent(), /^\d+(\.\d+)? (ns|µs|ms|s)/);
  await page.keyboard.press('Enter');
  assert.notEqual(await live_title(page), before, 'Enter selects the moment under the cursor');
  await page.keyboard.press('Shift+PageDown');
  assert.match(await page.textContent('.chart-tools'), /Selected: /);
  await page.keyboard.press('Escape');
  assert.equal(await live_title(page), before);
}

for (const kind of ['model', 'sampled', 'empty recording', 'gpu']) write_sample(kind);
await on_all_screens('model', async (page, scheme) => {
  await check_words(page);
  await check_charts(page);
  await check_keyboard(page);  // first of what moves the focus: it starts at the top of the page
  if (scheme === 'dark') return;  // colours change nothing of what the page does
  await check_brushing(page);
  await check_flame_graph(page);
  await check_nodes(page);
  await check_layers(page);
});
await with_page('sampled', SIZES[1], 'light', async (page) => {
  assert.match(await page.textContent('.banner'), /Incomplete.*killed or is still running.*250 events were not recorded \(1 gap\)/);
  assert.match(await page.textContent('.figures'), /≈ [\d.]+ MiB ±/);
  assert.match(await page.textContent('#fragmentation'), /record with --full/);
  assert.match(await page.textContent('#leaks'), /No verdict/);
  await check_accessibility(page);
  await check_width(page);
});
console.log('ok: a recording of samples that was killed');
await with_page('empty recording', SIZES[0], 'dark', async (page) => {
  assert.match(await page.textContent('#page'), /Nothing was allocated/);
  await check_accessibility(page);
});
console.log('ok: a recording without anything in it');

// A recording of GPU memory alone: the page has only GPU sections and layers, and nothing about the heap.
async function check_gpus(page) {
  assert.match(await page.textContent('.figures'), /Peak of GPU 0726\.0 MiB.*Peak of GPU 1900\.0 MiB.*Duration/);
  assert.match(await page.textContent('header'), /GPU memory only \(--only gpu\)/);
  assert.deepEqual(await page.$$eval('h2', (heads) => heads.map((head) => head.textContent)), ['GPU memory', 'Layers']);
  const words = await page.textContent('#gpus');
  assert.match(words, /GPU 0, Test GPU A, 16\.00 GiB.*Peak 726\.0 MiB at .*576\.0 MiB live at the end.*Pools reserved at most 192\.0 MiB/);
  assert.match(words, /device memory \(cuMemAlloc\)576\.0 MiB79 %.*allocated from pools150\.0 MiB21 %.*pinned host memory not device memory/);
  assert.match(words, /limited to 1\.00 GiB.*Refused: 1 request, 200\.0 MiB in total/);
  assert.match(words, /950\.0 MiB of 1\.00 GiB.*900\.0 MiB detector::read_file.*5\.0 MiB reserved by pools, graphs and shared granules40\.0 MiB process 911 \(segmenter <b>\)5\.0 MiB released by other processes in the meantime/);
  assert.ok(words.includes(HOSTILE_NAME), 'the name of a device is text');
  assert.doesNotMatch(await page.textContent('#page'), /Leak|heap|Fragmentation|Live at the moment|\b0 B\b.*blocks/);
  const canvases = await page.$$('canvas');
  assert.equal(canvases.length, 2, 'a curve for each device');
  for (const canvas of canvases) assert.ok(await canvas.evaluate(colors_of_canvas) > 3, 'a chart is blank');
  const layers = await page.textContent('#layers');
  assert.match(layers, /run.*12\d/);
}
await on_all_screens('gpu', check_gpus);
await close_browser();
