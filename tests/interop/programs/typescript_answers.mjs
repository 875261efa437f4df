// The client of the TypeScript SDK, answering: `node typescript_answers.mjs FOLDER MODE COMMAND...` prints what it got.
import { createRequire } from "node:module";

const [folder, mode, command, ...args] = process.argv.slice(2);
const load = createRequire(`${folder}/`);
const { Client } = load("@modelcontextprotocol/client");
const { StdioClientTransport } = load("@modelcontextprotocol/client/stdio");
const { StreamableHTTPClientTransport } = load("@modelcontextprotocol/client");

const capabilities = { elicitation: { form: {}, url: {} }, sampling: {}, roots: {} };
const pinned = mode === "legacy" ? mode : { pin: mode };
const client = new Client({ name: "typed", version: "1" }, { capabilities, versionNegotiation: { mode: pinned } });
const asked = [];
const answers = {
  "What will it be?": { name: "Ann", amount: 2, size: "small", colour: "#0f0" },
  "First?": { value: 4 },
  "8?": { value: 5 },
  "Yes?": { value: true },
  "Sure?": { value: true },
  "Who?": { value: "Ann" },
  "Say?": { value: "blue" },
};

client.setRequestHandler("elicitation/create", async ({ params }) => {
  asked.push(params.message);
  const content = answers[params.message];
  return content ? { action: "accept", content } : { action: "accept" };
});
client.setRequestHandler("sampling/createMessage", async ({ params }) => ({
  role: "assistant",
  model: "m",
  content: { type: "text", text: `${params.messages.length} messages, ${params.systemPrompt}` },
}));
client.setRequestHandler("roots/list", async () => ({ roots: [{ uri: "file:///srv", name: "srv" }] }));

const texts = ({ content }) => content.map(({ text }) => text);
const remote = command.startsWith("http");
await client.connect(remote ? new StreamableHTTPClientTransport(new URL(command)) : new StdioClientTransport({ command, args }));
const got = { revision: client.getNegotiatedProtocolVersion(), asked };
for (const name of ["order", "chain", "together", "sample", "roots", "by_hand", "page"]) {
  const result = await client.callTool({ name, arguments: {} });
  got[name] = { error: result.isError ?? false, text: texts(result) };
}
got.behind_page = await client.callTool({ name: "behind_page", arguments: { user: "ann" } }).then(
  (result) => ({ text: texts(result) }),
  ({ code, data }) => ({ code, data }),
);
got.greet = (await client.getPrompt({ name: "greet", arguments: {} })).messages[0].content.text;
got.note = (await client.readResource({ uri: "note://sea" })).contents[0].text;
await client.close();
console.log(JSON.stringify(got));
