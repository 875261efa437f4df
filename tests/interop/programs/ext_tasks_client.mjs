// The client of @modelcontextprotocol/ext-tasks, for both generations of tasks: `node ext_tasks_client.mjs FOLDER URL MODE` prints what it saw.
// MODE is "legacy" or a revision. On 2026-07-28 the package leaves the wire to its host: `dispatch` below is that.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [folder, url, mode] = process.argv.slice(2);
const load = createRequire(`${folder}/`);
const { Client, StreamableHTTPClientTransport } = load("@modelcontextprotocol/client");
const home = `${folder}/node_modules/@modelcontextprotocol/ext-tasks/dist/client/index.js`;
const { createTaskSessionFromClient, createApplicationInputHandler, resultFromTaskOutcome } = await import(pathToFileURL(home));

const clientInfo = { name: "ext-tasks", version: "1" };
const capabilities = { elicitation: { form: {} } };
const pinned = mode === "legacy" ? mode : { pin: mode };
const client = new Client(clientInfo, { capabilities, versionNegotiation: { mode: pinned } });
await client.connect(new StreamableHTTPClientTransport(new URL(url)));

let lastId = 1000;
const sent = [];

async function dispatch({ method, params }, { signal, context } = {}) {
  const name = params.taskId ?? params.name;
  sent.push(method);
  const response = await fetch(url, {
    method: "POST",
    signal,
    headers: {
      "Content-Type": "application/json",
      Accept: "application/json, text/event-stream",
      "MCP-Protocol-Version": mode,
      "Mcp-Method": method,
      ...(name === undefined ? {} : { "Mcp-Name": name }),
      ...context?.headers,
    },
    body: JSON.stringify({ jsonrpc: "2.0", id: ++lastId, method, params }),
  });
  const text = await response.text();
  const events = response.headers.get("content-type").startsWith("text/event-stream");
  const lines = events ? text.split("\n").filter((line) => line.startsWith("data:")).map((line) => line.slice(5)) : [text];
  const answer = lines.filter((line) => line.trim()).map((line) => JSON.parse(line)).find(({ id }) => id === lastId);
  return answer.error ? { kind: "error", error: answer.error } : { kind: "result", result: answer.result };
}

const asked = [];
const onInputRequest = createApplicationInputHandler({
  elicitation: async ({ params }, { scope, delivery }) => {
    asked.push({ message: params.message, scope, delivery });
    return { action: "accept", content: { style: "cubist" } };
  },
  sampling: async () => ({ model: "m", role: "assistant", content: { type: "text", text: "Blue" } }),
  roots: async () => ({ roots: [] }),
});
const declared = new Map((await client.listTools()).tools.map((tool) => [tool.name, tool]));
const session = createTaskSessionFromClient(client, {
  endpointId: "tasks",
  onInputRequest,
  tools: {
    currentTool: (name) => {
      const { inputSchema, execution } = declared.get(name);
      return { name, inputSchema, ...(execution ? { taskSupport: execution.taskSupport } : {}) };
    },
  },
  ...(mode === "legacy" ? {} : {
    rawDispatch: dispatch,
    v2RequestFraming: { protocolVersion: mode, clientInfo, clientCapabilities: capabilities },
  }),
});

async function call(name, given = {}) {
  const execution = await session.callTool(name, given, { task: { preference: "prefer" } });
  const statuses = [];
  const onEvent = ({ type, task }) => type === "task" && statuses.push(task.status);
  const { outcome } = await execution.settle({ onEvent });
  const { error } = outcome;
  return {
    kind: execution.kind,
    statuses,
    status: outcome.status,
    result: outcome.status === "completed" ? resultFromTaskOutcome(outcome) : undefined,
    error: error && { code: error.code, message: error.message, data: error.data },
  };
}

const seen = { capabilities: client.getServerCapabilities(), asked, sent };
// On 2025-11-25 it waits for a question on any stream, and does not ask for the result, which would bring it.
const calls = { render: { scene: "sea" }, ...(mode === "legacy" ? {} : { paint: {} }), refuse: {}, break_down: {} };
for (const [name, given] of Object.entries(calls)) seen[name] = await call(name, given);
seen.add = await session.callTool("add", { a: 1, b: 2 }).then(async (execution) => ({ kind: execution.kind, result: resultFromTaskOutcome((await execution.settle()).outcome) }));
const holding = await session.callTool("hold", {}, { task: { preference: "prefer" } });
seen.reference = holding.serializeReference();
await holding.cancel();
seen.hold = (await holding.settle()).outcome.status;
await session.close();
await client.close();
console.log(JSON.stringify(seen));
process.exit(0);
