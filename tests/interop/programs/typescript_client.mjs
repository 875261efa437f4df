// The clients of the TypeScript SDK: `node typescript_client.mjs FOLDER MODE COMMAND...` prints what it saw as JSON.
// A URL stands for a command, too; one that ends in /sse is for the old transport. MODE is "legacy", "auto" or a revision for version 2 of the SDK, and "v1" for version 1. It does what tour.py does.
import { createRequire } from "node:module";

const [folder, mode, command, ...args] = process.argv.slice(2);
const load = createRequire(`${folder}/`);
const first = mode === "v1";
const home = first ? "@modelcontextprotocol/sdk/client" : "@modelcontextprotocol/client";
const { Client } = load(first ? `${home}/index.js` : home);

function transport() {
  if (!command.startsWith("http")) {
    const { StdioClientTransport } = load(first ? `${home}/stdio.js` : `${home}/stdio`);
    return new StdioClientTransport({ command, args });
  }
  const [name, file] = command.endsWith("/sse") ? ["SSEClientTransport", "sse"] : ["StreamableHTTPClientTransport", "streamableHttp"];
  return new (load(first ? `${home}/${file}.js` : home)[name])(new URL(command));
}

const pinned = ["legacy", "auto"].includes(mode) ? mode : { pin: mode };

const client = new Client({ name: "typed", version: "1" }, first ? {} : { versionNegotiation: { mode: pinned } });
const call = (name, args = {}, options = {}) =>
  first ? client.callTool({ name, arguments: args }, undefined, options) : client.callTool({ name, arguments: args }, options);
const heard = new Set();
const told = [];
client.fallbackNotificationHandler = async ({ method, params }) => {
  heard.add(method);
  if (method === "notifications/message") told.push([params.level, params.data]);
};

const outcome = (work) => work.catch(({ code, data }) => ({ code, data }));

async function until(ask, done) {
  const deadline = Date.now() + 20_000;
  for (;;) {
    const seen = await ask();
    if (done(seen) || Date.now() > deadline) return seen;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

async function pages(list, field) {
  const items = [];
  let cursor;
  do {
    const page = await list.call(client, cursor === undefined ? {} : { cursor });
    items.push(...page[field]);
    cursor = page.nextCursor;
  } while (cursor !== undefined);
  return { items };
}

async function giveUp() {
  const timedOut = await outcome(call("hang", { name: "timeout" }, { timeout: 300 }));
  const caller = new AbortController();
  await outcome(call("hang", { name: "caller" }, { signal: caller.signal, onprogress: () => caller.abort() }));
  const hung = async () => JSON.parse((await call("hung")).content[0].text);
  return { "timed out": timedOut, left: await until(hung, ({ running }) => running.length === 0) };
}

async function progress() {
  const seen = [];
  const onprogress = ({ progress, total, message }) => seen.push([progress, total, message ?? null]);
  return { result: await call("count", { steps: 3 }, { onprogress }), seen };
}

async function logs(modern) {
  const level = { "io.modelcontextprotocol/logLevel": "info" };
  if (!modern && client.getServerCapabilities().logging) await client.setLoggingLevel("info");
  if (modern) await client.callTool({ name: "talk", arguments: {}, _meta: level });
  else await call("talk");
  return until(async () => told, ({ length }) => length === 1);
}

async function update(modern, uri) {
  const subscription = modern ? await client.listen({ resourceSubscriptions: [uri] }) : undefined;
  if (!modern) await client.subscribeResource({ uri });
  await call("touch", { uri });
  const changed = "notifications/resources/updated";
  await until(async () => heard, (methods) => methods.has(changed));
  if (!modern) await client.unsubscribeResource({ uri });
  await subscription?.close();
  return heard.has(changed) ? uri : "nothing";
}

async function changes(modern) {
  const wanted = { toolsListChanged: true, promptsListChanged: true, resourcesListChanged: true };
  const subscription = modern ? await client.listen(wanted) : undefined;
  if (!modern) await client.ping();
  await call("grow", { name: "a" });
  const lists = () => [...heard].filter((method) => method.endsWith("/list_changed"));
  const seen = await until(async () => lists(), ({ length }) => length === 3);
  await subscription?.close();
  return seen.sort();
}

async function tour() {
  await client.connect(transport());
  const revision = first ? client.transport._protocolVersion : client.getNegotiatedProtocolVersion();
  const seen = {
    revision,
    server: client.getServerVersion(),
    capabilities: client.getServerCapabilities(),
    instructions: client.getInstructions(),
    tools: await pages(client.listTools, "tools"),
    resources: await pages(client.listResources, "resources"),
    resource_templates: await pages(client.listResourceTemplates, "resourceTemplates"),
    prompts: await pages(client.listPrompts, "prompts"),
    "bad cursor": await outcome(client.listTools({ cursor: "forged" })),
  };
  const calls = {
    add: { a: 1, b: 2 }, point: { x: 1 }, numbers: { count: 3 }, nothing: {}, blocks: {}, fail: {}, crash: {},
    whoami: {}, colour: { name: "red", shade: "dark" }, "add wrongly": { a: "one" }, missing: {},
  };
  for (const [name, given] of Object.entries(calls)) seen[`call ${name}`] = await outcome(call(name.split(" ")[0], given));
  for (const uri of ["note://static", "note://bytes", "note://soup/4", "note://gone"]) {
    seen[`read ${uri}`] = await outcome(client.readResource({ uri }));
  }
  const prompts = { review: { code: "x = 1" }, chat: {}, "review incompletely": {}, missing: {} };
  for (const [name, given] of Object.entries(prompts)) {
    seen[`prompt ${name}`] = await outcome(client.getPrompt({ name: name.split(" ")[0], arguments: given }));
  }
  seen.progress = await progress();
  seen["give up"] = await giveUp();
  const numbers = [...Array(20).keys()];
  seen["at once"] = await Promise.all(numbers.map(async (n) => (await call("add", { a: n, b: n })).content[0].text));
  const asked = { ref: { type: "ref/prompt", name: "review" }, argument: { name: "language", value: "p" } };
  seen.completion = (await client.complete(asked)).completion.values;
  const modern = !first && client.getProtocolEra() === "modern";
  seen.logs = await logs(modern);
  seen.update = await update(modern, "note://static");
  seen.changes = await changes(modern);
  seen.grown = (await pages(client.listTools, "tools")).items.at(-1).name;
  await client.close();
  return seen;
}

const refused = ({ code, message }) => ({ refused: [code], message });
console.log(JSON.stringify(await tour().catch(refused)));
