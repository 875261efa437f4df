// The MCP client of Mastra; calls go through its tools.
import { MCPClient } from "@mastra/mcp";
import { run } from "./tour.mjs";

const PREFIX = "compat_";

run(async (kind, mode, [command, ...args]) => {
  const server = kind === "stdio" ? { command, args } : { url: new URL(command) };
  const client = new MCPClient({ id: "compat", servers: { compat: server }, timeout: 20_000 });
  const listed = () => client.listTools?.() ?? client.getTools();
  const tools = await listed();
  return {
    tools: async () => Object.keys(tools).map((name) => name.replace(PREFIX, "")),
    call: (name, args) => tools[PREFIX + name].execute(args, {}),
    isError: (result) => Boolean(result?.isError || result?.error),
    resources: () => client.resources.list(),
    templates: () => client.resources.templates(),
    read: (uri) => client.resources.read("compat", uri),
    prompts: () => client.prompts.list(),
    prompt: (name, args) => client.prompts.get({ serverName: "compat", name, args }),
    close: () => client.disconnect(),
  };
});
