// The client of the TypeScript SDK whose stream breaks: `node typescript_resume.mjs FOLDER VERSION URL`.
// It calls `pause`, prints "paused" at the first progress, and in the end what it heard and got.
import { createRequire } from "node:module";

const [folder, version, url] = process.argv.slice(2);
const load = createRequire(`${folder}/`);
const first = version === "1";
const home = first ? "@modelcontextprotocol/sdk/client" : "@modelcontextprotocol/client";
const { Client } = load(first ? `${home}/index.js` : home);
const { StreamableHTTPClientTransport } = load(first ? `${home}/streamableHttp.js` : home);

const heard = [];
const onprogress = ({ progress, total, message }) => {
  heard.push([progress, total, message]);
  if (heard.length === 1) console.log("paused");
};
const client = new Client({ name: "typed", version: "1" }, first ? {} : { versionNegotiation: { mode: "legacy" } });
await client.connect(new StreamableHTTPClientTransport(new URL(url)));
const asked = { name: "pause", arguments: {} };
const result = await (first ? client.callTool(asked, undefined, { onprogress }) : client.callTool(asked, { onprogress }));
console.log(JSON.stringify({ heard, text: result.content[0].text }));
await client.close();
