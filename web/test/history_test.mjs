// Tests the words of the history page: values, starts and changes, as the terminal prints them.
import assert from 'node:assert/strict';
import {test} from 'node:test';
import {load} from './load.mjs';

const history = await load('history/data.ts');

test('formats values by unit', () => {
  for (const [unit, value, words] of [
    ['bytes', 1572864.4, '1.5 MiB'], ['ns', 4_560_000, '4.56 ms'], ['per_second', 29.97, '30.0'], ['count', 3, '3'], ['count', 12.3456, '12.35'],
  ]) assert.equal(history.value_words(unit, value), words);
});

test('formats starts, commits and changes', () => {
  assert.equal(history.start_words('2026-11-21T10:30:00.125+01:00'), '2026-11-21 10:30');
  assert.equal(history.short_commit('0123456789abcdef'), '0123456789');
  assert.equal(history.short_commit(undefined), '–');
  const at = (median) => ({median, values: [median], started_at: ''});
  assert.equal(history.change_words(undefined, at(5)), '');
  assert.equal(history.change_words(at(0), at(5)), '');
  assert.equal(history.change_words(at(100), at(110)), '+10.0 %');
  assert.equal(history.change_words(at(100), at(95)), '-5.0 %');
});
