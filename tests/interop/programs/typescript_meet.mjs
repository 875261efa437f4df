// A client of the TypeScript SDK on the newest revision: `node typescript_meet.mjs FOLDER REVISION URL` calls `meet`.
import { createRequire } from "node:module";

const [folder, revision, url] = process.argv.slice(2);
const { Client, StreamableHTTPClientTransport } = createRequire(`${folder}/`)("@modelcontextprotocol/client");

const client = new Client({ name: "typed", version: "1" }, { versionNegotiation: { mode: { pin: revision } } });
await client.connect(new StreamableHTTPClientTransport(new URL(url)));
const result = await client.callTool({ name: "meet", arguments: {} });
console.log(client.getNegotiatedProtocolVersion(), result.content[0].text);
await client.close();
