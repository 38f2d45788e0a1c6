// BullMQ: jobs with results, priorities, delays and retries, a flow of children, events, a repeated job.
const { Queue, Worker, QueueEvents, FlowProducer } = require('bullmq');
const assert = require('node:assert');

const connection = { host: '127.0.0.1', port: Number(process.argv[2]), maxRetriesPerRequest: null };

async function run() {
  const queue = new Queue('jobs', { connection });
  const events = new QueueEvents('jobs', { connection });
  queue.setMaxListeners(0);
  events.setMaxListeners(0);
  await events.waitUntilReady();
  let attempts = 0;
  const worker = new Worker('jobs', async (job) => {
    if (job.name === 'flaky' && ++attempts < 3) throw new Error('again');
    if (job.name === 'sum') return Object.values(await job.getChildrenValues()).reduce((a, b) => a + b, 0);
    await job.updateProgress(50);
    return job.data.number * job.data.number;
  }, { connection, concurrency: 4 });
  worker.on('error', (error) => { throw error; });

  const jobs = await queue.addBulk(Array.from({ length: 50 }, (_, number) => (
    { name: 'square', data: { number }, opts: { priority: number % 3, removeOnComplete: { count: 1000 } } })));
  const results = await Promise.all(jobs.map((job) => job.waitUntilFinished(events, 60000)));
  assert.deepStrictEqual(results, Array.from({ length: 50 }, (_, number) => number * number));

  const flaky = await queue.add('flaky', { number: 3 }, { attempts: 3, backoff: { type: 'fixed', delay: 20 } });
  assert.strictEqual(await flaky.waitUntilFinished(events, 60000), 9);
  const delayed = await queue.add('square', { number: 12 }, { delay: 300 });
  assert.strictEqual(await delayed.waitUntilFinished(events, 60000), 144);

  const flow = new FlowProducer({ connection });
  const tree = await flow.add({ name: 'sum', queueName: 'jobs', children: [1, 2, 3].map((number) => (
    { name: 'square', queueName: 'jobs', data: { number } })) });
  assert.strictEqual(await tree.job.waitUntilFinished(events, 60000), 14);

  assert.strictEqual((await queue.getJobCounts('completed')).completed, 56);
  await queue.pause();
  assert.ok(await queue.isPaused());
  await queue.add('square', { number: 1 });
  await queue.resume();
  await worker.close();
  await flow.close();
  await queue.obliterate({ force: true });
  await Promise.all([queue.close(), events.close()]);
  console.log('BullMQ:', require('bullmq/package.json').version, '57 jobs');
}

run().then(() => process.exit(0), (error) => { console.error(error); process.exit(1); });
