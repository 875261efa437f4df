// A server on the TypeScript SDK: `node typescript_server.mjs FOLDER`, where FOLDER holds node_modules.
import { createRequire } from "node:module";

const load = createRequire(`${process.argv[2]}/`);
const { McpServer, ResourceTemplate } = load("@modelcontextprotocol/server");
const { serveStdio } = load("@modelcontextprotocol/server/stdio");
const { z } = load("zod");

const running = [];
const givenUp = [];
const text = (value) => ({ content: [{ type: "text", text: value }] });
const data = (value) => ({ ...text(JSON.stringify(value)), structuredContent: value });
const bytes = (value) => Buffer.from(value).toString("base64");

function addTools(server) {
  server.registerTool(
    "point",
    {
      title: "Point",
      description: "A place on the plane.",
      inputSchema: z.object({ x: z.number().int(), y: z.number().default(0.5) }),
      outputSchema: z.object({ x: z.number().int(), y: z.number() }),
      annotations: { readOnlyHint: true },
    },
    async (args) => data(args),
  );
  server.registerTool("blocks", {}, async () => ({
    content: [
      { type: "text", text: "words" },
      { type: "image", data: bytes("\x01PNG"), mimeType: "image/png" },
      { type: "audio", data: bytes("RIFF"), mimeType: "audio/wav" },
      { type: "resource_link", uri: "note://static", name: "static", description: "A note" },
      { type: "resource", resource: { uri: "note://inside", text: "inside", mimeType: "text/plain" } },
      { type: "resource", resource: { uri: "note://bytes", blob: "AAEC", mimeType: "application/x-bytes" } },
    ],
  }));
  server.registerTool("fail", {}, async () => {
    throw new Error("no such luck");
  });
  server.registerTool("count", { inputSchema: z.object({ steps: z.number() }) }, async ({ steps }, ctx) => {
    const progressToken = ctx.mcpReq._meta?.progressToken;
    for (let progress = 1; progress <= steps; progress++) {
      const params = { progressToken, progress, total: steps, message: `step ${progress}` };
      await ctx.mcpReq.notify({ method: "notifications/progress", params });
    }
    return text("counted");
  });
}

function addHanging(server) {
  server.registerTool("hang", { inputSchema: z.object({ name: z.string() }) }, async ({ name }, ctx) => {
    running.push(name);
    const progressToken = ctx.mcpReq._meta?.progressToken;
    if (progressToken !== undefined) {
      await ctx.mcpReq.notify({ method: "notifications/progress", params: { progressToken, progress: 1 } });
    }
    const idle = setInterval(() => {}, 1000);
    await new Promise((resolve) => ctx.mcpReq.signal.addEventListener("abort", resolve));
    clearInterval(idle);
    running.splice(running.indexOf(name), 1);
    givenUp.push(name);
    return text("never");
  });
  const lists = z.object({ running: z.array(z.string()), given_up: z.array(z.string()) });
  server.registerTool("hung", { outputSchema: lists }, async () => data({ running, given_up: givenUp }));
}

function addRest(server) {
  server.registerTool("grow", { inputSchema: z.object({ name: z.string() }) }, async ({ name }) => {
    server.registerTool(`grown_${name}`, {}, async () => text(name));
    server.registerResource(name, `grown://${name}`, {}, async (uri) => ({ contents: [{ uri: uri.href, text: name }] }));
    server.registerPrompt(`grown_${name}`, {}, () => ({ messages: [] }));
    return text("grown");
  });
  const note = { title: "Static", description: "A note", mimeType: "text/markdown" };
  server.registerResource("static", "note://static", note, async (uri) => ({
    contents: [{ uri: uri.href, text: "# note", mimeType: "text/markdown" }],
  }));
  server.registerResource("bytes", "note://bytes", { mimeType: "application/x-bytes" }, async (uri) => ({
    contents: [{ uri: uri.href, blob: "AAEC", mimeType: "application/x-bytes" }],
  }));
  const pages = new ResourceTemplate("note://{topic}/{page}", { list: undefined });
  server.registerResource("page", pages, { title: "Page" }, async (uri, { topic, page }) => ({
    contents: [{ uri: uri.href, text: `${topic}, page ${page}` }],
  }));
  const code = z.object({ code: z.string().describe("What to review."), language: z.string().optional() });
  server.registerPrompt("review", { title: "Review", argsSchema: code }, ({ code, language }) => ({
    messages: [{ role: "user", content: { type: "text", text: `Review this ${language ?? "python"}: ${code}` } }],
  }));
  const attached = { type: "resource", resource: { uri: "note://static", text: "# note" } };
  server.registerPrompt("chat", {}, () => ({
    messages: [
      { role: "user", content: attached },
      { role: "assistant", content: { type: "text", text: "Noted." } },
    ],
  }));
}

serveStdio(() => {
  const server = new McpServer({ name: "typed", version: "2.0.0" }, { instructions: "Ask away." });
  addTools(server);
  addHanging(server);
  addRest(server);
  return server;
});
