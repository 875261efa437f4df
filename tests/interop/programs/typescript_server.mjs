// A server on the TypeScript SDK: `node typescript_server.mjs FOLDER`, where FOLDER holds node_modules.
// With the argument `http` it serves both eras over HTTP, with sessions and resumption, and prints its address first.
import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { Readable } from "node:stream";

const load = createRequire(`${process.argv[2]}/`);
const kit = load("@modelcontextprotocol/server");
const { McpServer, ResourceTemplate } = kit;
const { serveStdio } = load("@modelcontextprotocol/server/stdio");
const { z } = load("zod");

const running = [];
const givenUp = [];
const grown = [];
let modern;
let goOn;
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
  server.registerTool("pause", {}, async (ctx) => {
    const progressToken = ctx.mcpReq._meta?.progressToken;
    const report = (progress, message) =>
      ctx.mcpReq.notify({ method: "notifications/progress", params: { progressToken, progress, total: 2, message } });
    await report(1, "before");
    await new Promise((resolve) => void (goOn = resolve));
    await report(2, "after");
    return text("rested");
  });
  const lists = z.object({ running: z.array(z.string()), given_up: z.array(z.string()) });
  server.registerTool("hung", { outputSchema: lists }, async () => data({ running, given_up: givenUp }));
}

function addGrown(server, name) {
  server.registerTool(`grown_${name}`, {}, async () => text(name));
  server.registerResource(name, `grown://${name}`, {}, async (uri) => ({ contents: [{ uri: uri.href, text: name }] }));
  server.registerPrompt(`grown_${name}`, {}, () => ({ messages: [] }));
}

function addAsking(server) {
  const schema = { type: "object", properties: { name: { type: "string" } }, required: ["name"] };
  const hello = { messages: [{ role: "user", content: { type: "text", text: "Hello" } }], maxTokens: 5 };
  const form = { message: "Who?", requestedSchema: schema };
  const ask = async (ctx, options) => {
    const who = await ctx.mcpReq.elicitInput({ mode: "form", ...form }, options);
    const said = await ctx.mcpReq.requestSampling(hello, options);
    return text(`${who.action} ${who.content.name} ${said.content.text}`);
  };
  server.registerTool("ask_directly", {}, (ctx) => ask(ctx, { relatedRequestId: ctx.mcpReq.id }));
  server.registerTool("ask_elsewhere", {}, (ctx) => ask(ctx));
  server.registerTool("ask_in_rounds", {}, async (ctx) => {
    const answers = ctx.mcpReq.inputResponses;
    if (!answers) {
      const who = kit.inputRequired.elicit(form);
      const said = kit.inputRequired.createMessage(hello);
      return kit.inputRequired({ inputRequests: { who, said }, requestState: "as it was" });
    }
    const { who, said } = answers;
    return text(`${who.action} ${who.content.name} ${said.content.text} ${ctx.mcpReq.requestState()}`);
  });
}

function addRest(server) {
  server.registerTool("grow", { inputSchema: z.object({ name: z.string() }) }, async ({ name }) => {
    grown.push(name);
    addGrown(server, name);
    modern?.notify.toolsChanged();
    modern?.notify.resourcesChanged();
    modern?.notify.promptsChanged();
    return text("grown");
  });
  server.registerTool("touch", { inputSchema: z.object({ uri: z.string() }) }, async ({ uri }, ctx) => {
    modern?.notify.resourceUpdated(uri);
    if (!modern || ctx.sessionId) await server.server.sendResourceUpdated({ uri });
    return text("touched");
  });
  server.registerTool("talk", {}, async (ctx) => {
    await ctx.mcpReq.log("info", "told");
    return text("done");
  });
  const done = async () => ({});
  server.server.setRequestHandler("resources/subscribe", done);
  server.server.setRequestHandler("resources/unsubscribe", done);
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
  const completed = (value) => ["pascal", "perl", "python"].filter((name) => name.startsWith(value ?? ""));
  const code = z.object({ code: z.string().describe("What to review."), language: kit.completable(z.string(), completed).optional() });
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

function build() {
  const capabilities = { logging: {}, resources: { subscribe: true } };
  const server = new McpServer({ name: "typed", version: "2.0.0" }, { instructions: "Ask away.", capabilities });
  addTools(server);
  addHanging(server);
  addAsking(server);
  addRest(server);
  for (const name of grown) addGrown(server, name);
  return server;
}

class Events {
  kept = [];

  async storeEvent(stream, message) {
    this.kept.push([stream, message]);
    return String(this.kept.length);
  }

  async getStreamIdForEventId(id) {
    return this.kept[Number(id) - 1]?.[0];
  }

  async replayEventsAfter(id, { send }) {
    const stream = this.kept[Number(id) - 1][0];
    for (let next = Number(id); next < this.kept.length; next++) {
      const [of, message] = this.kept[next];
      if (of === stream && message.jsonrpc) await send(String(next + 1), message);
    }
    return stream;
  }
}

// One instance for each session of the handshake era; later, one for each request.
async function legacy(sessions, request) {
  const known = sessions.get(request.headers.get("mcp-session-id"));
  if (known) return known.handleRequest(request);
  if (request.method !== "POST") return new Response("No such session", { status: 404 });
  const transport = new kit.WebStandardStreamableHTTPServerTransport({
    sessionIdGenerator: randomUUID,
    eventStore: new Events(),
    retryInterval: 50,
    onsessioninitialized: (id) => void sessions.set(id, transport),
    onsessionclosed: (id) => void sessions.delete(id),
  });
  await build().connect(transport);
  return transport.handleRequest(request);
}

// Each chunk goes out as it comes, and a client that goes away cancels its stream.
async function bridge(answer, req, res) {
  const body = req.method === "POST" ? { body: Readable.toWeb(req), duplex: "half" } : {};
  const gone = new AbortController();
  const options = { method: req.method, headers: req.headers, signal: gone.signal, ...body };
  res.on("close", () => gone.abort());
  const response = await answer(new Request(`http://${req.headers.host}${req.url}`, options));
  res.writeHead(response.status, Object.fromEntries(response.headers)).flushHeaders();
  if (!response.body) return res.end();
  const stream = Readable.fromWeb(response.body);
  res.on("close", () => stream.destroy());
  stream.on("error", () => {}).pipe(res);
}

function serveHttp() {
  const sessions = new Map();
  modern = kit.createMcpHandler(build, { legacy: "reject" });
  const serve = async (request) => ((await kit.isLegacyRequest(request)) ? legacy(sessions, request) : modern.fetch(request));
  const answer = async (request) => (request.url.endsWith("/release") ? new Response(goOn()) : serve(request));
  const server = createServer((req, res) => bridge(answer, req, res));
  server.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${server.address().port}`));
}

if (process.argv[3] === "http") serveHttp();
else serveStdio(build);
