// Looks at the page of `console`, and at that of a benchmark's report, in Chromium, as somebody would.
//
//   node client.mjs numbers URL              the numbers are those that the server gave
//   node client.mjs tables URL               filter, order, pages, keyboard, policy, accessibility
//   node client.mjs problems URL LIMITED FLAPS   a URL that a limit soon refuses, one with a peer that comes and goes
//   node client.mjs outage URL               no answer, wrong answers, another run of the server
//   node client.mjs pictures URL DIRECTORY SECONDS
//   node client.mjs report URL CHART-URL     the report, also printed and on a phone, and its chart as a picture
//
// Each fails as well if the page said anything to the browser's console, or asked for anything
// but itself.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { readFileSync } from 'node:fs';
import { chromium } from 'playwright-core';

const PATIENCE_MS = 60000;
const DESKTOP = { width: 1440, height: 900 };
const PHONE = { width: 360, height: 740 };
const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

const [scenario, url, ...rest] = process.argv.slice(2);
// Linux containers seldom allow Chromium's own sandbox, and root never.
const browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args: ['--no-sandbox', '--disable-dev-shm-usage'] });

/** The page, what it asked for and what it complained of. */
async function open(options = {}) {
  const context = await browser.newContext({ viewport: DESKTOP, ...options });
  context.setDefaultTimeout(PATIENCE_MS);
  const page = await context.newPage();
  const seen = { complaints: [], strangers: [], answers: [] };
  page.on('console', (message) => seen.complaints.push(message.text()));
  page.on('pageerror', (error) => seen.complaints.push(String(error)));
  page.on('dialog', (dialog) => seen.complaints.push(`dialog: ${dialog.message()}`));
  page.on('request', (request) => {
    const asked = request.url();
    if (asked !== url && asked !== `${url}?format=json` && !asked.startsWith('data:')) seen.strangers.push(asked);
  });
  page.on('response', async (response) => {
    if (response.url().endsWith('?format=json') && response.ok()) {
      seen.answers.push(await response.json().catch(() => null));
    }
  });
  await page.goto(url);
  return { page, seen };
}
function assertQuiet({ complaints, strangers }) {
  assert.deepEqual(complaints, [], 'the console stays empty');
  assert.deepEqual(strangers, [], 'the page asks for nothing but itself');
}
/** Waits until what `probe` returns is true. */
async function until(what, probe) {
  const end = Date.now() + PATIENCE_MS;
  while (!(await probe())) {
    assert.ok(Date.now() < end, `gave up waiting for ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}
const text = (page, selector) => page.locator(selector).textContent();
const numberOf = (shown) => Number(shown.replaceAll(',', '').match(/-?[\d.]+/)[0]);
const rowOf = (page, table, name) => page.locator(`#${table} tbody tr:not([hidden])`).filter({ has: page.getByRole('rowheader', { name, exact: true }) });
const cells = (row) => row.locator('th, td').allTextContents();
const heads = (page, table) => page.locator(`#${table} thead th`).allTextContents();
const tile = (page, title) => page.locator('#tiles figure').filter({ has: page.getByRole('heading', { name: title, exact: true }) });
/** A sample of an answer. */
function sample(answer, name, ...labels) {
  const rows = answer.families[`sealane_${name}`]?.samples ?? [];
  return rows.find((row) => labels.every((label, index) => row[index] === label))?.at(-1);
}
const sumOf = (answer, name) => answer.families[`sealane_${name}`].samples.reduce((all, row) => all + row.at(-1), 0);
/** Whether a shown number is this one, as far as it is written out. */
function assertShown(shown, expected, what) {
  const tolerance = shown.includes('.') ? 0.051 : 0.51;
  assert.ok(Math.abs(numberOf(shown) - expected) <= tolerance, `${what}: ${shown} is shown, ${expected} was said`);
}

const scenarios = {
  async numbers() {
    const { page, seen } = await open();
    await page.selectOption('#every', '1000');
    await until('three answers under load', () => seen.answers.length >= 4
      && seen.answers.slice(-2).every((answer) => answer && sample(answer, 'tls_handshakes') > 50));
    await page.getByRole('button', { name: 'Pause', exact: true }).click();
    assert.match(await text(page, '#state'), /^Paused at \d\d:\d\d:\d\d$/);
    // What is shown now stays; find the two answers that it was made of.
    const [last, before] = await page.evaluate('[now.time, before.time]').then((times) =>
      times.map((time) => seen.answers.find((answer) => answer?.time === time)));
    const seconds = last.time - before.time;
    const grown = (name, ...labels) => (sample(last, name, ...labels) - sample(before, name, ...labels)) / seconds;

    const big = async (title) => (await tile(page, title).locator('.big').textContent());
    assertShown(await big('Connections'), sample(last, 'connections_active'), 'connections');
    assertShown(await big('Requests'), grown('requests'), 'requests per second');
    assertShown(await big('TLS handshakes'), grown('tls_handshakes'), 'handshakes per second');
    const sent = (sumOf(last, 'server_sent_bytes') - sumOf(before, 'server_sent_bytes')) / seconds;
    const unit = { B: 1, KiB: 1024, MiB: 1024 ** 2 }[(await big('Traffic')).match(/([KM]?i?B)\/s/)[1]];
    assertShown(await big('Traffic'), sent / unit, 'bytes per second');

    const columns = await heads(page, 'servers');
    const row = rowOf(page, 'servers', 'a.test');
    const shown = Object.fromEntries((await cells(row)).map((cell, index) => [columns[index], cell]));
    assertShown(shown.requests, sample(last, 'server_requests', 'a.test'), 'requests of a server');
    assertShown(shown['req/s'], grown('server_requests', 'a.test'), 'requests per second of a server');
    assertShown(shown.active, sample(last, 'server_requests_active', 'a.test'), 'active requests of a server');
    assert.match(shown.p99, /^[\d.]+ (µs|ms|s)$/);
    await row.getByRole('button').click();
    const details = await page.locator('#servers td.details:visible').textContent();
    const code = (status) => `${status}: ${sample(last, 'server_responses', 'a.test', status).toLocaleString('en-US')} `;
    assert.ok(details.includes(code('200')), details);

    const sessions = page.locator('#tls table').filter({ hasText: 'Sessions' }).first();
    const full = await sessions.locator('tr').filter({ hasText: 'new sessions' }).locator('td').allTextContents();
    assertShown(full.at(-1), sample(last, 'tls_sessions_full'), 'full handshakes');
    const process = Object.fromEntries(await page.locator('#process dl > div').evaluateAll((pairs) =>
      pairs.map((pair) => [pair.children[0].textContent, pair.children[1].textContent])));
    assertShown(process['connections accepted'], sample(last, 'connections_accepted'), 'accepted connections');
    assertShown(process['worker threads'], sample(last, 'worker_threads'), 'threads');
    const [, , , days] = await cells(page.locator('#certificates tbody tr').first());
    assertShown(days, (sample(last, 'certificate_not_after_timestamp_seconds') - last.time) / 86400, 'days left');
    // Nothing is configured for these.
    for (const absent of ['upstreams', 'caches', 'limits', 'resolvers', 'stores']) {
      assert.ok(await page.locator(`#${absent}`).isHidden(), absent);
    }

    // Paused: nothing is asked. Resumed: it goes on.
    const asked = seen.answers.length;
    await page.waitForTimeout(1500);
    assert.equal(seen.answers.length, asked);
    await page.getByRole('button', { name: 'Resume', exact: true }).click();
    await until('another answer', () => seen.answers.length > asked);
    // A graph can be asked about the past, with the keyboard too.
    await page.locator('#look-back').focus();
    await page.keyboard.press('ArrowRight');
    await until('a moment', async () => /numbers are those of/.test(await text(page, '#moment')));
    assert.match(await tile(page, 'Requests').locator('svg').getAttribute('aria-label'), /^Requests in the last .* between /);
    assertQuiet(seen);
  },

  async tables() {
    const { page, seen } = await open();
    const names = () => page.locator('#servers tbody tr:visible th').allTextContents();
    const pager = () => text(page, '#servers .pager span');
    await until('servers', async () => (await page.locator('#servers').isVisible()) && (await names()).length === 20);
    const all = Number((await pager()).match(/of (\d+)$/)[1]);
    assert.ok(all > 300, `${all} servers`);
    // A name that wants to be HTML is text.
    await page.keyboard.press('/');
    assert.equal(await page.evaluate(() => document.activeElement.id), 'filter');
    await page.keyboard.type('SCRIPT name');
    assert.deepEqual(await names(), ['<b>name</b><script>alert(1)</script>']);
    assert.equal(await page.locator('#servers :is(b, script)').count(), 0);
    await page.keyboard.press('Escape');
    assert.equal(await page.inputValue('#filter'), '');
    await page.fill('#filter', 'site-01 test');
    assert.match(await pager(), /^1–20 of 100 that match, of \d+$/);
    await page.locator('#servers').getByRole('button', { name: 'Server', exact: true }).click();
    assert.equal(await page.locator('#servers thead th').first().getAttribute('aria-sort'), 'ascending');
    assert.deepEqual((await names()).slice(0, 2), ['site-0100.test', 'site-0101.test']);
    await page.locator('#servers').getByRole('button', { name: 'Next' }).click();
    assert.deepEqual((await names()).slice(0, 2), ['site-0120.test', 'site-0121.test']);
    await page.locator('#servers').getByRole('button', { name: 'Server', exact: true }).click();
    assert.deepEqual((await names()).slice(0, 2), ['site-0199.test', 'site-0198.test']);
    await page.fill('#filter', 'no such name');
    assert.deepEqual(await names(), []);
    assert.match(await pager(), /^nothing matches the filter, of \d+$/);
    await page.fill('#filter', '');

    // The first stop of the keyboard leads past the head; every control has a name (axe checks that).
    await page.evaluate(() => document.activeElement.blur());
    for (const theme of ['light', 'dark']) {
      while ((await text(page, '#theme')) !== `Theme: ${theme}`) await page.click('#theme');
      await assertAccessible(page, theme);
    }
    await page.reload();
    assert.equal(await text(page, '#theme'), 'Theme: dark', 'the choice is remembered');
    await page.keyboard.press('Tab');
    assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Skip to the numbers');
    await page.setViewportSize(PHONE);
    await until('numbers', () => page.locator('#servers').isVisible());
    assert.deepEqual(await page.evaluate(() => [document.documentElement.scrollWidth, document.body.scrollWidth]), [360, 360], 'a phone scrolls in one direction');
    await assertAccessible(page, 'a phone');
    assertQuiet(seen);

    // The policy holds whatever gets into the page.
    const violated = await page.evaluate(() => new Promise((resolve) => {
      const found = [];
      document.addEventListener('securitypolicyviolation', (event) => { if (found.push(event.effectiveDirective) === 3) resolve(found.sort()); });
      const script = document.createElement('script');
      script.textContent = 'window.intruder = true';
      const image = new Image();
      image.src = 'http://127.0.0.1:9/';
      const styled = document.createElement('div');
      styled.setAttribute('style', 'color: red');
      document.body.append(script, image, styled);
    }));
    assert.deepEqual(violated, ['img-src', 'script-src-elem', 'style-src-attr']);
    assert.equal(await page.evaluate(() => window.intruder), undefined);
  },

  async problems() {
    const { page, seen } = await open();
    const said = () => text(page, '#problems');
    await until('what is wrong from the start', async () => /No peer of upstream dead is live: its requests get 502\./.test(await said()));
    assert.match(await said(), /A certificate ends within 14 days: \S+soon\.pem \(p256\) of soon\.test \(\d d \d+ h\)\./);
    assert.match(await text(page, '#announcement'), /\d new problems: /);
    // Twice, as the page sees what grows between two answers.
    const asked = seen.answers.length;
    await until('two answers', () => seen.answers.length >= asked + 2);
    let refused = 0;
    for (let times = 0; times < 20; times += 1) {
      const response = await fetch(rest[0]);
      await response.arrayBuffer();
      refused += response.status === 503;
    }
    assert.equal(refused, 19);
    await until('a refusal', async () => (await said()).includes('The limit_req zone narrow rejected 19 requests in the last 5 minutes.'));
    assert.ok((await said()).includes('sealane_limit_requests_total{zone="narrow"}'));
    await until('server errors', async () => /of responses in the last 5 minutes were server errors \(5xx\), most from \S+\.test/.test(await said()));
    const limit = await cells(rowOf(page, 'limits', 'narrow'));
    assert.equal(limit.at(-1), '19');
    const states = await Promise.all(['127.0.0.1', '127.0.0.2'].map((host) => page.locator(`#upstreams tbody tr:visible:has-text("dead"):has-text("${host}:") td:nth-child(3)`).allTextContents()));
    assert.deepEqual(states, [['unavailable'], ['unavailable']]);
    assert.match(await said(), /The session store redis:\S+ is down: clients of other nodes make full handshakes\./);
    // One of its peers answers every other second, and is left out for one after each failure.
    await until('a peer that flaps', async () => {
      await (await fetch(rest[1])).arrayBuffer();
      return /127\.0\.0\.1:\d+ of upstream flaps was left out several times in the last 5 minutes\./.test(await said());
    });
    assert.ok((await said()).includes('sealane_upstream_left_out_total'));
    assert.match(await page.title(), /^\(\d\) /);
    await assertAccessible(page, 'problems');
    assertQuiet(seen);
  },

  async outage() {
    const { page, seen } = await open();
    await page.selectOption('#every', '1000');
    await until('two answers', () => seen.answers.length >= 2);
    const answers = `${url}?format=json`;
    const lost = page.locator('#lost');
    for (const [handle, why] of [
      [(route) => route.abort('connectionrefused'), /The server has not answered since \d\d:\d\d:\d\d: it could not be reached\. The numbers below are from/],
      [(route) => route.fulfill({ status: 403, body: 'no' }), /it answers with status 403/],
      [(route) => route.fulfill({ contentType: 'application/json', body: '{"time": 1, "fam' }), /the answer was cut off/]]) {
      await page.route(answers, handle);
      await until('the notice', async () => (await lost.isVisible()) && why.test(await lost.textContent()));
      assert.match(await text(page, '#state'), /^No answer since /);
      await page.unroute(answers);
      await until('the end of the notice', () => lost.isHidden());
      assert.match(await text(page, '#state'), /^Live, as of /);
    }
    // Another run of the server: counters fall, and no rate is below zero or beyond belief.
    const shown = [];
    await page.route(answers, async (route) => {
      const response = await route.fetch();
      const answer = await response.json();
      for (const [name, family] of Object.entries(answer.families)) {
        if (family.type !== 'counter') continue;
        for (const row of family.samples) row[row.length - 1] = Math.floor(row.at(-1) / 1000);
        assert.ok(name.startsWith('sealane_'));
      }
      answer.families.sealane_start_time_seconds.samples[0][0] += 1000;
      shown.push(await page.locator('#tiles .big').allTextContents());
      await route.fulfill({ response, json: answer });
    });
    await until('the note', async () => /The server was restarted at/.test(await text(page, '#more-problems')));
    const after = shown.length;
    await until('further answers', () => shown.length >= after + 3);
    for (const bigs of shown) assert.ok(bigs.every((big) => !/[-−]\d/.test(big)), bigs.join());
    // The browser itself reports requests that fail.
    assert.deepEqual(seen.complaints.filter((complaint) => !complaint.startsWith('Failed to load resource')), []);
    assert.deepEqual(seen.strangers, []);
  },

  async report() {
    const { page, seen } = await open();
    const widths = () => page.evaluate(() => [document.documentElement.scrollWidth, document.body.scrollWidth, document.documentElement.clientWidth]);
    assert.ok(await page.locator('main figure svg').count() > 1, 'charts');
    for (const colorScheme of ['light', 'dark']) {
      await page.emulateMedia({ colorScheme });
      await assertAccessible(page, colorScheme);
    }
    await page.setViewportSize(PHONE);
    assert.deepEqual(await widths(), [360, 360, 360], 'a phone scrolls in one direction');
    await assertAccessible(page, 'a phone');
    // On paper (A4 within its margins) there is no scrolling: all of it has to fit.
    await page.setViewportSize({ width: 720, height: 1020 });
    await page.emulateMedia({ media: 'print', colorScheme: 'light' });
    assert.ok(await page.locator('nav').isHidden(), 'links cannot be followed on paper');
    const [whole, , paper] = await widths();
    assert.equal(whole, paper, 'nothing is cut off');
    const cut = await page.locator('.scroll').evaluateAll((all) => all.filter((one) => one.scrollWidth > one.clientWidth).map((one) => one.ariaLabel));
    assert.deepEqual(cut, [], 'tables that are too wide for paper');
    const pages = (await page.pdf({ format: 'A4' })).toString('latin1').match(/\/Type\s*\/Page\b/g).length;
    assert.ok(pages >= (await page.locator('main > section').count()), `${pages} pages`);
    assertQuiet(seen);

    const picture = await page.context().newPage();
    await picture.goto(rest[0]);
    const [width, height] = await picture.evaluate(() => [document.documentElement.clientWidth, document.documentElement.getBoundingClientRect().height]);
    assert.ok(width > 700 && height > 100, `${width} x ${height}`);
    const outside = await picture.evaluate(() => [...document.querySelectorAll('text')].filter((text) => text.getBBox().x + text.getBBox().width > 800).map((text) => text.textContent));
    assert.deepEqual(outside, [], 'words that do not fit');
  },

  async pictures() {
    const [directory, seconds] = rest;
    const views = [['light', DESKTOP, 'light'], ['dark', DESKTOP, 'dark'], ['phone', PHONE, 'dark']];
    const pages = [];
    for (const [name, viewport, colorScheme] of views) pages.push([name, await open({ viewport, colorScheme })]);
    await pages[0][1].page.waitForTimeout(Number(seconds) * 1000);
    for (const [name, { page, seen }] of pages) {
      await page.screenshot({ path: `${directory}/console-${name}.png` });
      assertQuiet(seen);
    }
  },
};

/** No finding that keeps somebody from reading or using the page. */
async function assertAccessible(page, where) {
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'] }));
  const bad = violations.filter(({ impact }) => impact === 'serious' || impact === 'critical');
  assert.deepEqual(bad.map(({ id, nodes }) => `${id}: ${nodes[0].html}: ${nodes[0].failureSummary}`), [], where);
}

try {
  await scenarios[scenario]();
  console.log('good');
} finally {
  await browser.close();
}
