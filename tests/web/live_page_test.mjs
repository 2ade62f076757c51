// The live page in a real browser, from a running `headroom serve`: desktop and phone, light and dark. It must keep
// drawing new data, and show a message when no data arrives.
//   node live_page_test.mjs HEADROOM [--screenshots FOLDER]
// Needs Chromium and `npm ci` in web/; exits 77 (skipped) where one of them is absent.
import assert from 'node:assert/strict';
import {spawn} from 'node:child_process';
import {writeFileSync} from 'node:fs';
import {hostname} from 'node:os';
import {join} from 'node:path';
import {check_accessibility, check_width, close_browser, colors_of_canvas, folder, screenshots, SIZES, with_address, writer as headroom} from './browser.mjs';

// An alert that begins at once, whatever this machine has.
const rules = join(folder, 'rules.toml');
writeFileSync(rules, '[[rule]]\nname = "total_memory"\nabove = 0.001\nclear = 0\nfor = "0s"\n');
const server = spawn(headroom, ['serve', '--listen', '127.0.0.1:0', '--interval', '200ms', '--alerts', rules], {stdio: ['ignore', 'pipe', 'ignore']});
process.on('exit', () => server.kill());
const address = await new Promise((resolve, reject) => {
  server.stdout.once('data', (text) => resolve(String(text).trim()));
  server.once('exit', (code) => reject(new Error(`headroom serve ended with ${code}`)));
});

async function check_content(page) {
  await page.waitForSelector('canvas', {timeout: 20_000});
  assert.equal(await page.textContent('h1'), hostname());
  assert.equal(await page.title(), `${hostname()} · Headroom`);
  assert.match(await page.textContent('.verdict'), /alert.*total_memory: .* of memory is used/);
  assert.match(await page.textContent('main'), /Memory now.*used.*available.*Over time.*Largest processes.*PID.*resident.*Past alerts/);
  assert.ok(await page.locator('.bar .part').count() >= 3, 'the bar has parts');
  assert.equal(await page.locator('tbody tr').count(), 10);
  for (const canvas of await page.$$('canvas')) assert.ok(await canvas.evaluate(colors_of_canvas) > 3, 'a chart is blank');
}

// The CPU's load never stays the same for seconds.
async function check_that_it_lives(page) {
  const before = await page.textContent('tbody');
  await page.waitForFunction((text) => document.querySelector('tbody').textContent !== text, before, {timeout: 20_000});
}

for (const size of SIZES)
  for (const scheme of ['light', 'dark'])
    await with_address(address, size, scheme, async (page, requests, complaints) => {
      await check_content(page);
      await check_width(page);
      await check_accessibility(page);
      await check_that_it_lives(page);
      if (screenshots) await page.screenshot({path: join(screenshots, `live-${size.name}-${scheme}.png`), fullPage: true});
      for (const request of requests) assert.ok(request.startsWith(`${address}api/v1/`), `it asked for ${request}`);
      assert.deepEqual(complaints, [], 'the page complained');
    });

await with_address(address, SIZES[0], 'light', async (page) => {
  await page.waitForSelector('canvas', {timeout: 20_000});
  server.removeAllListeners('exit');
  server.kill();
  await page.waitForSelector('.banner', {timeout: 20_000});
  assert.match(await page.textContent('.banner'), /No new data: .*The figures below are old/);
  assert.ok(await page.locator('canvas').count() > 0, 'the old charts stay visible');
});
console.log('the live page passes');
await close_browser();
