// The client of the official TypeScript SDK, version 1, from 1.0 to 1.32.
import * as wire from "@modelcontextprotocol/sdk/types.js";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { run, until } from "./tour.mjs";

const { CreateMessageRequestSchema, ElicitRequestSchema, ListRootsRequestSchema } = wire;

async function transport(kind, [command, ...args]) {
  if (kind === "stdio") {
    const { StdioClientTransport } = await import("@modelcontextprotocol/sdk/client/stdio.js");
    return new StdioClientTransport({ command, args });
  }
  if (kind === "sse") {
    const { SSEClientTransport } = await import("@modelcontextprotocol/sdk/client/sse.js");
    return new SSEClientTransport(new URL(command));
  }
  const { StreamableHTTPClientTransport } = await import("@modelcontextprotocol/sdk/client/streamableHttp.js");
  return new StreamableHTTPClientTransport(new URL(command));
}

run(async (kind, mode, target) => {
  const elicits = Boolean(ElicitRequestSchema);
  const capabilities = { sampling: {}, roots: {}, ...(elicits ? { elicitation: {} } : {}) };
  const client = new Client({ name: "typescript", version: "1" }, { capabilities });
  const heard = new Set();
  const logs = [];
  client.fallbackNotificationHandler = async ({ method, params }) => {
    heard.add(method);
    if (method === "notifications/message") logs.push(params);
  };
  const content = { type: "text", text: "green tea" };
  client.setRequestHandler(CreateMessageRequestSchema, async () => ({ role: "assistant", model: "tea-1", content }));
  client.setRequestHandler(ListRootsRequestSchema, async () => ({ roots: [{ uri: "file:///compat" }] }));
  if (elicits) client.setRequestHandler(ElicitRequestSchema, async () => ({ action: "accept", content: { guests: 2 } }));
  await client.connect(await transport(kind, target));
  const call = (name, args, options) => client.callTool({ name, arguments: args }, undefined, options);
  const tools = async () => (await client.listTools()).tools.map(({ name }) => name);
  return {
    elicits,
    samples: true,
    has_roots: true,
    tools,
    refreshedTools: tools,
    call,
    ping: () => client.ping(),
    resources: () => client.listResources(),
    templates: () => client.listResourceTemplates(),
    read: (uri) => client.readResource({ uri }),
    prompts: () => client.listPrompts(),
    prompt: (name, args) => client.getPrompt({ name, arguments: args }),
    complete: (name, argument, value) =>
      client.complete({ ref: { type: "ref/prompt", name }, argument: { name: argument, value } }),
    progress: async (name, args) => {
      const seen = [];
      await call(name, args, { onprogress: ({ progress }) => seen.push(progress) });
      return seen;
    },
    logged: async (name) => {
      await client.setLoggingLevel("info");
      await call(name, {});
      await until(() => logs.length > 0);
      return logs;
    },
    cancel: async (name, args) => {
      const caller = new AbortController();
      const options = { signal: caller.signal, onprogress: () => caller.abort() };
      await call(name, args, options).catch(() => undefined);
    },
    listChanged: async () => {
      await call("grow", { name: "a" });
      await until(() => ["tools", "resources", "prompts"].every((kind) => heard.has(`notifications/${kind}/list_changed`)));
    },
    updated: async (uri) => {
      await client.subscribeResource({ uri });
      await call("grow", { name: "c" });
      await until(() => heard.has("notifications/resources/updated"));
    },
    close: () => client.close(),
  };
});
