// The client of the TypeScript SDK with replicas: `node typescript_replicas.mjs FOLDER MODE URL` prints what it got.
// In a session it also makes a call whose stream breaks: it prints "holding" when the call runs.
import { createRequire } from "node:module";

const [folder, mode, url] = process.argv.slice(2);
const load = createRequire(`${folder}/`);
const { Client, StreamableHTTPClientTransport } = load("@modelcontextprotocol/client");
const COUNTER = "counter://value";

const modern = mode !== "legacy";
const options = { capabilities: { elicitation: { form: {} } }, versionNegotiation: { mode: modern ? { pin: mode } : mode } };
const client = new Client({ name: "typed", version: "1" }, options);
client.setRequestHandler("elicitation/create", async ({ params }) => ({
  action: "accept",
  content: { value: params.message.length },
}));
const updated = [];
client.fallbackNotificationHandler = async ({ method, params }) => {
  if (method === "notifications/resources/updated") updated.push(params.uri);
};
const text = async (name, args = {}) => (await client.callTool({ name, arguments: args })).content[0].text;

async function updates() {
  const subscription = modern ? await client.listen({ resourceSubscriptions: [COUNTER] }) : undefined;
  if (!modern) await client.subscribeResource({ uri: COUNTER });
  for (let number = 1; number <= 4; number++) {
    await text("change");
    while (updated.length < number) await new Promise((resolve) => setTimeout(resolve, 10));
  }
  await subscription?.close();
  return updated;
}

async function hold() {
  const heard = [];
  const onprogress = ({ progress, total, message }) => {
    heard.push([progress, total, message]);
    if (heard.length === 1) console.log("holding");
  };
  const result = await client.callTool({ name: "hold", arguments: { key: "held" } }, { onprogress });
  return { text: result.content[0].text, heard };
}

await client.connect(new StreamableHTTPClientTransport(new URL(url)));
const got = { revision: client.getNegotiatedProtocolVersion(), processes: [], ask: [] };
for (let number = 0; number < 6; number++) got.processes.push(await text("process"));
for (let number = 0; number < 4; number++) got.ask.push(await text("ask", { key: `ask${number}` }));
got.updates = await updates();
if (!modern) got.hold = await hold();
await client.close();
console.log(JSON.stringify(got));
