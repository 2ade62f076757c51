// Shared code of the page tests: an offline browser that records the console messages and requests of a page, and checks
// for every page (contrast, accessible names, width, keyboard). Needs Chromium and `npm ci` in web/; exits 77 (skipped)
// where one of them is absent. WRITE_PAGE is tests/write_page of the build folder, which writes sample pages.
import assert from 'node:assert/strict';
import {execFileSync} from 'node:child_process';
import {existsSync, mkdirSync, mkdtempSync, rmSync} from 'node:fs';
import {createRequire} from 'node:module';
import {tmpdir} from 'node:os';
import {dirname, join, resolve} from 'node:path';
import {fileURLToPath, pathToFileURL} from 'node:url';

const BROWSER = process.env.CHROMIUM ?? '/usr/bin/chromium';
const FLAGS = ['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run',
  '--disable-background-networking', '--disable-component-update', '--disable-sync'];
export const HOSTILE_NAME = '</script><!--<script>alert(1)</script>&amp;"\'';
export const SIZES = [{name: 'desktop', width: 1280, height: 900}, {name: 'phone', width: 390, height: 844}];

export function skip(reason) {
  console.log(`skipped: ${reason}`);
  process.exit(77);
}

export const web = resolve(dirname(fileURLToPath(import.meta.url)), '../../web');
let playwright;
try {
  playwright = createRequire(join(web, 'package.json'))('playwright-core');
} catch {
  skip('playwright-core is not installed; run npm ci --ignore-scripts in web/');
}
if (!existsSync(BROWSER)) skip(`there is no browser at ${BROWSER}; CHROMIUM names another`);
export const writer = process.argv[2];
if (!writer) throw new Error(`usage: ${process.argv[1]} WRITE_PAGE|HEADROOM [--screenshots FOLDER]`);
export const screenshots = process.argv[3] === '--screenshots' ? process.argv[4] : undefined;
if (screenshots) mkdirSync(screenshots, {recursive: true});

export const folder = mkdtempSync(join(tmpdir(), 'headroom-page-'));
process.on('exit', () => rmSync(folder, {recursive: true, force: true}));

// Writes a sample page with tests/write_page of the build folder.
export function write_sample(kind) {
  mkdirSync(join(folder, kind));
  execFileSync(writer, [kind, join(folder, kind)]);
}

const context_options = (size, scheme) => ({
  viewport: {width: size.width, height: size.height}, colorScheme: scheme, hasTouch: size.name === 'phone', reducedMotion: 'reduce',
});

// Opens a page from a file, and checks that it logs no errors and makes no requests.
export async function with_page(kind, size, scheme, check) {
  const address = pathToFileURL(join(folder, kind, 'report.html')).href;
  await with_address(address, size, scheme, async (page, requests, complaints) => {
    await page.waitForSelector('h1, .broken');
    await page.waitForTimeout(200);  // resize observers and the charts' own microtasks
    await check(page);
    assert.deepEqual(complaints, [], 'the page complained');
    assert.deepEqual(requests, [], 'the page asked for something');
  });
}

// Opens a page on a desktop and a phone, in light and dark; runs `check`; then checks the page with all sections open, at
// several widths, and for printing. `check_layout` is what must hold at every width.
export async function on_all_screens(kind, check, check_layout = check_width) {
  for (const size of SIZES)
    for (const scheme of ['light', 'dark']) {
      await with_page(kind, size, scheme, async (page) => {
        await check_layout(page);
        if (screenshots) await page.screenshot({path: join(screenshots, `${kind}-${size.name}-${scheme}.png`), fullPage: true});
        await check(page, scheme);
        await page.evaluate(() => document.querySelectorAll('details').forEach((details) => { details.open = true; }));
        await check_accessibility(page);
        for (const width of [320, 600, 800, 1000, 1050, size.width]) {
          await page.setViewportSize({width, height: size.height});
          await check_layout(page);
        }
        if (size.name === 'desktop') await page.pdf({format: 'A4'});  // printing runs the page's own handlers
      });
      console.log(`ok: ${kind}, ${size.name}, ${scheme}`);
    }
}

// Checks that the page has this number of charts, none of them blank.
export async function check_canvases(page, count) {
  const canvases = await page.$$('canvas');
  assert.equal(canvases.length, count, 'charts');
  for (const canvas of canvases) assert.ok(await canvas.evaluate(colors_of_canvas) > 3, 'a chart is blank');
}

// One browser for all pages, because starting it costs a second of CPU time.
let browser;

// Every test must call this at its end: an open browser would keep the process alive.
export async function close_browser() {
  await browser?.close();
}

// Opens an address in its own browser context, and records the page's console messages and requests.
export async function with_address(address, size, scheme, check) {
  browser ??= await playwright.chromium.launch({executablePath: BROWSER, args: FLAGS});
  const context = await browser.newContext(context_options(size, scheme));
  const page = await context.newPage();
  const complaints = [];
  const requests = [];
  page.on('console', (message) => complaints.push(`${message.type()}: ${message.text()}`));
  page.on('pageerror', (error) => complaints.push(String(error)));
  page.on('dialog', (dialog) => { complaints.push(`dialog: ${dialog.message()}`); dialog.dismiss(); });
  page.on('request', (request) => { if (request.url() !== address && !request.url().startsWith('data:')) requests.push(request.url()); });
  await page.goto(address);
  try {
    await check(page, requests, complaints);
  } finally {
    await context.close();
  }
}

// Number of colours on a canvas; a single colour means that nothing was drawn.
export const colors_of_canvas = (canvas) => {
  const {data} = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  const seen = new Set();
  for (let i = 0; i < data.length; i += 4) if (data[i + 3] > 200) seen.add((data[i] << 16) | (data[i + 1] << 8) | data[i + 2]);
  return seen.size;
};

// Charts adapt to a new width asynchronously, which takes longer on a busy machine, so the check waits for seconds.
export async function check_width(page) {
  const settled = () => document.documentElement.scrollWidth <= innerWidth;
  await page.waitForFunction(settled, null, {timeout: 10_000}).catch(() => {});
  const [content, window_width] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
  assert.ok(content <= window_width, `the page is ${content} px wide in a window of ${window_width}`);
}

// WCAG contrast of every text against the nearest painted background.
const poor_contrasts = () => {
  const parse = (color) => (color.match(/[\d.]+/g) ?? []).map(Number);
  const luminance = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((c) => (c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const ground_of = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const color = parse(getComputedStyle(at).backgroundColor);
      if (color.length === 3 || color[3] === 1) return color;
    }
    return [255, 255, 255];
  };
  const poor = [];
  const walker = document.createTreeWalker(document.getElementById('page'), NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || element.closest('dialog:not([open]), title')) continue;
    const style = getComputedStyle(element);
    const ink = luminance(parse(element.closest('svg.chart-svg, .histogram svg') ? style.fill : style.color));
    const ground = luminance(ground_of(element));
    const contrast = (Math.max(ink, ground) + 0.05) / (Math.min(ink, ground) + 0.05);
    if (contrast < 4.5) poor.push(`${contrast.toFixed(2)} "${walker.currentNode.textContent.trim().slice(0, 30)}"`);
  }
  return poor;
};

export async function check_accessibility(page) {
  assert.deepEqual(await page.evaluate(poor_contrasts), [], 'text of low contrast');
  const levels = await page.$$eval('h1, h2, h3', (heads) => heads.map((head) => Number(head.tagName[1])));
  assert.equal(levels.filter((level) => level === 1).length, 1);
  levels.forEach((level, i) => assert.ok(i === 0 || level <= levels[i - 1] + 1, 'a heading level is left out'));
  const nameless = await page.$$eval('button, a, [role=img], [role=region], section', (elements) => elements
    .filter((element) => !(element.getAttribute('aria-label') || element.getAttribute('aria-labelledby') || element.textContent.trim()))
    .map((element) => element.outerHTML.slice(0, 80)));
  assert.deepEqual(nameless, [], 'elements without a name');
  const ids = await page.$$eval('[id]', (elements) => elements.map((element) => element.id));
  assert.equal(new Set(ids).size, ids.length, `an id is there twice: ${ids}`);
}

// The tab stops from the top of the page to its end; each must show that it has the focus.
export async function tab_stops(page) {
  const stops = [];
  let last = -Infinity;
  for (let i = 0; i < 200; i++) {
    await page.keyboard.press('Tab');
    const stop = await page.evaluate(() => {
      const element = document.activeElement;
      if (!element || element === document.body) return null;
      const style = getComputedStyle(element);
      const all = [...document.querySelectorAll('*')];
      return {what: element.className || element.tagName, order: all.indexOf(element), focused: style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2};
    });
    if (!stop || stop.order <= last) break;  // left the page, or began again
    assert.ok(stop.focused, `the focus on ${stop.what} cannot be seen`);
    last = stop.order;
    stops.push(stop.what);
  }
  return stops;
}
