// The client of the official TypeScript SDK, version 2; the mode is `auto` or `legacy`.
import { Client, SSEClientTransport, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { run, until } from "./tour.mjs";

function transport(kind, [command, ...args]) {
  if (kind === "stdio") return new StdioClientTransport({ command, args });
  return new (kind === "sse" ? SSEClientTransport : StreamableHTTPClientTransport)(new URL(command));
}

run(async (kind, mode, target) => {
  const capabilities = { sampling: {}, roots: {}, elicitation: {} };
  const negotiation = { mode: kind === "sse" ? "legacy" : mode };
  const client = new Client({ name: "typescript", version: "2" }, { capabilities, versionNegotiation: negotiation });
  const heard = new Set();
  const logs = [];
  client.fallbackNotificationHandler = async ({ method, params }) => {
    heard.add(method);
    if (method === "notifications/message") logs.push(params);
  };
  const content = { type: "text", text: "green tea" };
  client.setRequestHandler("sampling/createMessage", async () => ({ role: "assistant", model: "tea-1", content }));
  client.setRequestHandler("roots/list", async () => ({ roots: [{ uri: "file:///compat" }] }));
  client.setRequestHandler("elicitation/create", async () => ({ action: "accept", content: { guests: 2 } }));
  await client.connect(transport(kind, target));
  const modern = mode === "auto" && kind !== "sse";
  const call = (name, args, options) => client.callTool({ name, arguments: args }, options);
  return {
    elicits: true,
    samples: true,
    has_roots: true,
    tools: async () => (await client.listTools()).tools.map(({ name }) => name),
    call,
    ...(modern ? {} : { ping: () => client.ping() }),
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
      if (!modern) await client.setLoggingLevel("info");
      const _meta = modern ? { "io.modelcontextprotocol/logLevel": "info" } : undefined;
      await client.callTool({ name, arguments: {}, ...(_meta ? { _meta } : {}) });
      await until(() => logs.length > 0);
      return logs;
    },
    cancel: async (name, args) => {
      const caller = new AbortController();
      const options = { signal: caller.signal, onprogress: () => caller.abort() };
      await call(name, args, options).catch(() => undefined);
    },
    listChanged: async () => {
      const wanted = { toolsListChanged: true, resourcesListChanged: true, promptsListChanged: true };
      const subscription = modern ? await client.listen(wanted) : undefined;
      await call("grow", { name: "a" });
      await until(() => ["tools", "resources", "prompts"].every((kind) => heard.has(`notifications/${kind}/list_changed`)));
      await subscription?.close?.();
    },
    updated: async (uri) => {
      const subscription = modern ? await client.listen({ resourceSubscriptions: [uri] }) : undefined;
      if (!modern) await client.subscribeResource({ uri });
      await call("grow", { name: "c" });
      await until(() => heard.has("notifications/resources/updated"));
      await subscription?.close?.();
    },
    close: () => client.close(),
  };
});
