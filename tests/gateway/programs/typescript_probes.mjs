// The clients of the TypeScript SDK behind the gateway: `node typescript_probes.mjs FOLDER MODE URL|COMMAND...`. It does what probes.py does.
// MODE is "v1" for version 1 of the SDK, and "legacy" or a revision for version 2.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const [folder, mode, command, ...args] = process.argv.slice(2);
const load = createRequire(`${folder}/`);
const first = mode === "v1";
const home = first ? "@modelcontextprotocol/sdk/client" : "@modelcontextprotocol/client";
const { Client } = load(first ? `${home}/index.js` : home);
const types = first ? load("@modelcontextprotocol/sdk/types.js") : {};
const PATIENCE = 20_000;

class Refused extends Error {}

function transport() {
  if (!command.startsWith("http")) {
    const { StdioClientTransport } = load(first ? `${home}/stdio.js` : `${home}/stdio`);
    return new StdioClientTransport({ command, args });
  }
  return new (load(first ? `${home}/streamableHttp.js` : home).StreamableHTTPClientTransport)(new URL(command));
}

const capabilities = { elicitation: { form: {}, url: {} }, sampling: {}, roots: { listChanged: true } };
const negotiation = first ? {} : { versionNegotiation: { mode: mode === "legacy" ? mode : { pin: mode } } };
const client = new Client({ name: "typed", version: "1" }, { capabilities, ...negotiation });

const logs = [];
const asked = [];
let changes = [];
let waiting = [];
const wake = () => waiting.splice(0).forEach((go) => go());

async function until(heard) {
  while (!heard()) await new Promise((resolve) => waiting.push(resolve));
}

const answers = {
  "elicitation/create": async ({ params }) => {
    asked.push(params.message);
    return params.mode === "url" ? { action: "accept" } : { action: "accept", content: { name: "Ann" } };
  },
  "sampling/createMessage": async () => {
    asked.push("sampling");
    return { role: "assistant", model: "m", content: { type: "text", text: "Hi" } };
  },
  "roots/list": async () => {
    asked.push("roots");
    return { roots: [{ uri: "file:///srv", name: "srv" }] };
  },
};
const schemas = { "elicitation/create": types.ElicitRequestSchema, "sampling/createMessage": types.CreateMessageRequestSchema, "roots/list": types.ListRootsRequestSchema };
for (const [method, handler] of Object.entries(answers)) client.setRequestHandler(first ? schemas[method] : method, handler);

client.fallbackNotificationHandler = async ({ method, params }) => {
  if (method === "notifications/message") logs.push(typeof params.data === "string" ? params.data : JSON.stringify(params.data));
  else if (method === "notifications/resources/updated") changes.push(`resource ${params.uri}`);
  else if (method.endsWith("/list_changed")) changes.push(method.split("/")[1]);
  wake();
};

await client.connect(transport());
const modern = !first && client.getProtocolEra() === "modern";
const revision = first ? (client.transport._protocolVersion ?? client.transport.protocolVersion) : client.getNegotiatedProtocolVersion();

const level = modern ? { _meta: { "io.modelcontextprotocol/logLevel": "debug" } } : {};
const request = (name, given, options = {}) => {
  const params = { name, arguments: given, ...level };
  return first ? client.callTool(params, undefined, options) : client.callTool(params, options);
};

const contents = ({ uri, text, blob }) => `${uri} ${text ?? blob}`;
function block(item) {
  if (item.type === "text") return `text ${item.text}`;
  if (item.type === "resource") return `resource ${contents(item.resource)}`;
  return `${item.type} ${item.type === "resource_link" ? item.uri : item.mimeType}`;
}

const LISTS = {
  tools: ["listTools", "tools", "name"],
  prompts: ["listPrompts", "prompts", "name"],
  resources: ["listResources", "resources", "uri"],
  templates: ["listResourceTemplates", "resourceTemplates", "uriTemplate"],
};

async function names(kind) {
  const [method, field, item] = LISTS[kind];
  const found = [];
  let cursor;
  do {
    const page = await client[method](cursor === undefined ? {} : { cursor });
    found.push(...page[field].map((one) => one[item]));
    cursor = page.nextCursor;
  } while (cursor !== undefined);
  return found;
}

async function watching(uris, kinds, work) {
  changes = [];
  if (!modern) {
    for (const uri of uris) await client.subscribeResource({ uri });
    await work();
    for (const uri of uris) await client.unsubscribeResource({ uri });
    return;
  }
  const wanted = Object.fromEntries(kinds.map((kind) => [`${kind}ListChanged`, true]));
  const subscription = await client.listen({ ...wanted, ...(uris.length ? { resourceSubscriptions: uris } : {}) });
  try {
    if (uris.length && !subscription.honoredFilter.resourceSubscriptions?.length) {
      throw new Refused("the subscription was acknowledged without the resource");
    }
    await work();
  } finally {
    await subscription.close();
  }
}

function probes(key, name) {
  const tool = (own) => `${key}__${own}`;
  const listed = {};
  async function shown(kind, own) {
    listed[kind] ??= await names(kind);
    const found = [`gateway:${key}:${own}`, own].find((uri) => listed[kind].includes(uri));
    if (found === undefined) throw new Refused(`${own} is not listed`);
    return found;
  }
  async function call([own, given], options) {
    const { content, structuredContent, isError } = await request(tool(own), given, options);
    const seen = { blocks: content.map(block), error: isError ?? false };
    return structuredContent === undefined ? seen : { ...seen, structured: structuredContent };
  }
  async function asking(given) {
    asked.length = 0;
    return { ...(await call(given)), asked: [...asked] };
  }
  const read = async (uri) => (await client.readResource({ uri })).contents.map(contents);
  const code = (work) => work.then((result) => `no error: ${JSON.stringify(result)}`, (problem) => problem.code);
  return {
    async tools(given) {
      const own = (await names("tools")).filter((each) => each.startsWith(tool(""))).map((each) => each.slice(tool("").length));
      return { listed: own.sort(), ...(await call(given)) };
    },
    "structured results": call,
    async "content types"(given) {
      const blocks = [];
      for (const one of given) blocks.push(...(await call(one)).blocks);
      const links = blocks.filter((each) => each.startsWith("resource_link ")).map((each) => each.slice("resource_link ".length));
      const behind = [];
      for (const uri of links) behind.push(...(await read(uri)));
      return { blocks, "behind links": behind };
    },
    async resources(given) {
      const seen = [];
      for (const own of given) seen.push(...(await read(await shown("resources", own))));
      return seen;
    },
    async templates([template, own]) {
      const uri = await shown("templates", template);
      return read(uri.slice(0, uri.length - template.length) + own);
    },
    async subscriptions({ uri: own, touch, after }) {
      const uri = await shown("resources", own);
      await watching([uri], [], async () => {
        await call(touch);
        await until(() => changes.includes(`resource ${uri}`));
      });
      if (after) await call(after);
      return "heard";
    },
    async prompts([own, given]) {
      const { messages } = await client.getPrompt({ name: tool(own), arguments: given });
      return { listed: (await names("prompts")).includes(tool(own)), messages: messages.map(({ content }) => block(content)) };
    },
    async completion([own, argument, value]) {
      const asked = { ref: { type: "ref/prompt", name: tool(own) }, argument: { name: argument, value } };
      return (await client.complete(asked)).completion.values;
    },
    async progress(given) {
      const seen = [];
      await call(given, { onprogress: ({ progress, total }) => seen.push([progress, total]) });
      return seen;
    },
    async cancellation({ tool: [own, given], ask }) {
      const caller = new AbortController();
      const options = { signal: caller.signal, onprogress: () => caller.abort() };
      await request(tool(own), given, options).catch(() => undefined);
      while (ask !== null && !(await call(ask)).blocks[0].includes(name)) await new Promise((resolve) => setTimeout(resolve, 20));
      return "given up";
    },
    async logging({ tool: given, heard, stopped, after }) {
      if (!modern) await client.setLoggingLevel("debug");
      logs.length = 0;
      while ((await call(given)).blocks[0].includes(stopped ?? "\0"));
      await until(() => logs.some((line) => new RegExp(heard).test(line)));
      if (after) await call(after);
      return "heard";
    },
    async "list changes"({ tool: given, kind, new: added }) {
      const before = await names(kind);
      let found = [];
      await watching([], [kind], async () => {
        await call(given);
        while (!found.length) {
          // The list of another server may have changed at the same time.
          await until(() => changes.includes(kind));
          changes = [];
          found = (await names(kind)).filter((each) => !before.includes(each) && each.includes(added));
        }
      });
      return found;
    },
    "elicitation form": asking,
    "elicitation URL": asking,
    sampling: asking,
    roots: asking,
    async tasks(given) {
      // Version 2 of the SDK has no tasks by itself.
      if (!first || !client.getServerCapabilities().tasks) return { status: "plain", ...(await call(given)) };
      let id;
      for await (const message of client.experimental.tasks.callToolStream({ name: tool(given[0]), arguments: given[1] }, types.CallToolResultSchema, { task: { ttl: 60000 } })) {
        if (message.type === "error") throw message.error;
        if (message.type === "result") {
          const { status } = await client.experimental.tasks.getTask(id);
          return { status, error: message.result.isError ?? false, blocks: message.result.content.map(block) };
        }
        id = message.task.taskId;
      }
      throw new Error("the stream of the task ended without a result");
    },
    async errors({ tool: given, missing }) {
      const failed = await call(given);
      return {
        failed,
        "unknown tool": await code(request(tool("nothing"), {})),
        "missing resource": await code(client.readResource({ uri: `gateway:${key}:${missing}` })),
      };
    },
  };
}

async function outcome(work) {
  let timer;
  const late = new Promise((resolve) => {
    timer = setTimeout(() => resolve({ silent: `nothing within ${PATIENCE / 1000} s` }), PATIENCE);
  });
  const done = work.then(
    (value) => ({ value }),
    (problem) => {
      if (problem instanceof Refused || problem.code !== undefined) return { refused: problem.message, code: problem.code };
      throw problem;
    },
  );
  try {
    return await Promise.race([done, late]);
  } finally {
    clearTimeout(timer);
  }
}

const plan = JSON.parse(readFileSync(0, "utf8"));
const seen = { revision, servers: {} };
for (const [key, features] of Object.entries(plan.servers)) {
  const of = probes(key, plan.name);
  seen.servers[key] = {};
  for (const [feature, given] of Object.entries(features)) seen.servers[key][feature] = await outcome(of[feature](given));
}
console.log(JSON.stringify(seen));
await client.close();
process.exit(0);
