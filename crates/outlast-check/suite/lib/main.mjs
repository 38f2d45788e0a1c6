// The workload and the check of a store of npm: the transactions of suite.py.
import fs from 'node:fs';
import readline from 'node:readline';
import { open, several } from './store.mjs';

const transactions = Number(process.env.SUITE_TRANSACTIONS ?? 8);
const value = i => `${i}:${String.fromCharCode(97 + i % 26).repeat(50 + 900 * (i % 6))}`;
const pairs = i => several
  ? [[`k${i % 5}`, value(i)], [`m${i % 3}`, value(i + 1000)], ['n', String(i)]]
  : [[`k${i % 5}`, value(i)]];
const say = text => fs.writeSync(1, text + '\n');

function recovered(found, last) {
  const right = {}, known = new Set();
  const is = () => Object.keys(right).length === found.size && Object.entries(right).every(([k, v]) => found.get(k) === v);
  let matching = is() ? 0 : undefined;
  for (let i = 1; i <= last; i++) {
    for (const [k, v] of pairs(i)) { right[k] = v; known.add(k + v); }
    if (is()) matching = i;
  }
  if (matching !== undefined) return `recovered ${matching}`;
  const wrong = [...found].filter(([k, v]) => !known.has(k + v)).map(([k]) => k).sort();
  return wrong.length ? `bad torn: ${wrong[0]}` : 'bad mixed: each key is legal, no order of transactions fits';
}

const [task, ...rest] = process.argv.slice(2);
if (task === 'workload') {
  const [dir, ...words] = rest;
  let store = await open(dir, words);
  for (let i = 1; i <= transactions; i++) {
    say(`I ${i}`);
    await store.put(pairs(i));
    say(`A ${i}`);
    if (i === Math.floor(transactions / 2)) {
      await store.close();
      store = await open(dir, words);
    }
  }
  await store.close();
} else {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [dir, , issued] = line.split('\t');
    try {
      const store = await open(dir, rest);
      const found = new Map(await store.items());
      await store.close();
      say(recovered(found, Number(issued)));
    } catch (error) {
      say(`bad unopenable: ${String(error.cause?.message ?? error.message ?? error).split('\n')[0]}`);
    }
  }
}
process.exit(0);
