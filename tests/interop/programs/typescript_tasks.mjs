// Tasks of 2025-11-25 with the client of the TypeScript SDK 1.x: `node typescript_tasks.mjs FOLDER COMMAND...|URL` prints what it saw.
import { createRequire } from "node:module";

const [folder, command, ...args] = process.argv.slice(2);
const load = createRequire(`${folder}/`);
const home = "@modelcontextprotocol/sdk";
const { Client } = load(`${home}/client/index.js`);
const { StdioClientTransport } = load(`${home}/client/stdio.js`);
const { StreamableHTTPClientTransport } = load(`${home}/client/streamableHttp.js`);
const { CallToolResultSchema, ElicitRequestSchema, TaskStatusNotificationSchema } = load(`${home}/types.js`);

const client = new Client({ name: "typed", version: "1" }, { capabilities: { elicitation: {} } });
const asked = [];
const told = [];
client.setRequestHandler(ElicitRequestSchema, async ({ params }) => {
  asked.push({ message: params.message, related: params._meta?.["io.modelcontextprotocol/related-task"]?.taskId });
  return { action: "accept", content: { style: "cubist" } };
});
client.setNotificationHandler(TaskStatusNotificationSchema, async ({ params }) => void told.push(params));

const remote = command.startsWith("http");
await client.connect(remote ? new StreamableHTTPClientTransport(new URL(command)) : new StdioClientTransport({ command, args }));
const { tools } = await client.listTools();
const tasks = client.experimental.tasks;
const outcome = (work) => work.catch(({ code, message, data }) => ({ code, message, data }));

async function stream(name, given, options) {
  const seen = [];
  for await (const message of tasks.callToolStream({ name, arguments: given }, CallToolResultSchema, options)) {
    seen.push(message.type === "error" ? { type: "error", error: { code: message.error.code, message: message.error.message } } : message);
  }
  return seen;
}

async function ended(id) {
  for (;;) {
    const task = await tasks.getTask(id);
    if (["completed", "failed", "cancelled"].includes(task.status)) return task;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

const seen = {
  capabilities: client.getServerCapabilities(),
  support: Object.fromEntries(tools.map(({ name, execution }) => [name, execution?.taskSupport ?? null])),
  render: await stream("render", { scene: "sea" }, { task: { ttl: 60000 } }),
  plain: await client.callTool({ name: "render", arguments: { scene: "land" } }),
  paint: await stream("paint", {}),
  refuse: await stream("refuse", {}, { task: {} }),
  "break down": await stream("break_down", {}, { task: {} }),
  "add as a task": await stream("add", { a: 1, b: 2 }, { task: {} }),
  missing: await outcome(tasks.getTask("unknown")),
};
const [{ task }] = seen["break down"];
seen["error of the result"] = await outcome(tasks.getTaskResult(task.taskId, CallToolResultSchema));
const holding = tasks.callToolStream({ name: "hold", arguments: {} }, CallToolResultSchema, { task: {} });
const held = (await holding.next()).value.task.taskId;
seen.cancel = await tasks.cancelTask(held);
seen.cancelled = await ended(held);
seen["cancel again"] = await outcome(tasks.cancelTask(held));
seen.asked = asked;
for (let waited = 0; waited < 2000 && !told.some(({ taskId }) => taskId === held); waited += 20) {
  await new Promise((resolve) => setTimeout(resolve, 20));
}
seen.told = told;
await client.close();
console.log(JSON.stringify(seen));
